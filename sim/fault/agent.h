// What an elastic agent does with a job whose ranks fail: policy only, sim/session carries it out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/types.h"
#include "lockstep/sim/fault/fault.h"
#include "lockstep/sim/fiber/world.h"

namespace lockstep::sim {

/// Restarts all ranks when one of them fails: the others are ended at the next check, every rank
/// starts again in a new rendezvous with TORCHELASTIC_RESTART_COUNT one higher, until the attempts
/// are used up. If no rank fails and none can continue, it waits too: only a watchdog
/// (GroupOptions) turns a hang into a failure.
///
/// Source: torch.distributed.elastic.agent (torchrun's restart of all workers).
struct AgentOptions {
  std::int32_t max_restarts = 0;
  /// Ranks of later attempts, first to last; the last one counts for all that follow. Empty: as
  /// many as in the first. Nodes that are lost or come back.
  std::vector<std::int32_t> n_ranks_later{};
  /// How long after a rank's death the agent checks again, and ends the others.
  Duration monitor_interval{100'000'000};
  /// A rendezvous hands out ranks as nodes arrive: in attempt a the place of rank r (its node's
  /// links, its processor's pace) is (r + a) mod n. Otherwise ranks keep their places.
  bool reassign = false;

  /// Ranks of an attempt, 0 = the first, which has `first`.
  std::int32_t n_ranks_of(std::int32_t attempt, std::int32_t first) const;
  /// Places by rank; empty: each rank's own.
  std::vector<std::int32_t> places_of(std::int32_t attempt, std::int32_t n_ranks) const;
};

/// How one attempt went.
struct Attempt {
  std::int32_t n_ranks = 0;
  bool finished = false;     ///< All ranks ended by themselves, without an exception.
  bool stuck = false;        ///< At some moment no rank could continue (a watchdog may have fired).
  std::string root_cause{};  ///< The first failure by (time, rank), as torchrun's report names it.
  std::vector<Fault> struck{};                ///< Faults that happened.
  std::vector<std::uint64_t> n_events{};      ///< By rank, `fault` events not counted.
  std::vector<std::uint64_t> n_file_steps{};  ///< By rank.
};

/// The first failure of ranks that ended like this, "rank 1: ...", or empty.
std::string root_cause(const WorldResult& world);

}  // namespace lockstep::sim
