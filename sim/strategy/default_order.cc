#include "lockstep/sim/strategy/detail/default_order.h"

#include <algorithm>
#include <functional>

namespace lockstep::sim {

void DefaultOrder::start(std::int32_t n_ranks) {
  ready_.clear();
  polling_.clear();
  n_picks_.assign(static_cast<std::size_t>(n_ranks), 0);
  has_running_ = running_is_ready_ = false;
}

void DefaultOrder::enable(const Action& action) {
  if (action.polls) return polling_.push_back(action.id);
  ready_.insert(std::lower_bound(ready_.begin(), ready_.end(), action.id, std::greater<>()),
                action.id);
  if (has_running_ && action.id == running_) running_is_ready_ = true;
}

void DefaultOrder::disable(ActionId id) { remove(id); }

void DefaultOrder::take(ActionId id) {
  remove(id);
  const auto number = static_cast<std::uint64_t>(id);
  if (number >= n_picks_.size()) return;
  ++n_picks_[number];
  running_ = id;
  has_running_ = true;
  running_is_ready_ = false;
}

bool DefaultOrder::contains(ActionId id) const {
  return std::binary_search(ready_.begin(), ready_.end(), id, std::greater<>()) ||
         std::find(polling_.begin(), polling_.end(), id) != polling_.end();
}

ActionId DefaultOrder::next() const {
  if (running_is_ready_) return running_;
  return ready_.empty() ? polling_.front() : ready_.back();
}

std::uint64_t DefaultOrder::n_picks_of(ActionId id) const {
  const auto number = static_cast<std::uint64_t>(id);
  return number < n_picks_.size() ? n_picks_[number] : 0;
}

void DefaultOrder::list(std::vector<ActionId>& ids) const {
  ids.insert(ids.end(), ready_.begin(), ready_.end());
  ids.insert(ids.end(), polling_.begin(), polling_.end());
}

void DefaultOrder::remove(ActionId id) {
  const auto found = std::lower_bound(ready_.begin(), ready_.end(), id, std::greater<>());
  if (found == ready_.end() || *found != id) {
    std::erase(polling_, id);
    return;
  }
  ready_.erase(found);
  if (id == running_) running_is_ready_ = false;
}

}  // namespace lockstep::sim
