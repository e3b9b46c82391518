#include "lockstep/sim/net/cost_model.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace lockstep::sim {

namespace {

struct Alone {
  double alpha = 0.0;        // ns
  double ns_per_byte = 0.0;  // 1 / B
  double n = 1.0;
  double k = 0.0;      // ceil(log2 n)
  double bytes = 0.0;  // S
  double chunk = 0.0;  // c
};

double all_reduce_time(const Alone& a, const ReductionOrder& order) {
  const double whole = a.bytes * a.ns_per_byte;
  const double chunk = a.chunk * a.ns_per_byte;
  switch (order.kind()) {
    case ReductionOrder::kPairwise:
      return 2.0 * a.k * a.alpha + 2.0 * (a.n - 1.0) / a.n * whole;
    case ReductionOrder::kNcclTree:
      return 2.0 * (a.k * a.alpha + (2.0 * a.k - 1.0) * chunk) + 3.0 * (whole - chunk);
    case ReductionOrder::kRank:
    case ReductionOrder::kGlooRing:
    case ReductionOrder::kNcclRing:
      return 2.0 * (a.n - 1.0) * (a.alpha + whole / a.n);
  }
  return 0.0;
}

double broadcast_time(const Alone& a, const ReductionOrder& order) {
  if (!order.is_nccl()) return a.k * (a.alpha + a.bytes * a.ns_per_byte);
  return (a.n - 1.0) * (a.alpha + a.chunk * a.ns_per_byte) + (a.bytes - a.chunk) * a.ns_per_byte;
}

double alone(CollectiveOp op, const Alone& a, const ReductionOrder& order) {
  const double others = (a.n - 1.0) / a.n * a.bytes * a.ns_per_byte;
  switch (op) {
    case CollectiveOp::kAllReduce:
      return all_reduce_time(a, order);
    case CollectiveOp::kBroadcast:
    case CollectiveOp::kReduce:
      return broadcast_time(a, order);
    case CollectiveOp::kReduceScatter:
      if (order.kind() == ReductionOrder::kPairwise) return a.k * a.alpha + others;
      return (a.n - 1.0) * a.alpha + others;
    case CollectiveOp::kAllGather:
      return (a.n - 1.0) * a.alpha + others;
    case CollectiveOp::kGather:
    case CollectiveOp::kScatter:
    case CollectiveOp::kAllToAll:
      return a.alpha + others;
    case CollectiveOp::kBarrier:
      return a.k * a.alpha;
    case CollectiveOp::kSend:
    case CollectiveOp::kRecv:
      return a.alpha + a.bytes * a.ns_per_byte;
  }
  return 0.0;
}

}  // namespace

Duration time_of(const OperationSize& size,
                 std::span<const std::int32_t> members,
                 const ReductionOrder& order,
                 const NetOptions& net) {
  if (size.n_ranks <= 1 || net.is_free()) return {0};
  const auto node = [&](std::int32_t rank) {
    const std::int32_t place =
        net.places.empty() ? rank : net.places[static_cast<std::size_t>(rank)];
    return net.ranks_per_node > 0 ? place / net.ranks_per_node : 0;
  };
  const bool near = std::all_of(members.begin(), members.end(), [&](std::int32_t rank) {
    return node(rank) == node(members.front());
  });
  const LinkSpec& link = near ? net.intra : net.inter;
  const auto bytes = static_cast<double>(size.n_bytes);
  const auto chunk = static_cast<double>(net.chunk_bytes);
  const Alone a{.alpha = static_cast<double>(link.latency_ns),
                .ns_per_byte = link.gb_per_s > 0.0 ? 1.0 / link.gb_per_s : 0.0,
                .n = static_cast<double>(size.n_ranks),
                .k = static_cast<double>(std::bit_width(static_cast<unsigned>(size.n_ranks - 1))),
                .bytes = bytes,
                .chunk = chunk > 0.0 ? std::min(chunk, bytes) : bytes};
  return {std::llround(alone(size.op, a, order))};
}

}  // namespace lockstep::sim
