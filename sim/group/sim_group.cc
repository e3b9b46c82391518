#include "lockstep/sim/group/sim_group.h"

#include "lockstep/sim/group/detail/group_registry.h"
#include "lockstep/sim/group/detail/message_network.h"
#include "lockstep/sim/group/detail/sim_process_group.h"
#include "lockstep/trace/recorder.h"

namespace lockstep::sim {

// The world may outlive the registry: its listener holds only a weak reference.
class SimGroups::Impl {
 public:
  Impl(World& world, const GroupOptions& options)
      : registry(std::make_shared<GroupRegistry>(world, options)) {
    world.on_rank_dying([weak = std::weak_ptr<GroupRegistry>(registry)](Rank rank) {
      if (const auto alive = weak.lock()) alive->abandon(rank);
    });
    world.on_stuck([weak = std::weak_ptr<GroupRegistry>(registry)](const StuckVerdict& verdict) {
      if (const auto alive = weak.lock()) alive->hang_report().on_stuck(verdict);
    });
  }

  std::shared_ptr<GroupRegistry> registry;
};

SimGroups::SimGroups(World& world, const GroupOptions& options)
    : impl_(std::make_unique<Impl>(world, options)) {}

SimGroups::~SimGroups() = default;

std::unique_ptr<ProcessGroup> SimGroups::world_group(RankHandle& rank, Runtime& runtime) {
  GroupRegistry& registry = *impl_->registry;
  return std::make_unique<SimProcessGroup>(
      registry, registry.world_group(), rank, runtime, to_int(rank.rank()));
}

Result<std::unique_ptr<ProcessGroup>> SimGroups::open(RankHandle& rank,
                                                      Runtime& runtime,
                                                      std::string_view name,
                                                      std::span<const std::int32_t> members) {
  GroupRegistry& registry = *impl_->registry;
  const Result<GroupState*> opened = registry.groups().open(rank.rank(), name, members);
  if (!opened.ok()) return opened.error();
  GroupState& state = *opened.value();
  if (Recorder* recorder = runtime.recorder()) {
    recorder->record(GroupEvent{.group = state.id, .members = state.members});
  }
  const auto self = static_cast<std::int32_t>(place_of(rank.rank(), members));
  return std::unique_ptr<ProcessGroup>(
      std::make_unique<SimProcessGroup>(registry, state, rank, runtime, self));
}

void SimGroups::plan(const ContributionFault& fault) { impl_->registry->faults().plan(fault); }

void SimGroups::report_to(Traffic* traffic) { impl_->registry->report_to(traffic); }

void SimGroups::remember(Rank rank) { impl_->registry->faults().remember(rank); }

std::string SimGroups::explain(const StuckVerdict& /*verdict*/) const {
  return impl_->registry->hang_report().explanation();
}

const WaitForGraph& SimGroups::wait_for() const {
  return impl_->registry->hang_report().wait_for();
}

const std::string& SimGroups::timeouts() const { return impl_->registry->watchdog().reports(); }

bool SimGroups::awaits_timeout() const { return impl_->registry->watchdog().is_watching(); }

std::vector<Rank> SimGroups::missing_ranks() const {
  return impl_->registry->hang_report().missing();
}

}  // namespace lockstep::sim
