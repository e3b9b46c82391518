#include "lockstep/harness/timing/step_calls.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "lockstep/harness/timing/call_times.h"
#include "lockstep/harness/timing/rank_steps.h"
#include "lockstep/harness/timing/run_times.h"

namespace lockstep {

namespace {

/// Of one rank, which saw all steps.
std::vector<StepTimes> steps_of_lowest(const MemoryTrace& trace) {
  std::vector<StepTimes> steps = rank_steps(trace);
  if (steps.empty()) return steps;
  const std::int32_t lowest = steps.front().rank;
  std::erase_if(steps, [&](const StepTimes& step) { return step.rank != lowest; });
  return steps;
}

std::int64_t end_of(const GroupCall& call, const StepTimes& step) {
  const bool awaited = call.awaited && call.arrived_ns < step.backward_end_ns;
  return std::min(call.arrived_ns + call.took_ns, awaited ? step.backward_end_ns : step.end_ns);
}

/// The calls of a step by size, and the length of the union of the times in which each was under way.
class StepLoad {
 public:
  void add(const GroupCall& call, const StepTimes& step) {
    ++sizes_[{call.op, call.n_bytes, call.n_ranks}];
    const std::int64_t end = end_of(call, step);
    busy_ns_ += std::max<std::int64_t>(0, end - std::max(call.arrived_ns, reached_));
    reached_ = std::max(reached_, end);
  }

  std::vector<SizedCalls> calls() const {
    std::vector<SizedCalls> calls;
    for (const auto& [size, n] : sizes_) {
      const auto& [op, n_bytes, n_ranks] = size;
      calls.push_back({op, n_bytes, n_ranks, n});
    }
    return calls;
  }

  std::int64_t busy_ns() const { return busy_ns_; }

 private:
  std::map<std::tuple<CollectiveOp, std::int64_t, std::int32_t>, std::int64_t> sizes_;
  std::int64_t busy_ns_ = 0;
  std::int64_t reached_ = 0;
};

}  // namespace

std::vector<StepCalls> step_calls(const MemoryTrace& trace) {
  const std::vector<GroupCall> calls = group_calls(trace);
  std::map<std::vector<SizedCalls>, std::vector<std::int64_t>> kinds;
  auto next = calls.begin();  // Both are in the order of time.
  for (const StepTimes& step : steps_of_lowest(trace)) {
    StepLoad load;
    while (next != calls.end() && next->arrived_ns < step.start_ns) ++next;
    for (; next != calls.end() && next->arrived_ns < step.end_ns; ++next) {
      if (next->n_ranks > 1) load.add(*next, step);
    }
    std::vector<SizedCalls> made = load.calls();
    if (!made.empty()) kinds[std::move(made)].push_back(load.busy_ns());
  }
  std::vector<StepCalls> all;
  for (auto& [made, busy] : kinds) {
    const auto n_steps = static_cast<std::int64_t>(busy.size());
    all.push_back({made, spread_of(std::move(busy)).median, n_steps});
  }
  return all;
}

}  // namespace lockstep
