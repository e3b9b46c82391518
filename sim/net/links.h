// Ports and the time messages spend in them.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/sim/net/net_options.h"

namespace lockstep::sim {

/// Picoseconds: a nanosecond is long against 16 bytes.
constexpr std::int64_t kPsPerNs = 1000;

/// The links of one world and when their ports are free again.
///
/// Deterministic: a function of the messages' order, sizes and times, and of the seed.
class Links {
 public:
  Links(const NetOptions& options, std::int32_t n_ranks);

  /// Puts a message on its link at `now`. Units: picoseconds. Returns: when all of it has arrived.
  std::int64_t pass(std::int32_t from, std::int32_t to, std::int64_t n_bytes, std::int64_t now);

  bool same_node(std::int32_t a, std::int32_t b) const {
    return per_node_ == 0 || node_of(a) == node_of(b);
  }

 private:
  struct Port {
    std::int64_t out_free = 0;
    std::int64_t in_free = 0;
    std::uint64_t n_drawn = 0;
  };

  struct Kind {
    std::int64_t latency = 0;
    std::int64_t jitter = 0;
    double ps_per_byte = 0.0;
  };

  std::int32_t node_of(std::int32_t rank) const {
    return (places_.empty() ? rank : places_[static_cast<std::size_t>(rank)]) / per_node_;
  }

  static Kind kind_of(const LinkSpec& spec);
  std::int64_t draw(const Kind& kind, Port& port, std::size_t stream) const;

  Kind intra_;
  Kind inter_;
  std::int32_t per_node_;
  std::vector<std::int32_t> places_;
  std::uint64_t seed_;
  std::vector<Port> ranks_;
  std::vector<Port> nodes_;
};

}  // namespace lockstep::sim
