#include "lockstep/harness/timing/step_calls.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "lockstep/harness/timing/call_times.h"
#include "lockstep/harness/timing/detail/intervals.h"
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

/// The calls of a step by size, and when each was under way.
class StepLoad {
 public:
  void add(const GroupCall& call, const StepTimes& step) {
    ++sizes_[{call.op, call.n_bytes, call.n_ranks}];
    under_way_.push_back({call.arrived_ns, end_of(call, step)});
  }

  std::vector<SizedCalls> calls() const {
    std::vector<SizedCalls> calls;
    for (const auto& [size, n] : sizes_) {
      const auto& [op, n_bytes, n_ranks] = size;
      calls.push_back({op, n_bytes, n_ranks, n});
    }
    return calls;
  }

  std::int64_t busy_ns(const StepTimes& step) const {
    return detail::covered(under_way_, step.start_ns, step.end_ns);
  }

 private:
  std::map<std::tuple<CollectiveOp, std::int64_t, std::int32_t>, std::int64_t> sizes_;
  std::vector<detail::Interval> under_way_;
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
    if (!made.empty()) kinds[std::move(made)].push_back(load.busy_ns(step));
  }
  std::vector<StepCalls> all;
  for (auto& [made, busy] : kinds) {
    const auto n_steps = static_cast<std::int64_t>(busy.size());
    all.push_back({made, spread_of(std::move(busy)).median, n_steps});
  }
  return all;
}

}  // namespace lockstep
