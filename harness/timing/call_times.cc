#include "lockstep/harness/timing/call_times.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "lockstep/tensor/dtype.h"
#include "lockstep/trace/timeline.h"

namespace lockstep {

namespace {

struct Arrival {
  std::int64_t posted = 0;
  std::int32_t rank = 0;
};

struct Members {
  CollectiveOp op = CollectiveOp::kBarrier;
  DType dtype = DType::kF32;
  std::int64_t count = 0;
  bool awaited = false;
  std::vector<Arrival> arrivals;
  std::size_t n_completed = 0;
  std::int64_t last_completed = 0;
};

/// Attempt, group, number.
using CallKey = std::tuple<std::int32_t, std::int32_t, std::int64_t>;

bool is_message(CollectiveOp op) { return op == CollectiveOp::kSend || op == CollectiveOp::kRecv; }

void add(Members& members, const CollectiveEvent& call, std::int32_t rank, std::int64_t now) {
  if (call.phase == CollectivePhase::kPosted) {
    members.op = call.signature.op;
    members.dtype = call.signature.dtype;
    members.awaited = is_awaited_by_backward(call);
    members.count = std::max(members.count, call.signature.count);
    members.arrivals.push_back({now, rank});
  } else if (call.phase == CollectivePhase::kCompleted) {
    ++members.n_completed;
    members.last_completed = std::max(members.last_completed, now);
  }
}

/// Cuts the sorted arrivals at their longest pause; the later part counts if it is the smaller one.
void find_late(const std::vector<Arrival>& arrivals, GroupCall& call) {
  std::size_t first_late = 0;
  for (std::size_t i = 1; i < arrivals.size(); ++i) {
    const std::int64_t pause = arrivals[i].posted - arrivals[i - 1].posted;
    if (pause <= call.late_ns) continue;
    call.late_ns = pause;
    first_late = i;
  }
  if (2 * (arrivals.size() - first_late) > arrivals.size()) {
    call.late_ns = 0;
    return;
  }
  for (std::size_t i = first_late; i < arrivals.size(); ++i) call.late.push_back(arrivals[i].rank);
  std::ranges::sort(call.late);
}

GroupCall call_of(Members members) {
  std::vector<Arrival>& arrivals = members.arrivals;
  std::ranges::sort(arrivals, {}, &Arrival::posted);
  const auto n_ranks = static_cast<std::int32_t>(arrivals.size());
  GroupCall call{.op = members.op,
                 .dtype = members.dtype,
                 .n_bytes = bytes_of(members.op, members.dtype, members.count, n_ranks),
                 .n_ranks = n_ranks,
                 .awaited = members.awaited,
                 .arrived_ns = arrivals.back().posted,
                 .waited_ns = arrivals.back().posted - arrivals.front().posted,
                 .took_ns = members.last_completed - arrivals.back().posted};
  if (call.waited_ns > 0) find_late(arrivals, call);
  return call;
}

}  // namespace

std::vector<GroupCall> group_calls(const MemoryTrace& trace) {
  std::map<CallKey, Members> open;
  for (std::int32_t rank = 0; rank < trace.n_ranks(); ++rank) {
    for (const Event& event : trace.events(Rank{rank})) {
      const auto* call = std::get_if<CollectiveEvent>(&event.body);
      if (call == nullptr || is_message(call->signature.op)) continue;
      add(open[{event.at.attempt, call->group, call->seq}], *call, rank, event.time.ns);
    }
  }
  std::vector<GroupCall> calls;
  for (auto& [key, members] : open) {
    if (members.arrivals.empty() || members.n_completed != members.arrivals.size()) continue;
    calls.push_back(call_of(std::move(members)));
  }
  std::ranges::stable_sort(calls, {}, &GroupCall::arrived_ns);
  return calls;
}

std::int64_t bytes_of(CollectiveOp op, DType dtype, std::int64_t count, std::int32_t n_ranks) {
  const std::int64_t own = count * static_cast<std::int64_t>(size_of(dtype));
  const bool of_one_part = op == CollectiveOp::kAllGather || op == CollectiveOp::kGather;
  return of_one_part ? own * n_ranks : own;
}

double bus_factor(CollectiveOp op, std::int32_t n_ranks) {
  if (n_ranks < 1) return 0.0;
  const double others = static_cast<double>(n_ranks - 1) / n_ranks;
  switch (op) {
    case CollectiveOp::kAllReduce:
      return 2.0 * others;
    case CollectiveOp::kAllGather:
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kGather:
    case CollectiveOp::kScatter:
    case CollectiveOp::kAllToAll:
      return others;
    case CollectiveOp::kBroadcast:
    case CollectiveOp::kReduce:
    case CollectiveOp::kSend:
    case CollectiveOp::kRecv:
      return 1.0;
    case CollectiveOp::kBarrier:
      return 0.0;
  }
  return 0.0;
}

std::optional<LateRanks> late_ranks(const std::vector<GroupCall>& calls, std::int32_t n_ranks) {
  constexpr std::int64_t kFewest = 2;
  std::map<std::vector<std::int32_t>, std::vector<std::int64_t>> pauses;
  std::int64_t of_calls = 0;
  for (const GroupCall& call : calls) {
    if (call.n_ranks != n_ranks || call.waited_ns == 0) continue;
    ++of_calls;
    if (!call.late.empty()) pauses[call.late].push_back(call.late_ns);
  }
  for (auto& [ranks, late_by] : pauses) {
    const auto n_calls = static_cast<std::int64_t>(late_by.size());
    if (n_calls < kFewest || 4 * n_calls < 3 * of_calls) continue;
    const std::size_t middle = (late_by.size() - 1) / 2;
    std::ranges::nth_element(late_by, late_by.begin() + static_cast<std::ptrdiff_t>(middle));
    return LateRanks{
        .ranks = ranks, .n_calls = n_calls, .of_calls = of_calls, .behind_ns = late_by[middle]};
  }
  return std::nullopt;
}

}  // namespace lockstep
