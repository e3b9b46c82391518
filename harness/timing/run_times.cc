#include "lockstep/harness/timing/run_times.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

namespace lockstep {

namespace {

using CallKind = std::tuple<CollectiveOp, DType, std::int64_t, std::int32_t>;

struct Durations {
  std::vector<std::int64_t> took;
  std::vector<std::int64_t> waited;
};

CallTimes times_of(const CallKind& key, Durations durations) {
  CallTimes times;
  std::tie(times.op, times.dtype, times.n_bytes, times.n_ranks) = key;
  times.n_calls = static_cast<std::int64_t>(durations.took.size());
  times.took = spread_of(std::move(durations.took));
  times.waited = spread_of(std::move(durations.waited));
  if (times.took.median > 0) {
    times.alg_gb_per_s =
        static_cast<double>(times.n_bytes) / static_cast<double>(times.took.median);
    times.bus_gb_per_s = times.alg_gb_per_s * bus_factor(times.op, times.n_ranks);
  }
  return times;
}

std::vector<CallTimes> by_kind(const std::vector<GroupCall>& calls) {
  std::map<CallKind, Durations> kinds;
  for (const GroupCall& call : calls) {
    Durations& kind = kinds[{call.op, call.dtype, call.n_bytes, call.n_ranks}];
    kind.took.push_back(call.took_ns);
    kind.waited.push_back(call.waited_ns);
  }
  std::vector<CallTimes> all;
  for (auto& [key, durations] : kinds) all.push_back(times_of(key, std::move(durations)));
  std::ranges::stable_sort(all, std::greater<>(), [](const CallTimes& each) {
    return static_cast<double>(each.took.median) * static_cast<double>(each.n_calls);
  });
  return all;
}

/// The name of the node whose ranks these are, all of them and no others.
std::string node_of(const MemoryTrace& trace, const std::vector<std::int32_t>& ranks) {
  std::map<std::string_view, std::set<std::int32_t>> nodes;
  for (std::int32_t rank = 0; rank < trace.n_ranks(); ++rank) {
    for (const Event& event : trace.events(Rank{rank})) {
      const auto* where = std::get_if<EnvironmentEvent>(&event.body);
      if (where != nullptr) nodes[trace.names().text(where->node)].insert(rank);
    }
  }
  const std::set<std::int32_t> wanted(ranks.begin(), ranks.end());
  for (const auto& [name, members] : nodes) {
    if (!name.empty() && members == wanted) return std::string(name);
  }
  return {};
}

bool has_times(const MemoryTrace& trace) {
  for (std::int32_t rank = 0; rank < trace.n_ranks(); ++rank) {
    const std::span<const Event> events = trace.events(Rank{rank});
    if (!events.empty() && events.back().time.ns > 0) return true;
  }
  return false;
}

DurationSpread spread_over(const std::vector<StepTimes>& steps,
                           const std::function<std::int64_t(const StepTimes&)>& duration) {
  std::vector<std::int64_t> durations;
  durations.reserve(steps.size());
  for (const StepTimes& step : steps) durations.push_back(duration(step));
  return spread_of(std::move(durations));
}

}  // namespace

DurationSpread spread_of(std::vector<std::int64_t> durations) {
  std::ranges::sort(durations);
  return {.least = durations.front(),
          .median = durations[(durations.size() - 1) / 2],
          .most = durations.back()};
}

std::optional<RunTimes> run_times(const MemoryTrace& trace, RunClock clock) {
  if (!has_times(trace)) return std::nullopt;
  const std::vector<StepTimes> steps = rank_steps(trace);
  if (steps.empty()) return std::nullopt;
  RunTimes times;
  times.clock = clock;
  times.n_ranks = trace.n_ranks();
  times.n_steps = static_cast<std::int64_t>(steps.size());
  times.step = spread_over(steps, [](const StepTimes& s) { return s.end_ns - s.start_ns; });
  times.compute =
      spread_over(steps, [](const StepTimes& s) { return s.end_ns - s.start_ns - s.exposed_ns; });
  times.forward = spread_over(steps, [](const StepTimes& s) { return s.forward_ns; });
  times.communication = spread_over(steps, [](const StepTimes& s) { return s.communication_ns; });
  times.exposed = spread_over(steps, [](const StepTimes& s) { return s.exposed_ns; });
  for (const StepTimes& step : steps) times.n_own_async += step.n_own_async;
  if (times.communication.median > 0) {
    times.hidden = 1.0 - static_cast<double>(times.exposed.median) /
                             static_cast<double>(times.communication.median);
  }
  if (clock == RunClock::kSeparate) return times;
  const std::vector<GroupCall> calls = group_calls(trace);
  times.calls = by_kind(calls);
  times.step_calls = step_calls(trace);
  std::ranges::stable_sort(times.step_calls, std::greater<>(), &StepCalls::n_steps);
  times.late = late_ranks(calls, trace.n_ranks());
  if (times.late) times.late_node = node_of(trace, times.late->ranks);
  return times;
}

}  // namespace lockstep
