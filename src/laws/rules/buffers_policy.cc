// buffers-policy: where buffers are used, they are what their declared policy makes them.
#include <algorithm>
#include <map>
#include <set>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/rules/checkers.h"
#include "lockstep/laws/rules/detail/buffers/apart_buffers.h"
#include "lockstep/laws/rules/detail/buffers/replaced_buffers.h"
#include "lockstep/laws/rules/detail/open_ballots.h"

namespace lockstep::laws {

namespace {

/// Shows how a loop evaluates.
bool is_for_loops(const Event& event) {
  return std::holds_alternative<PhaseEvent>(event.body) ||
         std::holds_alternative<CollectiveEvent>(event.body);
}

class BuffersPolicy final : public Law {
 public:
  static constexpr std::string_view kId = "buffers-policy";

  explicit BuffersPolicy(const LawPolicy& policy)
      : n_ranks_(policy.n_ranks), declared_(policy.buffers) {}

  const LawInfo& info() const override { return *find_law(kId); }

  EventKinds reads() const override {
    return kinds_of<StateEvent,
                    ForwardEvent,
                    WrapEvent,
                    BufferPolicyEvent,
                    PhaseEvent,
                    CollectiveEvent>();
  }

  void require(RecordOptions& options) const override { options.states = true; }

  void on_event(const Event& event, const NameTable& names) override {
    replaced_.on_event(event, wrappers_, names);
    apart_.on_event(event, wrappers_, names);
    if (const auto* state = std::get_if<StateEvent>(&event.body)) {
      if (state->kind == StateKind::kBuffer) on_buffers(event, *state, names);
    } else if (const auto* forward = std::get_if<ForwardEvent>(&event.body)) {
      went_alone_[rank_wrapper_of(event)] = !forward->synchronizing;
    } else if (const auto* wrap = std::get_if<WrapEvent>(&event.body)) {
      wrappers_.on_wrap(event, *wrap);
      apart_.on_wrap(*wrap, names);
    } else if (const auto* own = std::get_if<BufferPolicyEvent>(&event.body)) {
      for (const NameId buffer : names.layout(own->layout)) {
        own_policies_[{wrapper_of(event.at), buffer}] = own->policy;
        replaced_.declare(wrapper_of(event.at), buffer);
        apart_.declare(wrapper_of(event.at), buffer);
      }
    }
  }

  void on_cohort(const CohortEvent& event, const NameTable& names) override {
    const Event& first = *event.first;
    const auto* state = std::get_if<StateEvent>(&first.body);
    if (state != nullptr && state->kind != StateKind::kBuffer) return;
    if (is_for_loops(first) && !apart_.any()) return;
    const auto* forward = std::get_if<ForwardEvent>(&first.body);
    const RankRange all = all_ranks(event);
    if (forward != nullptr && event.equal() && went_alone_.shares(wrapper_of(first.at), all)) {
      went_alone_.at(wrapper_of(first.at), all) = !forward->synchronizing;
    } else {
      Law::on_cohort(event, names);
    }
  }

  LawResult finish(const NameTable& names) override {
    open_.finish([&](const AlignmentKey& at, const Ballot& ballot) { judge(at, ballot, names); });
    std::vector<Finding> findings = findings_.take();
    for (Finding& one : replaced_.findings(wrappers_, names)) findings.push_back(std::move(one));
    LawResult result =
        conclude(kId,
                 std::move(findings),
                 n_checked_,
                 "buffer events of two ranks or more, with a policy other than local");
    if (declared_ != BufferPolicy::kNone) return result;
    result.advice = replaced_.advice(wrappers_, names);
    for (Advice& one : apart_.advice(names)) result.advice.push_back(std::move(one));
    return result;
  }

 private:
  void on_buffers(const Event& event, const StateEvent& state, const NameTable& names) {
    const WrapperKey wrapper = wrapper_of(event.at);
    if (!may_be_promised(state, wrapper, names)) return;
    // Buffers are broadcast as the forward before this one asked for: not after one under no_sync.
    const bool* const before = went_alone_.find(rank_wrapper_of(event));
    const bool alone = before != nullptr && *before;
    if (alone && state.point == StatePoint::kForward) return;
    const AlignmentKey alignment =
        counter_.next(event, static_cast<std::int32_t>(state.point), state.layout);
    open_.add(alignment,
              event,
              state.digests,
              wrappers_.n_members(wrapper, n_ranks_),
              [&](const AlignmentKey& at, const Ballot& ballot) { judge(at, ballot, names); });
  }

  /// What the wrapper does.
  BufferPolicy practice(WrapperKey wrapper) const {
    const WrapEvent* wrap = wrappers_.find(wrapper);
    return wrap == nullptr ? BufferPolicy::kNone : wrap->buffer_policy;
  }

