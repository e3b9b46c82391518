// decisions-uniform: branches that lead to collectives are taken the same way.
#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/report.h"
#include "lockstep/laws/rules/checkers.h"
#include "lockstep/laws/rules/detail/evaluation_mode.h"
#include "lockstep/laws/rules/detail/open_ballots.h"

namespace lockstep::laws {

namespace {

class DecisionsUniform final : public Law {
 public:
  static constexpr std::string_view kId = "decisions-uniform";

  explicit DecisionsUniform(const LawPolicy& policy)
      : n_ranks_(policy.n_ranks), worlds_(policy.n_ranks) {}

  const LawInfo& info() const override { return *find_law(kId); }

  EventKinds reads() const override {
    return kinds_of<DecisionEvent,
                    SnapshotEvent,
                    PhaseEvent,
                    EnvironmentEvent,
                    WrapEvent,
                    ForwardEvent>();
  }

  void require(RecordOptions& /*options*/) const override {}

  void on_event(const Event& event, const NameTable& names) override {
    worlds_.on_event(event);
    if (const auto* wrap = std::get_if<WrapEvent>(&event.body)) {
      wrappers_.on_wrap(event, *wrap);
    } else if (const auto* forward = std::get_if<ForwardEvent>(&event.body)) {
      meet_in_mode(event, *forward, names);
    } else if (const auto* decision = std::get_if<DecisionEvent>(&event.body)) {
      meet(event, static_cast<std::int32_t>(decision->name), decision->value, names);
    } else if (const auto* snapshot = std::get_if<SnapshotEvent>(&event.body)) {
      // Which snapshot a rank continues from.
      if (snapshot->action == SnapshotAction::kLoad) meet(event, kResume, snapshot->step, names);
    } else if (const auto* phase = std::get_if<PhaseEvent>(&event.body)) {
      // Into which phase the loop turns; returning to training is not a branch.
      if (phase->kind == PhaseKind::kTrain) return;
      meet(event, kPhase, static_cast<std::int64_t>(phase->kind), names);
    }
  }

  void on_cohort(const CohortEvent& event, const NameTable& names) override {
    const auto* forward = std::get_if<ForwardEvent>(&event.first->body);
    // Forwards are many: those in which ranks agree take part in no vote.
    if (forward != nullptr && event.equal() && wrappers_.are_replicas(event, n_ranks_)) {
      if (is_trained_on(*forward)) n_checked_ += kWordsOfForward * (event.n_ranks() - 1);
      mode_.on_forward({event.first->at, *forward}, 0);
      return;
    }
    Law::on_cohort(event, names);
  }

  LawResult finish(const NameTable& names) override {
    open_.finish([&](const AlignmentKey& at, const Ballot& ballot) { judge(at, ballot, names); });
    LawResult result = conclude(
        kId, findings_.take(), n_checked_, "decision, phase or load events from two ranks or more");
    if (result.findings.empty()) result.advice = mode_.advice();
    return result;
  }

 private:
  static constexpr std::int32_t kResume = -1;
  static constexpr std::int32_t kPhase = -2;
  static constexpr std::int32_t kMode = -3;
  static constexpr std::size_t kAutocast = 1;  // The second word of a ballot on the mode.
  static constexpr std::int64_t kWordsOfForward = 2;

  static bool is_trained_on(const ForwardEvent& forward) {
    return forward.through_wrapper && forward.synchronizing && forward.grad;
  }

  // The mode in which a wrapper's forwards run whose gradients are averaged, and in which type.
  void meet_in_mode(const Event& event, const ForwardEvent& forward, const NameTable& names) {
    mode_.on_forward({event.at, forward}, to_int(event.rank));
    if (!is_trained_on(forward)) return;
    const AlignmentKey alignment{wrapper_of(event.at), event.at.sync, kMode, 0, 0};
    const std::uint64_t words[] = {forward.training ? 1U : 0U,
                                   static_cast<std::uint64_t>(forward.autocast)};
    const std::int32_t n_members = wrappers_.n_members(alignment.wrapper, n_ranks_);
    open_.add(
        alignment, event, words, n_members, [&](const AlignmentKey& at, const Ballot& ballot) {
          judge(at, ballot, names);
        });
  }

  void meet(const Event& event, std::int32_t what, std::int64_t value, const NameTable& names) {
    // The n-th time of one rank is paired with the n-th of another: a rank that decided
    // differently before is elsewhere in its steps.
    Event placeless = event;
    placeless.at = {.attempt = event.at.attempt, .wrapper = -1, .opt = event.at.opt};
    const AlignmentKey alignment = counter_.next(placeless, what, kNoLayout);
    const std::uint64_t words[] = {static_cast<std::uint64_t>(value)};
    const std::int32_t n_ranks = worlds_.full(event.at.attempt);
    open_.add(alignment, event, words, n_ranks, [&](const AlignmentKey& at, const Ballot& ballot) {
      judge(at, ballot, names);
    });
  }

