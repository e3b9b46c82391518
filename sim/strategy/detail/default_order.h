// What the default schedule would do next.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/sim/fiber/action.h"
#include "lockstep/sim/strategy/schedule.h"

namespace lockstep::sim {

/// The enabled actions in the order of the default schedule (schedule.h).
class DefaultOrder {
 public:
  void start(std::int32_t n_ranks);
  void enable(const Action& action);
  void disable(ActionId id);
  /// The action was picked: it is disabled, and if it is a rank, it runs.
  void take(ActionId id);

  bool contains(ActionId id) const;

  std::size_t size() const { return ready_.size() + polling_.size(); }

  /// Requires: something is enabled.
  ActionId next() const;

  /// Picking `picked` now, as a deviation. Requires: it is not next().
  Deviation deviation(ActionId picked) const { return {next(), n_picks_of(next()), picked}; }

  /// How often a rank was picked; 0 for other actions.
  std::uint64_t n_picks_of(ActionId id) const;

  /// Appends all enabled actions, in no meaningful order but always the same.
  void list(std::vector<ActionId>& ids) const;

 private:
  void remove(ActionId id);

  std::vector<ActionId> ready_;         // Descending: what is taken most often is at the end.
  std::vector<ActionId> polling_;       // First come, first served.
  std::vector<std::uint64_t> n_picks_;  // By rank.
  ActionId running_{};                  // The rank picked last.
  bool has_running_ = false;
  bool running_is_ready_ = false;
};

}  // namespace lockstep::sim
