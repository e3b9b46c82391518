// Collectives whose data climb a tree and come down again.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/comm/detail/nccl_order.h"
#include "lockstep/sim/net/detail/hop_arithmetic.h"
#include "lockstep/sim/net/flight.h"

namespace lockstep::sim {

/// NCCL's double binary tree for an all_reduce, a binomial tree for a broadcast.
///
/// A member adds its children's sums to its own value in their order, whatever order they arrive
/// in; the sum climbs in the members' outputs. The root's result comes down as copies.
class TreeFlight final : public Flight {
 public:
  /// An all_reduce in the order of NCCL's trees.
  TreeFlight(Network& network,
             FlightClient& client,
             const FlightJob& job,
             const ReductionOrder& order);
  /// A broadcast.
  TreeFlight(Network& network, FlightClient& client, const FlightJob& job);

  void on_arrival(std::int32_t token, std::int32_t hop) override;

 protected:
  void on_post(std::int32_t member) override;

 private:
  struct Shape {
    detail::Tree tree;
    std::vector<std::int32_t> parent;
    std::vector<std::int32_t> place;  // Among the parent's children.
  };

  struct Segment {
    std::int64_t begin = 0;
    std::int64_t count = 0;
    std::size_t shape = 0;
  };

  // One member in one segment.
  struct State {
    std::uint32_t arrived = 0;  // A bit per child.
    std::uint32_t n_joined = 0;
    bool result_waits = false;  // It came before the member posted.
  };

  void add_shape(detail::Tree tree);
  void cut(std::int64_t begin, std::int64_t end, std::size_t shape);
  void climb(std::int32_t token, std::int32_t member);
  void join(const Segment& segment, std::int32_t member, State& state);
  void reach_top(std::int32_t token, std::int32_t root);
  void take_result(std::int32_t token, std::int32_t member);
  void hand_down(std::int32_t token, std::int32_t member);

  const Segment& segment(std::int32_t token) const {
    return segments_[static_cast<std::size_t>(token)];
  }

  const Shape& shape_of(std::int32_t token) const { return shapes_[segment(token).shape]; }

  State& state(std::int32_t token, std::int32_t member) {
    return states_[static_cast<std::size_t>(token) * n_members() +
                   static_cast<std::size_t>(member)];
  }

  HopArithmetic arithmetic_;
  bool reduces_;
  std::vector<Shape> shapes_;
  std::vector<Segment> segments_;
  std::vector<State> states_;
  std::vector<std::byte> result_;
};

}  // namespace lockstep::sim
