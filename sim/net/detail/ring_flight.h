// Collectives whose data walk from member to member.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/sim/net/detail/hop_arithmetic.h"
#include "lockstep/sim/net/flight.h"

namespace lockstep::sim {

/// A range of elements and where it starts its walk.
struct RingRoute {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  std::int32_t part = 0;   ///< Of the inputs, and of the outputs of an all_gather.
  std::int32_t ring = 0;   ///< Which ring.
  std::int32_t start = 0;  ///< Place in the ring.
};

/// Rings and the walks over them.
struct RingPlan {
  std::vector<std::vector<std::int32_t>> rings;  ///< Members in the order of sending.
  std::vector<RingRoute> routes;
};

/// The walks that add in `order`; pieces of at most `chunk` elements.
RingPlan plan_ring(const FlightJob& job, const ReductionOrder& order, std::int64_t chunk);

/// A token a route: it carries its range from member to member, first adding each one's
/// contribution, then leaving copies of the result.
class RingFlight final : public Flight {
 public:
  RingFlight(Network& network,
             FlightClient& client,
             const FlightJob& job,
             const ReductionOrder& order);
  /// With a plan of one's own.
  RingFlight(
      Network& network, FlightClient& client, const FlightJob& job, bool nccl, RingPlan plan);

  void on_arrival(std::int32_t token, std::int32_t hop) override;

 protected:
  void on_post(std::int32_t member) override;

 private:
  struct Token {
    std::byte* data = nullptr;
    std::int64_t begin = 0;
    std::int64_t count = 0;
    std::int32_t part = 0;
    std::int32_t ring = 0;
    std::int32_t place = 0;  // Where in the ring it is, or is going to.
    std::int32_t hop = 0;    // How many members it has left.
    std::int32_t next_waiting = -1;
  };

  void expect_results();
  void visit(std::int32_t index);
  void pass_along(const Token& token, std::int32_t member);
  void reduce_at(Token& token, std::int32_t member);
  void add(Token& token, std::int32_t member);
  void copy_result(const Token& token, std::int32_t member);
  void end_walk(Token& token, std::int32_t index, std::int32_t member);

  std::int32_t member_at(const Token& token) const {
    return rings_[static_cast<std::size_t>(token.ring)][static_cast<std::size_t>(token.place)];
  }

  HopArithmetic arithmetic_;
  std::vector<std::vector<std::int32_t>> rings_;
  std::vector<Token> tokens_;
  std::vector<std::byte> data_;
  std::vector<std::int32_t> waiting_;  // By member: tokens that came before it posted.
  bool reduces_;
  bool scatters_;
  std::int32_t last_hop_;
};

}  // namespace lockstep::sim
