// optimizer-equal: every rank's optimizer is in the same state and takes the same steps.
#include <array>
#include <bit>
#include <set>

#include "lockstep/base/text.h"
#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/detail/forward_kinds.h"
#include "lockstep/laws/report.h"
#include "lockstep/laws/rules/checkers.h"
#include "lockstep/laws/rules/detail/open_ballots.h"
#include "lockstep/laws/rules/detail/optimizers/apart_steps.h"
#include "lockstep/laws/rules/detail/optimizers/option_votes.h"
#include "lockstep/laws/rules/detail/optimizers/schedule_lengths.h"
#include "lockstep/laws/rules/detail/parameters/loads.h"

namespace lockstep {

namespace laws {
namespace {

/// What a step event says, in the order of the ballot's words. After a skipped step the number and
/// the scale of later ones differ as well, so the first word that differs is the one to report.
enum class StepField : std::uint8_t { kStep, kSkipped, kLr, kScale };

}  // namespace
}  // namespace laws

template <>
inline constexpr EnumNames<4> kEnumNames<laws::StepField> = {"step", "skipped", "lr", "scale"};

}  // namespace lockstep

namespace lockstep::laws {

namespace {

std::string step_value_text(StepField field, std::uint64_t word) {
  if (field == StepField::kStep) return std::to_string(static_cast<std::int64_t>(word));
  if (field == StepField::kSkipped) return word != 0 ? "skipped" : "taken";
  return exact(std::bit_cast<double>(word));
}

std::string_view what_of(StepField field) {
  if (field == StepField::kStep) return "the optimizers have taken different numbers of steps";
  if (field == StepField::kSkipped) return "only some ranks skipped the step";
  return field == StepField::kLr ? "the learning rates differ" : "the loss scales differ";
}

class OptimizerEqual final : public Law {
 public:
  static constexpr std::string_view kId = "optimizer-equal";

  explicit OptimizerEqual(const LawPolicy& policy) : n_ranks_(policy.n_ranks) {}

  const LawInfo& info() const override { return *find_law(kId); }

  EventKinds reads() const override {
    return kinds_of<StepEvent,
                    StateEvent,
                    WrapEvent,
                    ForwardEvent,
                    BackwardEvent,
                    BatchEvent,
                    OptimizerEvent,
                    EpochEvent,
                    SnapshotEvent,
                    GradEvent>();
  }

  void require(RecordOptions& options) const override {
    options.states = true;
    options.grad_used = true;
  }

  void on_event(const Event& event, const NameTable& names) override {
    forwards_.on_event(event);
    observe(event, one_rank(event), names);
  }

  void on_cohort(const CohortEvent& event, const NameTable& names) override {
    forwards_.on_cohort(event);
    const auto* state = std::get_if<StateEvent>(&event.first->body);
    if (state != nullptr && !is_read(*state)) return;
    const auto* grad = std::get_if<GradEvent>(&event.first->body);
    if (grad != nullptr && !ApartSteps::is_read(*event.first, *grad)) return;
    const bool together = event.equal() && wrappers_.are_replicas(event, n_ranks_) &&
                          counter_.counts(*event.first, all_ranks(event));
    deliver(event, together, [&](const Event& own, RankRange who) { observe(own, who, names); });
  }

  LawResult finish(const NameTable& names) override {
    options_.finish(names);
    steps_.finish([&](const AlignmentKey& at, const Ballot& ballot) { judge_step(at, ballot); });
    states_.finish(
        [&](const AlignmentKey& at, const Ballot& ballot) { judge_state(at, ballot, names); });
    std::vector<Finding> findings = findings_.take();
    for (Finding& finding : findings) explain_by_windows(finding);
    LawResult result = conclude(kId,
                                std::move(findings),
                                n_checked_ + options_.n_checked(),
                                "step events from two ranks or more");
    result.advice = schedules_.advice(wrappers_, n_ranks_);
    std::ranges::move(schedules_.early(), std::back_inserter(result.advice));
    return result;
  }

 private:
  static constexpr std::int32_t kStepMeeting = -1;
  static constexpr std::int32_t kUsedMeeting = -2;

