#include "lockstep/sim/fiber/detail/enabled_actions.h"

#include "lockstep/base/check.h"

namespace lockstep::sim {

void EnabledActions::start(Strategy& strategy, std::int32_t n_ranks) {
  strategy_ = &strategy;
  table_.clear();
  n_enabled_ = 0;
  has_taken_ = dismissed_ = false;
  strategy.start(n_ranks);
  watches_ = strategy.watches();
}

void EnabledActions::disable(ActionId id) {
  LOCKSTEP_CHECK(table_.contains(id), "only an enabled action can be disabled");
  table_.take(id);
  --n_enabled_;
  strategy_->on_disabled(id);
}

bool EnabledActions::take(ActionId id) {
  if (!table_.contains(id)) return false;
  --n_enabled_;
  taken_ = id;
  has_taken_ = true;
  return true;
}

ActionTable::Entry EnabledActions::take_out() {
  has_taken_ = false;
  return table_.take(taken_);
}

}  // namespace lockstep::sim
