// outer-step: what brings together ranks that trained alone is one step, the declared one, on all of
// them.
#include <array>
#include <bit>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "lockstep/base/text.h"
#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/detail/mean_fit.h"
#include "lockstep/laws/report.h"
#include "lockstep/laws/rules/checkers.h"
#include "lockstep/laws/rules/detail/open_ballots.h"

namespace lockstep::laws {

namespace {

constexpr std::string_view kOuterStep = "outer-step";

/// What an event says, in the order of the ballot's words.
enum class OuterField : std::uint8_t {
  kKind,
  kStep,
  kDenominator,
  kLr,
  kMomentum,
  kNesterov,
  kTensors
};

constexpr std::array<std::string_view, 7> kOuterFields = {
    "outer", "step", "denominator", "lr", "momentum", "nesterov", "names"};

/// Parameters that a program averages by itself: what ranks had apart after a step that none of them
/// reduced gradients for, and equal as they went on.
///
/// Whether that is their mean is judged only where a factor explains all of it: a program may also
/// copy one rank's parameters, or step an outer optimizer of its own.
class OwnAverages {
 public:
  explicit OwnAverages(const LawPolicy& policy) : n_ranks_(policy.n_ranks), exact_(policy.exact) {}

  void on_wrap(const Event& event, const WrapEvent& wrap) { wrappers_.on_wrap(event, wrap); }

  void on_lone(const Event& event, const LoneEvent& lone, const NameTable& names) {
    const WrapperKey wrapper = wrapper_of(event.at);
    const auto place = open_.try_emplace({wrapper, event.at.opt}).first;
    Step& step = place->second;
    Side& side = lone.point == LonePoint::kStepped ? step.stepped : step.found;
    side[to_int(event.rank)] = {{lone.digests.begin(), lone.digests.end()},
                                {lone.sketches.begin(), lone.sketches.end()}};
    step.layout = lone.layout;
    step.n_elems.assign(lone.n_elems.begin(), lone.n_elems.end());
    step.dtype = lone.dtype;
    const auto n = static_cast<std::size_t>(wrappers_.n_members(wrapper, n_ranks_));
    if (step.found.size() >= n && step.stepped.size() >= n) {
      judge(wrapper, event.at.opt, step, names);
      open_.erase(place);
    } else if (open_.size() > kMostOpen) {
      open_.erase(open_.begin());
    }
  }

  std::int64_t n_checked() const { return n_checked_; }

  std::vector<Finding> take_findings() { return std::move(findings_); }

 private:
  static constexpr std::size_t kMostOpen = 64;

  struct Look {
    std::vector<std::uint64_t> digests;
    std::vector<Sketch> sketches;
  };

  using Side = std::map<std::int32_t, Look>;  // By rank.

  struct Step {
    Side stepped;
    Side found;
    LayoutId layout = kNoLayout;
    std::vector<std::int64_t> n_elems;
    DType dtype = DType::kF32;
  };

  static bool is_equal(const Side& side, std::size_t i) {
    const std::uint64_t first = side.begin()->second.digests[i];
    return std::all_of(side.begin(), side.end(), [&](const auto& entry) {
      return entry.second.digests[i] == first;
    });
  }

  void judge(WrapperKey wrapper, std::int32_t opt, const Step& step, const NameTable& names) {
    const std::size_t n = step.stepped.size();
    const Weights mean = Weights::uniform(n, 1.0, static_cast<double>(n));
    std::vector<OneReduction> wrong;
    std::vector<NameId> tensors;
    for (std::size_t i = 0; i < step.n_elems.size(); ++i) {
      if (is_equal(step.stepped, i) || !is_equal(step.found, i)) continue;
      OneReduction one{{}, &step.found.begin()->second.sketches[i], step.n_elems[i], step.dtype};
      for (const auto& [rank, look] : step.stepped) one.locals.push_back(&look.sketches[i]);
      ++n_checked_;
      if (explains(mean, one, exact_)) continue;
      wrong.push_back(std::move(one));
      tensors.push_back(names.layout(step.layout)[i]);
    }
    if (wrong.empty()) return;
    const std::optional<Fit> found = fit(wrong, mean, exact_);
    if (!found || found->weights.numerators.empty()) return;
    const std::vector<double> weights = found->weights.values();
    const bool scaled = std::all_of(
        weights.begin(), weights.end(), [&](double weight) { return weight == weights.front(); });
    if (scaled && reported_.insert(wrapper).second) {
      report(wrapper, opt, tensors.front(), *found, names);
    }
  }