  static bool is_read(const StateEvent& state) {
    return state.kind == StateKind::kOptimizer || state.point == StatePoint::kLoad;
  }

  /// At the end, when the sizes of all windows are known.
  void explain_by_windows(Finding& finding) const {
    const bool of_steps = parse_enum<EventKind>(finding.event) == EventKind::kStep;
    if (!of_steps || parse_enum<StepField>(finding.field) != StepField::kStep) return;
    const std::string windows = forwards_.window_text(finding.attempt);
    if (windows.empty()) return;
    finding.message += "; the ranks accumulate differently: " + windows;
    finding.cause = Cause::kAccumulateDiffers;
  }

  void observe(const Event& event, RankRange who, const NameTable& names) {
    loads_.on_event(event, who);
    if (const auto* step = std::get_if<StepEvent>(&event.body)) {
      schedules_.on_step(event, *step, who);
      on_step(event, *step, who, names);
    } else if (const auto* state = std::get_if<StateEvent>(&event.body)) {
      on_state(event, *state, who, names);
    } else if (const auto* grad = std::get_if<GradEvent>(&event.body)) {
      if (!ApartSteps::is_read(event, *grad)) return;
      const AlignmentKey alignment = counter_.next(event, kUsedMeeting, grad->layout, who);
      const std::int32_t n_members = wrappers_.n_members(alignment.wrapper, n_ranks_);
      apart_.on_used(alignment, event, {grad->digests, who}, n_members);
    } else if (const auto* options = std::get_if<OptimizerEvent>(&event.body)) {
      options_.on_options(event, *options, who, names);
      schedules_.on_options(event, *options, who, names);
    } else if (std::holds_alternative<EpochEvent>(event.body)) {
      schedules_.on_epoch(who);
    } else if (const auto* wrap = std::get_if<WrapEvent>(&event.body)) {
      wrappers_.on_wrap(event, *wrap);
    }
  }

  void on_step(const Event& event, const StepEvent& step, RankRange who, const NameTable& names) {
    const std::array<std::uint64_t, kEnumNames<StepField>.size()> words = {
        static_cast<std::uint64_t>(event.at.opt),
        step.skipped ? 1U : 0U,
        std::bit_cast<std::uint64_t>(step.lr),
        std::bit_cast<std::uint64_t>(step.scale)};
    const AlignmentKey alignment = counter_.next(event, kStepMeeting, step.layout, who);
    if (is_of_ignored(wrappers_, alignment.wrapper, names.layout(step.layout), names)) return;
    if (step.scale != 1.0) scaled_.insert(alignment.wrapper);
    steps_.add(alignment,
               event,
               {words, who},
               wrappers_.n_members(alignment.wrapper, n_ranks_),
               [&](const AlignmentKey& at, const Ballot& ballot) { judge_step(at, ballot); });
  }

  void on_state(const Event& event,
                const StateEvent& state,
                RankRange who,
                const NameTable& names) {
    if (state.kind != StateKind::kOptimizer) return;
    const AlignmentKey alignment =
        counter_.next(event, static_cast<std::int32_t>(state.point), state.layout, who);
    states_.add(
        alignment,
        event,
        {state.digests, who},
        wrappers_.n_members(alignment.wrapper, n_ranks_),
        [&](const AlignmentKey& at, const Ballot& ballot) { judge_state(at, ballot, names); });
  }

  void judge_step(const AlignmentKey& alignment, const Ballot& ballot) {
    n_checked_ += ballot.n_comparisons();
    if (ballot.unanimous()) return;
    for (std::size_t i = 0; i < kEnumNames<StepField>.size(); ++i) {
      std::vector<Rank> ranks = ballot.minority(i);
      if (ranks.empty()) continue;
      // One finding a wrapper: the other fields follow from the first that differs.
      if (findings_.wants(alignment, ""))
        findings_.add(alignment, "", step_finding(alignment, ballot, i));
      return;
    }
  }

