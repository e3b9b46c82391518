#include "lockstep/sim/group/detail/deadlines.h"

#include <fmt/core.h>

#include "lockstep/sim/group/detail/group_registry.h"

namespace lockstep::sim {

// Numbers, not pointers, wait in the timer: the work may be gone when it fires.
void Deadlines::set(SimWork& work, Duration timeout) {
  work.limit = ++n_;
  pending_.emplace(work.limit, &work);
  World& world = registry_->world();
  world.at(world.now() + timeout, [this, number = work.limit] { pass(number); });
}

void Deadlines::pass(std::int64_t number) {
  const auto found = pending_.find(number);
  if (found == pending_.end()) return;
  SimWork& work = *found->second;
  registry_->time_out(work, fmt::format("the deadline of rank {} passed", to_int(work.rank())));
}

// All have the same time, so they end in the order in which they were posted.
void Watchdog::watch(SimWork& work) {
  const Duration limit = registry_->options().watchdog;
  if (limit.ns == 0) return;
  work.limit = --n_;
  watched_.emplace(work.limit, &work);
  due_.emplace_back(registry_->world().now() + limit, work.limit);
  arm();
}

void Watchdog::arm() {
  while (!due_.empty() && !watched_.contains(due_.front().second)) due_.pop_front();
  if (armed_ || due_.empty()) return;
  armed_ = true;
  registry_->world().at(
      due_.front().first, [this] { wake(); }, true);
}

void Watchdog::wake() {
  armed_ = false;
  while (!due_.empty() && due_.front().first <= registry_->world().now()) {
    const auto found = watched_.find(due_.front().second);
    due_.pop_front();
    if (found == watched_.end()) continue;
    SimWork& work = *found->second;
    const int rank = to_int(work.rank());
    const std::string report = fmt::format("rank {}: {} has not completed in {} ns{}\n",
                                           rank,
                                           describe_call(work),
                                           registry_->options().watchdog.ns,
                                           registry_->ranks().missing_text(work));
    if (registry_->time_out(work, fmt::format("the watchdog of rank {} gave up", rank))) {
      reports_ += report;
    }
  }
  arm();
}

}  // namespace lockstep::sim