  void report(WrapperKey wrapper,
              std::int32_t opt,
              NameId tensor,
              const Fit& found,
              const NameTable& names) {
    const std::vector<double> weights = found.weights.values();
    const double n = static_cast<double>(weights.size());
    Finding finding;
    finding.attempt = wrapper.attempt;
    finding.event = "lone";
    finding.tensor = names.text(tensor);
    finding.field = "denominator";
    finding.step = opt - 1;
    finding.weights = weights;
    finding.declared = Weights::uniform(weights.size(), 1.0, n).values();
    finding.message =
        "the manually averaged parameter is not the mean over the ranks: " + found.message;
    finding.cause = Cause::kOuterStepDenominator;
    findings_.push_back(std::move(finding));
  }

  std::int32_t n_ranks_;
  bool exact_;
  Wrappers wrappers_;
  std::map<std::pair<WrapperKey, std::int32_t>, Step> open_;
  std::set<WrapperKey> reported_;
  std::vector<Finding> findings_;
  std::int64_t n_checked_ = 0;
};

class OuterStep final : public Law {
 public:
  explicit OuterStep(const LawPolicy& policy) : own_(policy) {}

  const LawInfo& info() const override { return *find_law(kOuterStep); }

  EventKinds reads() const override {
    return kinds_of<OuterStepEvent, StateEvent, GroupEvent, WrapEvent, LoneEvent>();
  }

  void require(RecordOptions& options) const override {
    options.states = true;
    options.lone_steps = true;
  }

  void on_event(const Event& event, const NameTable& names) override {
    if (const auto* outer = std::get_if<OuterStepEvent>(&event.body)) {
      on_outer(event, *outer, names);
    } else if (const auto* state = std::get_if<StateEvent>(&event.body)) {
      if (state->point == StatePoint::kOuter) on_state(event, *state, names);
    } else if (const auto* group = std::get_if<GroupEvent>(&event.body)) {
      const bool any = !group->members.empty();
      teams_[{to_int(event.rank), event.at.attempt, group->group}] = any ? group->members[0] : 0;
    } else if (const auto* wrap = std::get_if<WrapEvent>(&event.body)) {
      own_.on_wrap(event, *wrap);
    } else if (const auto* lone = std::get_if<LoneEvent>(&event.body)) {
      own_.on_lone(event, *lone, names);
    }
  }

  void on_cohort(const CohortEvent& event, const NameTable& names) override {
    const auto* state = std::get_if<StateEvent>(&event.first->body);
    if (state != nullptr && state->point != StatePoint::kOuter) return;
    Law::on_cohort(event, names);
  }

  LawResult finish(const NameTable& names) override {
    steps_.finish(
        [&](const AlignmentKey& at, const Ballot& ballot) { judge_step(at, ballot, names); });
    states_.finish(
        [&](const AlignmentKey& at, const Ballot& ballot) { judge_state(at, ballot, names); });
    std::vector<Finding> findings = findings_.take();
    for (Finding& finding : own_.take_findings()) findings.push_back(std::move(finding));
    return conclude(kOuterStep,
                    std::move(findings),
                    n_checked_ + own_.n_checked(),
                    "outer_step events of ranks that trained alone");
  }

 private:
  /// Groups of different ranks may share a number: the lowest member distinguishes them.
  std::int32_t team_of(const Event& event, std::int32_t group) const {
    const auto known = teams_.find({to_int(event.rank), event.at.attempt, group});
    return known == teams_.end() ? 0 : known->second;
  }

  /// The n-th outer step of a group, whatever wrapper it was recorded in.
  AlignmentKey place_of(const Event& event, std::int32_t group, std::int32_t what) {
    Event placeless = event;
    placeless.at = {.attempt = event.at.attempt};
    const std::int32_t team = team_of(event, group);
    AlignmentKey alignment = counter_.next(placeless, what * 4096 + group, kNoLayout);
    alignment.sync = team;
    return alignment;
  }

  void on_outer(const Event& event, const OuterStepEvent& outer, const NameTable& names) {
    const AlignmentKey alignment = place_of(event, outer.group, 0);
    const std::array<std::uint64_t, kOuterFields.size()> words = {
        static_cast<std::uint64_t>(outer.kind),
        static_cast<std::uint64_t>(outer.step),
        std::bit_cast<std::uint64_t>(outer.denominator),
        std::bit_cast<std::uint64_t>(outer.lr),
        std::bit_cast<std::uint64_t>(outer.momentum),
        outer.nesterov ? 1U : 0U,
        static_cast<std::uint64_t>(outer.layout)};
    last_[to_int(event.rank)] = {outer.group, outer.n_ranks};
    ++n_checked_;
    judge_alone(event, alignment, outer);
    steps_.add(
        alignment, event, words, outer.n_ranks, [&](const AlignmentKey& at, const Ballot& b) {
          judge_step(at, b, names);
        });
  }

