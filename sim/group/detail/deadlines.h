// Works with a limit on how long they may wait: each call's own, and the watchdog's for all.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "lockstep/sim/group/detail/sim_work.h"

namespace lockstep::sim {

/// The limits that calls were given. A world with one is not stuck before it has passed.
class Deadlines {
 public:
  explicit Deadlines(GroupRegistry& registry) : registry_(&registry) {}

  void set(SimWork& work, Duration timeout);

  void forget(const SimWork& work) { pending_.erase(work.limit); }

 private:
  void pass(std::int64_t number);

  GroupRegistry* registry_;
  std::map<std::int64_t, SimWork*> pending_;  // By number, from 1.
  std::int64_t n_ = 0;
};

/// Gives up what took longer than GroupOptions::watchdog. A daemon: it keeps no world alive, so that
/// the verdict comes before it.
class Watchdog {
 public:
  explicit Watchdog(GroupRegistry& registry) : registry_(&registry) {}

  /// From now on it waits for this work, if there is a watchdog.
  void watch(SimWork& work);

  void forget(const SimWork& work) { watched_.erase(work.limit); }

  /// It waits for something.
  bool is_watching() const { return !watched_.empty(); }

  /// A line per operation that took too long.
  const std::string& reports() const { return reports_; }

 private:
  void arm();
  void wake();

  GroupRegistry* registry_;
  std::deque<std::pair<VirtualTime, std::int64_t>> due_;  // When which work is given up.
  std::map<std::int64_t, SimWork*> watched_;              // Those that are still pending.
  std::int64_t n_ = 0;                                    // Numbers go down from -1.
  bool armed_ = false;
  std::string reports_;
};

}  // namespace lockstep::sim
