#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <vector>

#include "lockstep/base/text.h"
#include "lockstep/laws/detail/rank_wrapper_map.h"
#include "lockstep/laws/rules/checkers.h"
#include "lockstep/laws/rules/detail/teams.h"
#include "lockstep/laws/rules/per_training.h"

namespace lockstep {

namespace {

using Factory = std::unique_ptr<Law> (*)(const LawPolicy&);

enum class Scope : std::uint8_t {
  kRun,       ///< Compares states and calls, or what one wrapper did.
  kTraining,  ///< Compares what a second training of the program does again.
};

struct Checker {
  std::string_view id;
  Factory make_checker;
  Scope scope = Scope::kRun;

  std::unique_ptr<Law> make(const LawPolicy& policy) const {
    return scope == Scope::kTraining ? laws::make_per_training(make_checker, policy)
                                     : make_checker(policy);
  }
};

/// In the order of the laws' numbers.
constexpr std::array<Checker, 22> kCheckers = {{
    {"init-equal", laws::make_init_equal},
    {"replicas-equal", laws::make_replicas_equal},
    {"optimizer-equal", laws::make_optimizer_equal},
    {"gradient-mean", laws::make_gradient_mean},
    {"reduced-once", laws::make_reduced_once},
    {"collectives-match", laws::make_collectives_match},
    {"progress", laws::make_progress},
    {"buffers-policy", laws::make_buffers_policy},
    {"samples-covered", laws::make_samples_covered, Scope::kTraining},
    {"epoch-reshuffled", laws::make_epoch_reshuffled, Scope::kTraining},
    {"rng-scopes", laws::make_rng_scopes, Scope::kTraining},
    {"single-process-equal", laws::make_single_process_equal},
    {"metric-true", laws::make_metric_true, Scope::kTraining},
    {"in-flight-untouched", laws::make_in_flight_untouched},
    {"environment-bijective", laws::make_environment_bijective},
    {"checkpoint-whole", laws::make_checkpoint_whole},
    {"redo-equal", laws::make_redo_equal},
    {"decisions-uniform", laws::make_decisions_uniform, Scope::kTraining},
    {"accumulated-once", laws::make_accumulated_once},
    {"norm-true", laws::make_norm_true},
    {"outer-step", laws::make_outer_step},
    {"trained-set", laws::make_trained_set},
}};

/// Names of laws are not case sensitive: reports print them in capitals.
std::string lower(std::string_view text) {
  std::string result(text);
  for (char& letter : result) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return result;
}

bool exempts(std::string_view rule, const Finding& finding) {
  const std::size_t at = rule.find('@');
  if (lower(rule.substr(0, at)) != finding.law) return false;
  return at == std::string_view::npos || rule.substr(at + 1) == finding.tensor;
}

void apply_exemptions(LawResult& result, const LawPolicy& policy) {
  const std::size_t n_before = result.findings.size();
  std::erase_if(result.findings, [&](const Finding& finding) {
    return std::any_of(policy.allow.begin(), policy.allow.end(), [&](const std::string& rule) {
      return exempts(rule, finding);
    });
  });
  const std::size_t n_exempted = n_before - result.findings.size();
  if (n_exempted == 0) return;
  if (result.findings.empty()) result.verdict = Verdict::kHolds;
  result.advice.push_back({"A-exempted",
                           std::to_string(n_exempted) +
                               (n_exempted == 1 ? " finding" : " findings") + " of " + result.law +
                               (n_exempted == 1 ? " is" : " are") + " allowed by policy",
                           AdviceSubject::kChecks});
}

/// A law may read kinds that there are none of.
template <typename Visit>
void each_kind(EventKinds kinds, Visit visit) {
  constexpr EventKinds kAll = (EventKinds{1} << std::variant_size_v<EventBody>)-1;
  for (kinds &= kAll; kinds != 0; kinds &= kinds - 1) {
    visit(static_cast<std::size_t>(std::countr_zero(kinds)));
  }
}

/// Whether the law compares what each step's digests cover.
bool reads_steps(const Law& law) { return (law.reads() & kinds_of<GradEvent, StateEvent>()) != 0; }

void tell_coverage(LawResult& result, std::int32_t coverage) {
  const std::string part = "1/" + std::to_string(coverage) + " of each large tensor";
  for (Finding& finding : result.findings) {
    if (finding.tensor.empty()) continue;
    finding.message += " (digests cover " + part +
                       " per step, in rotation: the error may be up to " +
                       std::to_string(coverage - 1) + " steps older)";
  }
  if (result.verdict != Verdict::kHolds) return;
  result.advice.push_back({"A-coverage",
                           result.law + " checked " + part +
                               " per step, in rotation: errors that last fewer than " +
                               std::to_string(coverage) + " steps may have been missed",
                           AdviceSubject::kChecks});
}

}  // namespace

void Law::on_cohort(const CohortEvent& event, const NameTable& names) {
  laws::each(event, [&](const Event& own) { on_event(own, names); });
}

Error unknown_law(std::string_view id) {
  std::vector<std::string_view> ids;
  for (const LawInfo& law : all_laws()) ids.push_back(law.id);
  return Error{"unknown law '" + std::string(id) + "'" + alternatives(id, ids, "the laws are"), ""};
}

std::span<const LawInfo> trace_laws() {
  // The table is constant, so is the selection; a function-local constant is not mutable state.
  static const std::vector<LawInfo> selected_laws = [] {
    std::vector<LawInfo> selected;
    for (const LawInfo& law : all_laws()) {
      if (law.kind != LawKind::kRelation) selected.push_back(law);
    }
    return selected;
  }();
  return selected_laws;
}

Result<std::unique_ptr<Law>> make_law(std::string_view id, const LawPolicy& policy) {
  const std::string wanted = lower(id);
  const LawInfo* const info = find_law(wanted);
  if (info == nullptr) return unknown_law(id);
  if (info->kind == LawKind::kRelation) {
    return Error{"law '" + wanted + "' compares several runs and cannot be checked on one trace",
                 ""};
  }
  for (const Checker& checker : kCheckers) {
    if (checker.id == wanted) return checker.make(policy);
  }
  return Error{"law '" + wanted + "' has no checker yet", ""};
}

Result<LawSet> LawSet::make(const LawPolicy& policy, std::span<const std::string> ids) {
  LawSet set;
  set.policy_ = policy;
  for (const std::string& rule : policy.allow) {
    const std::string_view id = std::string_view(rule).substr(0, rule.find('@'));
    if (find_law(lower(id)) == nullptr) return unknown_law(id);
  }
  set.chosen_ = !ids.empty();
  std::vector<std::string> wanted;
  for (const std::string& id : ids) wanted.push_back(lower(id));
  for (const std::string& id : wanted) {
    // For its error: unknown, without a checker, or about several runs.
    if (Result<std::unique_ptr<Law>> law = make_law(id, policy); !law.ok()) return law.error();
  }
  set.laws_.reserve(kCheckers.size());
  for (const Checker& checker : kCheckers) {
    const bool chosen =
        wanted.empty() || std::find(wanted.begin(), wanted.end(), checker.id) != wanted.end();
    if (chosen) set.laws_.push_back(checker.make(policy));
  }
  set.sort_readers();
  return set;
}

void LawSet::sort_readers() {
  first_readers_.fill(0);
  for (const std::unique_ptr<Law>& law : laws_) {
    each_kind(law->reads(), [&](std::size_t kind) { ++first_readers_[kind + 1]; });
  }
  std::partial_sum(first_readers_.begin(), first_readers_.end(), first_readers_.begin());
  readers_.resize(first_readers_.back());
  std::array<std::uint32_t, std::variant_size_v<EventBody> + 1> next = first_readers_;
  for (const std::unique_ptr<Law>& law : laws_) {
    each_kind(law->reads(), [&](std::size_t kind) { readers_[next[kind]++] = law.get(); });
  }
}

std::span<Law* const> LawSet::readers_of(const EventBody& body) const {
  const std::size_t kind = body.index();
  return std::span(readers_).subspan(first_readers_[kind],
                                     first_readers_[kind + 1] - first_readers_[kind]);
}

LawSet::LawSet() : teams_(std::make_unique<laws::Teams>()) {}

LawSet::LawSet(LawSet&& other) noexcept = default;
LawSet& LawSet::operator=(LawSet&& other) noexcept = default;
LawSet::~LawSet() = default;

void LawSet::tell(const Event& event, const NameTable& names) {
  for (Law* law : readers_of(event.body)) law->on_event(event, names);
}

void LawSet::on_event(const Event& event, const NameTable& names) {
  teams_->on_event(event, policy_.n_ranks);
  if (!teams_->any()) return tell(event, names);
  Event own = event;
  own.at.wrapper = teams_->wrapper_of(event);
  tell(own, names);
}

void LawSet::on_cohort(const CohortEvent& event, const NameTable& names) {
  if (laws::Teams::reads(event.first->body)) {
    laws::each(event, [&](const Event& own) { teams_->on_event(own, policy_.n_ranks); });
  }
  if (teams_->any()) {
    return laws::each(event, [&](const Event& own) { on_event(own, names); });
  }
  for (Law* law : readers_of(event.first->body)) law->on_cohort(event, names);
}

EventKinds LawSet::reads() const {
  EventKinds kinds = kinds_of<WrapEvent, GroupEvent>();
  for (const std::unique_ptr<Law>& law : laws_) kinds |= law->reads();
  return kinds;
}

std::vector<LawResult> LawSet::finish(const NameTable& names) {
  std::vector<LawResult> results;
  results.reserve(laws_.size());
  for (const std::unique_ptr<Law>& law : laws_) {
    LawResult own = law->finish(names);
    // What such a law sees in a trace is an extra: most traces have nothing of it.
    const bool silent = own.verdict == Verdict::kNotCheckable && !chosen_;
    if (silent && law->info().kind == LawKind::kBoth) continue;
    results.push_back(std::move(own));
    if (policy_.coverage > 1 && reads_steps(*law)) tell_coverage(results.back(), policy_.coverage);
    apply_exemptions(results.back(), policy_);
  }
  return results;
}

RecordOptions LawSet::required() const {
  RecordOptions options{.grad_local = false,
                        .grad_post = false,
                        .grad_used = false,
                        .sketches = false,
                        .states = false,
                        .collectives = false,
                        .samples = false,
                        .lone_steps = false};
  for (const std::unique_ptr<Law>& law : laws_) law->require(options);
  return options;
}

}  // namespace lockstep