  /// What is wrong with an outer step on any rank that takes it.
  void judge_alone(const Event& event, const AlignmentKey& alignment, const OuterStepEvent& outer) {
    if (!(outer.lr > 0.0)) {
      add(alignment,
          event,
          "lr",
          "the outer step moves by " + exact(outer.lr) +
              " times the ranks' mean update: against it, or not at all",
          Cause::kOuterStepReversed);
    }
    const double n = outer.n_ranks;
    if (outer.denominator == n) return;
    std::string message = "the sum over " + std::to_string(outer.n_ranks) +
                          " ranks was divided by " + exact(outer.denominator);
    add(alignment, event, "denominator", std::move(message), Cause::kOuterStepDenominator);
  }

  void add(const AlignmentKey& alignment,
           const Event& event,
           std::string_view field,
           std::string message,
           Cause cause) {
    if (!findings_.wants(alignment, field))
      return findings_.add_ranks(alignment, field, {event.rank});
    Finding finding;
    finding.attempt = alignment.wrapper.attempt;
    finding.event = "outer_step";
    finding.field = field;
    finding.ranks = {event.rank};
    finding.step = event.at.opt;
    finding.message = std::move(message);
    finding.cause = cause;
    findings_.add(alignment, field, std::move(finding));
  }

  void on_state(const Event& event, const StateEvent& state, const NameTable& names) {
    const auto last = last_.find(to_int(event.rank));
    if (last == last_.end()) return;
    const std::int32_t what = 1 + static_cast<std::int32_t>(state.kind);
    AlignmentKey alignment = place_of(event, last->second.group, what);
    alignment.layout = static_cast<std::uint32_t>(state.layout);
    states_.add(alignment,
                event,
                state.digests,
                last->second.n_ranks,
                [&](const AlignmentKey& at, const Ballot& b) { judge_state(at, b, names); });
  }

  static std::string value_text(OuterField field, std::uint64_t word, const NameTable& names) {
    if (field == OuterField::kKind) return std::string(names.text(static_cast<NameId>(word)));
    if (field == OuterField::kStep || field == OuterField::kNesterov ||
        field == OuterField::kTensors)
      return std::to_string(word);
    return exact(std::bit_cast<double>(word));
  }

  void judge_step(const AlignmentKey& alignment, const Ballot& ballot, const NameTable& names) {
    n_checked_ += ballot.n_comparisons();
    if (ballot.unanimous()) return;
    for (std::size_t word = 0; word < kOuterFields.size(); ++word) {
      std::vector<Rank> ranks = ballot.minority(word);
      const std::string_view field = kOuterFields[word];
      if (ranks.empty() || !findings_.wants(alignment, field)) continue;
      Finding finding;
      finding.attempt = alignment.wrapper.attempt;
      finding.event = "outer_step";
      finding.field = field;
      finding.step = ballot.majority_opt();
      finding.message = "the ranks take different outer steps: " + std::string(field);
      for (const auto& [value, numbers] : ballot.sides(word)) {
        std::vector<Rank> side;
        for (const std::int32_t number : numbers) side.push_back(Rank{number});
        finding.message += " " + value_text(static_cast<OuterField>(word), value, names) + " on " +
                           ranks_text(side) + ",";
      }
      finding.message.pop_back();
      finding.ranks = std::move(ranks);
      findings_.add(alignment, field, std::move(finding));
      return;  // What else differs follows from it.
    }
  }

  void judge_state(const AlignmentKey& alignment, const Ballot& ballot, const NameTable& names) {
    n_checked_ += ballot.n_comparisons();
    if (ballot.unanimous()) return;
    const std::span<const NameId> layout = names.layout(static_cast<LayoutId>(alignment.layout));
    for (std::size_t i = 0; i < layout.size() && i < ballot.n_words(); ++i) {
      std::vector<Rank> ranks = ballot.minority(i);
      const std::string_view name = names.text(layout[i]);
      if (ranks.empty() || !findings_.wants(alignment, name)) continue;
      Finding finding;
      finding.attempt = alignment.wrapper.attempt;
      finding.event = "outer";
      finding.tensor = name;
      finding.field = "state";
      finding.ranks = std::move(ranks);
      finding.step = ballot.majority_opt();
      finding.message =
          "differs between the ranks after the outer step, which should make it equal";
      findings_.add(alignment, name, std::move(finding));
    }
  }

  struct Team {
    std::int32_t group = 0;
    std::int32_t n_ranks = 1;
  };

  using TeamKey = std::tuple<std::int32_t, std::int32_t, std::int32_t>;  // Rank, attempt, group.

  std::map<TeamKey, std::int32_t> teams_;  // Their lowest members.
  std::map<std::int32_t, Team> last_;      // By rank: of its last outer step.
  OwnAverages own_;
  Counter counter_;
  OpenBallots steps_;
  OpenBallots states_;
  EarliestFindings findings_;
  std::int64_t n_checked_ = 0;
};

}  // namespace

std::unique_ptr<Law> make_outer_step(const LawPolicy& policy) {
  return std::make_unique<OuterStep>(policy);
}

}  // namespace lockstep::laws
