#include "lockstep/harness/timing/rank_steps.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "lockstep/harness/timing/detail/intervals.h"
#include "lockstep/trace/timeline.h"

namespace lockstep {

namespace {

/// Reads one rank's events, step after step.
class Steps {
 public:
  Steps(std::int32_t rank, std::vector<StepTimes>& all) : rank_(rank), all_(all) {}

  void on_event(const Event& event);

 private:
  /// A call as both its events name it. A message has numbers of its own per pair and tag.
  using Key = std::tuple<std::int32_t, std::int64_t, CollectiveOp, std::int32_t, std::int32_t>;

  struct Call {
    std::int64_t posted = 0;
    bool awaited = false;
    bool async = false;
  };

  static Key key_of(const CollectiveEvent& call);
  void on_posted(const CollectiveEvent& call, std::int64_t now);
  void on_completed(const CollectiveEvent& call, std::int64_t now);
  void begin_forward(std::int64_t now);
  void end_forward(std::int64_t now);
  void end_backward(std::int64_t now);
  void end_step(std::int64_t now);
  void forget_step();

  std::int32_t rank_;
  std::vector<StepTimes>& all_;
  std::int32_t attempt_ = 0;
  std::optional<std::int64_t> start_;
  std::map<Key, Call> open_;
  std::vector<detail::Interval> calls_;
  std::vector<detail::Interval> waits_;
  std::int64_t last_posted_ = -1;  // Of the backward under way; -1: none was posted.
  std::int64_t last_completed_ = -1;
  std::int64_t backward_end_ = 0;
  std::optional<std::int64_t> forward_;  // Began, and its loss has not come.
  std::int64_t forward_ns_ = 0;
  std::int64_t n_own_async_ = 0;
};

Steps::Key Steps::key_of(const CollectiveEvent& call) {
  const Signature& signature = call.signature;
  const bool message = signature.op == CollectiveOp::kSend || signature.op == CollectiveOp::kRecv;
  // Only of messages: a call that completes may not repeat what else its signature says.
  return {call.group,
          call.seq,
          message ? signature.op : CollectiveOp::kBarrier,
          message ? signature.peer : -1,
          message ? signature.tag : 0};
}

void Steps::on_posted(const CollectiveEvent& call, std::int64_t now) {
  const bool awaited = is_awaited_by_backward(call);
  if (awaited) last_posted_ = now;
  if (start_ && !awaited && call.signature.async) ++n_own_async_;
  open_[key_of(call)] = {.posted = now, .awaited = awaited, .async = call.signature.async};
}

void Steps::on_completed(const CollectiveEvent& call, std::int64_t now) {
  const auto found = open_.find(key_of(call));
  if (found == open_.end()) return;
  const Call& posted = found->second;
  calls_.push_back({posted.posted, now});
  if (posted.awaited) last_completed_ = std::max(last_completed_, now);
  if (!posted.awaited && !posted.async) waits_.push_back({posted.posted, now});
  open_.erase(found);
}

void Steps::begin_forward(std::int64_t now) {
  if (!start_) start_ = now;
  if (!forward_) forward_ = now;
}

void Steps::end_forward(std::int64_t now) {
  if (!forward_) return;
  forward_ns_ += now - *forward_;
  forward_.reset();
}

void Steps::end_backward(std::int64_t now) {
  backward_end_ = now;
  if (last_posted_ >= 0) {
    waits_.push_back({last_posted_, std::min(now, last_completed_)});
  }
  last_posted_ = last_completed_ = -1;
}

void Steps::end_step(std::int64_t now) {
  if (start_) {
    all_.push_back({.rank = rank_,
                    .start_ns = *start_,
                    .end_ns = now,
                    .backward_end_ns = backward_end_,
                    .forward_ns = forward_ns_,
                    .communication_ns = detail::covered(calls_, *start_, now),
                    .exposed_ns = detail::covered(waits_, *start_, now),
                    .n_own_async = n_own_async_});
  }
  forget_step();
}

void Steps::forget_step() {
  start_.reset();
  calls_.clear();
  waits_.clear();
  last_posted_ = last_completed_ = -1;
  backward_end_ = 0;
  forward_.reset();
  forward_ns_ = 0;
  n_own_async_ = 0;
}

void Steps::on_event(const Event& event) {
  if (event.at.attempt != attempt_) {
    attempt_ = event.at.attempt;
    forget_step();
    open_.clear();
  }
  const std::int64_t now = event.time.ns;
  if (const auto* forward = std::get_if<ForwardEvent>(&event.body)) {
    if (forward->grad) begin_forward(now);
  } else if (const auto* loss = std::get_if<LossEvent>(&event.body)) {
    if (loss->grad) end_forward(now);
  } else if (std::holds_alternative<BackwardEvent>(event.body)) {
    end_backward(now);
  } else if (std::holds_alternative<StepEvent>(event.body)) {
    end_step(now);
  } else if (std::holds_alternative<PhaseEvent>(event.body)) {
    forget_step();
  } else if (const auto* call = std::get_if<CollectiveEvent>(&event.body)) {
    if (call->phase == CollectivePhase::kPosted) {
      on_posted(*call, now);
    } else {
      on_completed(*call, now);
    }
  }
}

}  // namespace

std::vector<StepTimes> rank_steps(const MemoryTrace& trace) {
  std::vector<StepTimes> all;
  for (std::int32_t rank = 0; rank < trace.n_ranks(); ++rank) {
    Steps steps(rank, all);
    for (const Event& event : trace.events(Rank{rank})) steps.on_event(event);
  }
  return all;
}

}  // namespace lockstep
