#include "lockstep/sim/net/flight.h"

#include <algorithm>
#include <cstring>

#include "lockstep/base/check.h"
#include "lockstep/sim/net/detail/halving_flight.h"
#include "lockstep/sim/net/detail/ring_flight.h"
#include "lockstep/sim/net/detail/tree_flight.h"

namespace lockstep::sim {

Flight::Flight(Network& network, FlightClient& client, const FlightJob& job)
    : network_(&network),
      client_(&client),
      job_(job),
      elem_bytes_(size_of(job.dtype)),
      members_(job.members.size()) {}

void Flight::post(std::int32_t member,
                  std::span<const Memory> inputs,
                  std::span<const Memory> outputs) {
  MemberState& mine = member_state(member);
  LOCKSTEP_CHECK(!mine.posted, "a member takes part once");
  mine.inputs = inputs;
  mine.outputs = outputs;
  mine.posted = true;
  on_post(member);
}

std::int64_t Flight::chunk_elems() const {
  const std::int64_t bytes = network_->options().chunk_bytes;
  return bytes == 0 ? INT64_MAX : std::max<std::int64_t>(1, bytes / elem_bytes_);
}

void Flight::copy_elems(std::byte* to, const std::byte* from, std::int64_t n_elems) const {
  if (to != from) std::memmove(to, from, static_cast<std::size_t>(n_elems * elem_bytes_));
}

std::unique_ptr<Flight> make_flight(Network& network,
                                    FlightClient& client,
                                    const FlightJob& job,
                                    const ReductionOrder& order) {
  if (job.count == 0 || job.members.size() < 2) return nullptr;
  const bool nccl =
      order.kind() == ReductionOrder::kNcclRing || order.kind() == ReductionOrder::kNcclTree;
  const bool pairwise = order.kind() == ReductionOrder::kPairwise;
  switch (job.op) {
    case CollectiveOp::kAllReduce:
      if (pairwise) return std::make_unique<HalvingFlight>(network, client, job);
      if (order.kind() == ReductionOrder::kNcclTree) {
        return std::make_unique<TreeFlight>(network, client, job, order);
      }
      return std::make_unique<RingFlight>(network, client, job, order);
    case CollectiveOp::kReduceScatter:
      if (pairwise) return nullptr;
      return std::make_unique<RingFlight>(network, client, job, order);
    case CollectiveOp::kAllGather:
      return std::make_unique<RingFlight>(network, client, job, order);
    case CollectiveOp::kBroadcast:
      if (nccl) return std::make_unique<RingFlight>(network, client, job, order);
      return std::make_unique<TreeFlight>(network, client, job);
    case CollectiveOp::kReduce:
    case CollectiveOp::kGather:
    case CollectiveOp::kScatter:
    case CollectiveOp::kAllToAll:
    case CollectiveOp::kBarrier:
    case CollectiveOp::kSend:
    case CollectiveOp::kRecv:
      return nullptr;
  }
  return nullptr;
}

}  // namespace lockstep::sim
