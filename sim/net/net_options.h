// What links cost, who is near whom, and how long computing takes.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/sim/net/outages.h"

namespace lockstep::sim {

/// One kind of link. A message of b bytes occupies both its ports for b / bandwidth and arrives a
/// latency later: alpha + b / B on idle links.
struct LinkSpec {
  std::int64_t latency_ns = 0;
  double gb_per_s = 0.0;       ///< 10^9 bytes a second, one way; 0 = no limit.
  std::int64_t jitter_ns = 0;  ///< Up to so much more latency, drawn for each message.

  bool is_free() const { return latency_ns == 0 && gb_per_s == 0.0 && jitter_ns == 0; }
};

/// Links and where ranks sit. Consecutive ranks share a node; each rank has a port in and a port
/// out for its own node, each node one port in and one out for the others, shared by its ranks.
struct NetOptions {
  LinkSpec intra{};                    ///< Between ranks of a node.
  LinkSpec inter{};                    ///< Between nodes.
  std::int32_t ranks_per_node = 0;     ///< 0: all on one node.
  std::vector<std::int32_t> places{};  ///< By rank; empty: rank r sits at place r.
  std::int64_t chunk_bytes = 0;  ///< Messages travel in overlapping pieces of this size; 0: whole.
  std::uint64_t seed = 0;        ///< Of the jitter, one stream per port.
  /// Messages that never arrive, by their number in the order of sending.
  std::vector<std::int64_t> lost{};
  std::vector<Outage> outages{};

  bool is_free() const { return intra.is_free() && inter.is_free() && outages.empty(); }
};

/// How long computing takes. Matrix products cost their operations (2 M N K), the rest is free.
struct ComputeSpec {
  /// A rank whose processor is slower, or faster.
  struct Slow {
    std::int32_t rank = 0;
    std::int64_t permille = 1000;  ///< 3000: three times as long.
  };

  std::int64_t mflops = 0;           ///< 10^6 operations a second; 0: products are free.
  std::int64_t jitter_permille = 0;  ///< Up to so much longer, drawn for each piece of work.
  std::uint64_t seed = 0;            ///< Of the jitter, one stream per rank.
  /// Of its speed, what a rank loses while messages of its own are under way: transfers need processors, caches and memory,
  /// too. Below 1000.
  std::int64_t contention_permille = 0;
  std::vector<Slow> slow{};

  bool is_free() const { return mflops == 0; }
};

}  // namespace lockstep::sim