  /// All buffers of this wrapper did, so nothing broadcasts them.
  bool came_late(WrapperKey wrapper, const NameTable& names) const {
    const WrapEvent* wrap = wrappers_.find(wrapper);
    return wrap != nullptr && names.layout(wrap->buffers).empty();
  }

  /// What is meant of one buffer: by its name, for the whole job, or as the wrapper does.
  BufferPolicy policy_of(WrapperKey wrapper, NameId buffer) const {
    const auto own = own_policies_.find({wrapper, buffer});
    if (own != own_policies_.end()) return own->second;
    return declared_ == BufferPolicy::kNone ? practice(wrapper) : declared_;
  }

  bool may_be_promised(const StateEvent& state, WrapperKey wrapper, const NameTable& names) const {
    const std::span<const NameId> buffers = names.layout(state.layout);
    return std::any_of(buffers.begin(), buffers.end(), [&](NameId buffer) {
      return is_promised(state.point, wrapper, policy_of(wrapper, buffer));
    });
  }

  /// Whether ranks must agree there. Local statistics of training batches are healthy between two
  /// forwards, and of a broadcast policy rank 0's copy is the truth: only a use of another rank's
  /// breaks it.
  bool is_promised(StatePoint point, WrapperKey wrapper, BufferPolicy policy) const {
    if (policy == BufferPolicy::kLocal || policy == BufferPolicy::kNone) return false;
    if (point == StatePoint::kForward || point == StatePoint::kEval) return true;
    if (point != StatePoint::kSave && point != StatePoint::kEnd) return false;
    return policy != BufferPolicy::kBroadcast0 || practice(wrapper) != BufferPolicy::kBroadcast0;
  }

  void judge(const AlignmentKey& alignment, const Ballot& ballot, const NameTable& names) {
    n_checked_ += ballot.n_comparisons();
    if (ballot.unanimous()) return;
    const std::span<const NameId> layout = names.layout(static_cast<LayoutId>(alignment.layout));
    for (std::size_t i = 0; i < layout.size(); ++i) {
      std::vector<Rank> ranks = ballot.against_first(i);
      if (ranks.empty() || wrappers_.ignored(alignment.wrapper, layout[i], names)) continue;
      const auto point = static_cast<StatePoint>(alignment.what);
      const BufferPolicy policy = policy_of(alignment.wrapper, layout[i]);
      if (!is_promised(point, alignment.wrapper, policy)) continue;
      const std::string_view name = names.text(layout[i]);
      if (!findings_.wants(alignment, name)) continue;
      findings_.add(
          alignment, name, finding_of(alignment, ballot, std::move(ranks), layout[i], names));
    }
  }

  Finding finding_of(const AlignmentKey& alignment,
                     const Ballot& ballot,
                     std::vector<Rank> ranks,
                     NameId name,
                     const NameTable& names) const {
    const auto point = static_cast<StatePoint>(alignment.what);
    const BufferPolicy done = practice(alignment.wrapper);
    const BufferPolicy policy = policy_of(alignment.wrapper, name);
    Finding finding;
    finding.attempt = alignment.wrapper.attempt;
    finding.event = name_of(point);
    finding.tensor = names.text(name);
    finding.field = name_of(policy);
    finding.ranks = std::move(ranks);
    finding.step = ballot.majority_opt();
    finding.message = "the buffer differs from rank 0's";
    if (point == StatePoint::kEval) finding.message += " in an evaluation";
    if (point == StatePoint::kSave) finding.message += " in a checkpoint";
    finding.message += ", although its policy is " + std::string(name_of(policy));
    if (done == BufferPolicy::kLocal)
      finding.message += "; the wrapper does not synchronise buffers";
    const bool unsynchronized = point != StatePoint::kForward || done == BufferPolicy::kLocal;
    finding.cause = unsynchronized ? Cause::kBnLocalEval : Cause::kBufferReassigned;
    if (policy != done && done == BufferPolicy::kBroadcast0)
      finding.cause = Cause::kBufferOverwrittenBy0;
    if (done == BufferPolicy::kBroadcast0 && came_late(alignment.wrapper, names)) {
      finding.cause = Cause::kBufferCameLate;
      finding.message += "; it was registered after wrapping, and the model had no buffers then";
    }
    return finding;
  }

  std::int32_t n_ranks_;
  BufferPolicy declared_;
  std::map<std::pair<WrapperKey, NameId>, BufferPolicy> own_policies_;  // Of buffers that have one.
  RankWrapperMap<bool> went_alone_;  ///< The last forward reduces nothing.
  Wrappers wrappers_;
  Counter counter_;
  OpenBallots open_;
  ReplacedBuffers replaced_;
  ApartBuffers apart_;
  EarliestFindings findings_;
  std::int64_t n_checked_ = 0;
};

}  // namespace

std::unique_ptr<Law> make_buffers_policy(const LawPolicy& policy) {
  return std::make_unique<BuffersPolicy>(policy);
}

}  // namespace lockstep::laws