  Finding step_finding(const AlignmentKey& alignment,
                       const Ballot& ballot,
                       std::size_t word) const {
    Finding finding;
    finding.attempt = alignment.wrapper.attempt;
    finding.event = name_of(EventKind::kStep);
    const auto field = static_cast<StepField>(word);
    finding.field = lockstep::name_of(field);
    finding.ranks = ballot.minority(word);
    finding.step = ballot.majority_opt();
    finding.message =
        std::string(what_of(field)) + ": " + sides_text(ballot, word, [&](std::uint64_t value) {
          return step_value_text(field, value);
        });
    finding.cause = cause_of(field, alignment.wrapper);
    return finding;
  }

  Cause cause_of(StepField field, WrapperKey wrapper) const {
    if (field == StepField::kLr)
      return loads_.into(wrapper) ? Cause::kOptStateRootOnly : Cause::kLrPerRank;
    if (const Cause other_way = forwards_.difference(wrapper); other_way != Cause::kNone)
      return other_way;
    // The first field that differs: no rank has skipped a step alone.
    if (field == StepField::kScale) {
      return loads_.into(wrapper) ? Cause::kOptStateRootOnly : Cause::kOptimizerOptionsDiffer;
    }
    if (scaled_.contains(wrapper)) return Cause::kScalerInfLocal;
    return Cause::kNanSkipOneRank;
  }

  void judge_state(const AlignmentKey& alignment, const Ballot& ballot, const NameTable& names) {
    n_checked_ += ballot.n_comparisons();
    if (ballot.unanimous() || apart_.any_of(alignment.wrapper)) return;
    const std::span<const NameId> layout = names.layout(static_cast<LayoutId>(alignment.layout));
    for (std::size_t i = 0; i < layout.size(); ++i) {
      const std::string_view name = names.text(layout[i]);
      std::vector<Rank> ranks = ballot.minority(i);
      if (ranks.empty() || !findings_.wants(alignment, name)) continue;
      if (is_state_of_ignored(alignment.wrapper, name, names)) continue;
      Finding finding;
      finding.attempt = alignment.wrapper.attempt;
      finding.event = name_of(static_cast<StatePoint>(alignment.what));
      finding.tensor = name;
      finding.field = "state";
      finding.ranks = std::move(ranks);
      finding.step = ballot.majority_opt();
      const std::int32_t n = wrappers_.n_members(alignment.wrapper, n_ranks_);
      const bool loaded = loads_.into(alignment.wrapper) ||
                          !loads_.lone_readers(alignment.wrapper.attempt, n).empty();
      finding.message = "the optimizer's state differs from the other ranks'";
      if (loaded) finding.message += "; it was loaded from a checkpoint";
      finding.cause = loaded ? Cause::kOptStateRootOnly : Cause::kNone;
      findings_.add(alignment, name, std::move(finding));
    }
  }

  /// "weight/momentum_buffer" belongs to "weight".
  bool is_state_of_ignored(WrapperKey wrapper,
                           std::string_view state,
                           const NameTable& names) const {
    const WrapEvent* wrap = wrappers_.find(wrapper);
    if (wrap == nullptr || wrap->ignored == kNoLayout) return false;
    const std::string_view parameter = state.substr(0, state.rfind('/'));
    const std::span<const NameId> ignored = names.layout(wrap->ignored);
    return std::any_of(
        ignored.begin(), ignored.end(), [&](NameId name) { return names.text(name) == parameter; });
  }

  std::int32_t n_ranks_;
  Wrappers wrappers_;
  ForwardKinds forwards_;
  Counter counter_;
  OpenBallots steps_;
  OpenBallots states_;
  ApartSteps apart_;
  ScheduleLengths schedules_;
  std::set<WrapperKey> scaled_;
  Loads loads_;
  EarliestFindings findings_;
  OptionVotes options_{{n_ranks_, wrappers_, counter_, findings_}};
  std::int64_t n_checked_ = 0;
};

}  // namespace

std::unique_ptr<Law> make_optimizer_equal(const LawPolicy& policy) {
  return std::make_unique<OptimizerEqual>(policy);
}

}  // namespace lockstep::laws
