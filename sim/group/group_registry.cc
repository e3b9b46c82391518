#include "lockstep/sim/group/detail/group_registry.h"

#include <fmt/core.h>

#include "lockstep/base/check.h"
#include "lockstep/sim/group/detail/message_network.h"
#include "lockstep/sim/group/detail/sim_process_group.h"

namespace lockstep::sim {

GroupRegistry::GroupRegistry(World& world, const GroupOptions& options)
    : world_(&world),
      options_(options),
      groups_(world),
      matcher_(*this),
      mailbox_(*this),
      faults_(*this),
      deadlines_(*this),
      watchdog_(*this),
      ranks_(*this),
      hang_report_(*this) {}

GroupRegistry::~GroupRegistry() = default;

GroupState& GroupRegistry::world_group() {
  if (groups_.all().contains(0)) return groups_.world_group();
  LOCKSTEP_CHECK(options_.order.fits(world_->n_ranks()),
                 fmt::format("the rings of '{}' do not name the ranks of this world, which has {}",
                             options_.order.name(),
                             world_->n_ranks()));
  const bool free = options_.net.is_free() && options_.fidelity == Fidelity::kRendezvous;
  if (!free) network_ = std::make_unique<MessageNetwork>(*this, *world_, options_);
  return groups_.world_group();
}

void GroupRegistry::fail(SimWork& work, CommStatus status, const std::string* detail) {
  if (is_message(work)) return mailbox_.fail(work, status, detail);
  matcher_.fail(*slot_of(work), status, detail);
}

bool GroupRegistry::time_out(SimWork& work, const std::string& text) {
  MatchSlot* slot = slot_of(work);
  if (slot == nullptr ? has_arrived(work) : slot->ready) return false;
  const std::string* detail = keep(text + ranks_.missing_text(work));
  if (slot == nullptr) {
    mailbox_.fail(work, CommStatus::kTimedOut, detail);
  } else {
    matcher_.time_out(*slot, detail);
  }
  return true;
}

void GroupRegistry::leave(SimProcessGroup& group) {
  ranks_.set_waiting(group.handle().rank(), nullptr);
  give_up_all(group);
  group.state().handles[static_cast<std::size_t>(group.rank())] = nullptr;
}

void GroupRegistry::abandon(Rank rank) {
  for (const auto& [id, group] : groups_.all()) {
    const std::size_t place = place_of(rank, group->members);
    if (place == group->members.size()) continue;
    SimProcessGroup* handle = group->handles[place];
    if (handle != nullptr) give_up_all(*handle);
  }
}

void GroupRegistry::give_up_all(SimProcessGroup& group) {
  while (SimWork* work = group.first_pending()) give_up(*work);
}

void GroupRegistry::give_up(SimWork& work) {
  if (is_message(work)) {
    mailbox_.give_up(work);
  } else {
    matcher_.give_up(work);
  }
}

}  // namespace lockstep::sim
