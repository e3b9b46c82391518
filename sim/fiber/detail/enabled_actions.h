// What may happen next, and the strategy that chooses among it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "lockstep/sim/fiber/detail/action_table.h"
#include "lockstep/sim/fiber/world.h"

namespace lockstep::sim {

/// Enabled actions. Resumptions of ranks are counted here and found by the ranks' states; all others
/// are in a table.
class EnabledActions {
 public:
  void start(Strategy& strategy, std::int32_t n_ranks);

  bool any() const { return n_enabled_ > 0; }

  std::size_t n_enabled() const { return n_enabled_; }

  /// A rank may be resumed. Its id is the action's.
  void enable(const Action& resumption) {
    ++n_enabled_;
    strategy_->on_enabled(resumption);
  }

  /// Requires: the id is free, and none of a resumption.
  void enable(const ActionTable::Entry& entry) {
    table_.insert(entry);
    enable(entry.action);
  }

  /// Requires: enabled.
  void disable(ActionId id);

  /// What the strategy chooses.
  ActionId ask() { return strategy_->pick(); }

  /// What ask() will probably return after `ahead` other calls.
  ActionId expected(std::size_t ahead) const { return strategy_->expected(ahead); }

  /// A resumption was chosen.
  void take_resumption() { --n_enabled_; }

  /// Another action was chosen: it waits for the main context. False: it is not enabled.
  bool take(ActionId id);

  bool has_taken() const { return has_taken_; }

  /// The one that waits. Requires: has_taken().
  ActionTable::Entry take_out();

  /// What is going on reads or writes this object. Strategies that do not watch never learn of it.
  void touch(std::uint64_t object) {
    if (watches_) strategy_->on_touch(object);
  }

  /// What happens from now on comes after everything before.
  void note_quiet() {
    if (watches_) strategy_->on_quiet();
  }

  /// The strategy broke its contract, and is not asked again.
  void dismiss() { dismissed_ = true, watches_ = false; }

  bool is_dismissed() const { return dismissed_; }

  std::string describe_strategy() const { return strategy_->describe(); }

 private:
  Strategy* strategy_ = nullptr;
  ActionTable table_;
  std::size_t n_enabled_ = 0;
  bool has_taken_ = false;
  ActionId taken_{};
  bool watches_ = false;
  bool dismissed_ = false;
};

}  // namespace lockstep::sim
