// What the servers of one run's ranks share.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/sim/group/sim_group.h"
#include "lockstep/sim/process/call_fault.h"
#include "lockstep/sim/process/outside.h"
#include "lockstep/sim/process/store_table.h"

namespace lockstep::sim {

class Serving {
 public:
  Serving(Outside& place, StoreTable::Contents contents, std::size_t n_ranks)
      : outside(place), store(std::move(contents)), waits_for(n_ranks), stopped(n_ranks, 0) {}

  /// A rank slept or asked whether something is over.
  ///
  /// Returns: whether ranks have done nothing else for too long; then the world ends as a livelock.
  bool note_nap(World& world) {
    if (++n_naps < most_naps || outside.any_asleep()) return false;
    n_naps = 0;
    world.end_as_livelock();
    return true;
  }

  void note_progress() { n_naps = 0; }

  Outside& outside;
  StoreTable store;
  SimGroups* groups = nullptr;
  bool serial = false;
  bool expires = false;
  std::int64_t most_naps = 0;
  std::int64_t n_naps = 0;
  std::uint64_t n_requests = 0;
  std::vector<SlowCalls> slow;
  std::vector<std::string> slowed;     ///< Those that have begun.
  std::vector<std::string> waits_for;  ///< By rank: what it waits for at the store, for verdicts.
  std::vector<LogLine> log;
  std::vector<std::int32_t>
      failures;                       ///< Ranks that failed first, not because of others, in order.
  std::vector<std::uint8_t> stopped;  ///< By rank: it was given STOP, or killed.
  std::string verdict;                ///< Why ranks are stopped that did nothing wrong themselves.
};

}  // namespace lockstep::sim