  void judge(const AlignmentKey& alignment, const Ballot& ballot, const NameTable& names) {
    n_checked_ += ballot.n_comparisons();
    if (ballot.unanimous()) return;
    if (alignment.what != kMode) {
      const std::string subject = subject_of(alignment.what, names);
      report({alignment, ballot, 0}, subject, "the ranks decide '" + subject + "' differently: ");
      return;
    }
    report({alignment, ballot, 0}, "mode", "the ranks run a training forward in different modes: ");
    report({alignment, ballot, kAutocast},
           "autocast",
           "the ranks run a training forward with different autocast settings: ");
  }

  /// One word of what the ranks of a place reported.
  struct Asked {
    const AlignmentKey& at;
    const Ballot& ballot;
    std::size_t word;

    std::map<std::uint64_t, std::vector<std::int32_t>> sides() const { return ballot.sides(word); }
  };

  void report(const Asked& asked, const std::string& subject, const std::string& message) {
    if (asked.sides().size() < 2 || !findings_.wants(asked.at, subject)) return;
    Finding finding;
    finding.attempt = asked.at.wrapper.attempt;
    finding.event = "decision";
    finding.field = subject;
    const bool is_mode = asked.at.what == kMode && asked.word != kAutocast;
    finding.ranks = is_mode ? evaluating(asked) : asked.ballot.minority(asked.word);
    finding.step = asked.ballot.majority_opt();
    finding.message = message + values_text(asked);
    finding.cause = cause_of(subject);
    findings_.add(asked.at, subject, std::move(finding));
  }

  static std::vector<Rank> evaluating(const Asked& asked) {
    std::vector<Rank> ranks;
    for (const auto& [value, numbers] : asked.sides()) {
      if (value != 0) continue;
      for (const std::int32_t number : numbers) ranks.push_back(Rank{number});
    }
    return ranks;
  }

  static std::string subject_of(std::int32_t what, const NameTable& names) {
    if (what == kResume) return "resume";
    if (what == kPhase) return "phase";
    return std::string(names.text(static_cast<NameId>(what)));
  }

  static std::string values_text(const Asked& asked) {
    std::string text;
    for (const auto& [value, numbers] : asked.sides()) {
      std::vector<Rank> ranks;
      ranks.reserve(numbers.size());
      for (const std::int32_t rank : numbers) ranks.push_back(Rank{rank});
      text += (text.empty() ? "" : ", ") + value_text(asked, value) + " on " + ranks_text(ranks);
    }
    return text;
  }

  static std::string value_text(const Asked& asked, std::uint64_t value) {
    if (asked.at.what == kPhase) return std::string(name_of(static_cast<PhaseKind>(value)));
    if (asked.at.what != kMode) return std::to_string(static_cast<std::int64_t>(value));
    if (asked.word != kAutocast) return value != 0 ? "train()" : "eval()";
    if (value == 0) return "no autocast";
    return "autocast to " + std::string(name_of(static_cast<AutocastType>(value)));
  }

  static Cause cause_of(std::string_view subject) {
    constexpr std::array<std::pair<std::string_view, Cause>, 9> kCauses = {
        {{"signal", Cause::kSignalStopOneRank},
         {"stop", Cause::kEarlyStopOneRank},
         {"resume", Cause::kResumePathDisagrees},
         {"mode", Cause::kEvalModeOneRank},
         {"autocast", Cause::kAutocastOnOneRank},
         {"skip", Cause::kNanSkipOneRank},
         {"best", Cause::kCheckpointDecisionDiffers},
         {"save", Cause::kCheckpointDecisionDiffers},
         {"phase", Cause::kCheckpointDecisionDiffers}}};
    const auto* const known = std::find_if(
        kCauses.begin(), kCauses.end(), [&](const auto& entry) { return entry.first == subject; });
    return known == kCauses.end() ? Cause::kNone : known->second;
  }

  std::int32_t n_ranks_;
  Worlds worlds_;
  Wrappers wrappers_;
  Counter counter_;
  OpenBallots open_;
  EarliestFindings findings_;
  EvaluationMode mode_;
  std::int64_t n_checked_ = 0;
};

}  // namespace

std::unique_ptr<Law> make_decisions_uniform(const LawPolicy& policy) {
  return std::make_unique<DecisionsUniform>(policy);
}

}  // namespace lockstep::laws
