#include "lockstep/sim/fiber/world.h"

#include <fmt/core.h>
#include <utility>

#include "lockstep/base/check.h"
#include "lockstep/sim/fiber/detail/scheduler.h"

namespace lockstep::sim {

World::World() : scheduler_(std::make_unique<Scheduler>(*this)) {}

World::~World() = default;

WorldResult World::run(const WorldOptions& options, Strategy& strategy, const Program& program) {
  return scheduler_->run(options, strategy, program);
}

VirtualTime World::now() const { return scheduler_->timeline().now(); }

std::int32_t World::n_ranks() const { return scheduler_->turns().n_ranks(); }

RankHandle& World::handle(Rank rank) { return scheduler_->turns().slot(rank); }

void World::end_as_livelock() { scheduler_->standstill().end_as_livelock(); }

void World::on_idle(std::function<void(bool)> listener) {
  scheduler_->standstill().on_idle(std::move(listener));
}

void World::wake(Rank rank) {
  LOCKSTEP_CHECK(
      wake_blocked(rank),
      fmt::format("only a blocked rank can be woken, which rank {} is not", to_int(rank)));
}

bool World::wake_blocked(Rank rank) { return scheduler_->wake_blocked(rank); }

bool World::is_blocked(Rank rank) const {
  return scheduler_->turns().slot(rank).control().state == RankState::kBlocked;
}

bool World::has_ended(Rank rank) const {
  return scheduler_->turns().slot(rank).control().state == RankState::kEnded;
}

const RankEnd& World::end_of(Rank rank) const { return scheduler_->ends().of(rank); }

void World::enable(const Action& action, ActionHandler& handler) {
  scheduler_->turns().enable({.action = action, .handler = &handler});
}

void World::disable(ActionId id) { scheduler_->turns().actions().disable(id); }

void World::touch(std::uint64_t object) { scheduler_->turns().actions().touch(object); }

void World::at(VirtualTime at, std::function<void()> handler, bool daemon) {
  scheduler_->timeline().at(at, std::move(handler), daemon);
}

void World::kill(Rank rank, const std::string& reason) { scheduler_->ends().kill(rank, reason); }

void World::interrupt(Rank rank, std::function<void(RankHandle&)> handler) {
  scheduler_->ends().interrupt(rank, std::move(handler));
}

void World::on_rank_end(std::function<void(Rank)> listener) {
  scheduler_->ends().on_end(std::move(listener));
}

void World::on_rank_dying(std::function<void(Rank)> listener) {
  scheduler_->ends().on_dying(std::move(listener));
}

void World::on_stuck(std::function<void(const StuckVerdict&)> listener) {
  scheduler_->standstill().on_stuck(std::move(listener));
}

}  // namespace lockstep::sim
