#include "lockstep/sim/group/sim_group.h"

#include "lockstep/sim/group/detail/hub.h"
#include "lockstep/sim/group/detail/sim_process_group.h"
#include "lockstep/sim/group/detail/wires.h"

namespace lockstep::sim {

std::optional<Pairing> parse_pairing(std::string_view name) {
  if (name == "strict") return Pairing::kStrict;
  if (name == "nccl_like") return Pairing::kNcclLike;
  if (name == "gloo_like") return Pairing::kGlooLike;
  return std::nullopt;
}

std::optional<Fidelity> parse_fidelity(std::string_view name) {
  if (name == "rendezvous") return Fidelity::kRendezvous;
  if (name == "message") return Fidelity::kMessage;
  return std::nullopt;
}

// The world may outlive the hub: its listener only holds on weakly.
class GroupHub::Impl {
 public:
  Impl(World& world, const GroupOptions& options) : hub(std::make_shared<Hub>(world, options)) {
    world.on_rank_dying([weak = std::weak_ptr<Hub>(hub)](Rank rank) {
      if (const auto alive = weak.lock()) alive->abandon(rank);
    });
    world.on_stuck([weak = std::weak_ptr<Hub>(hub)](const StuckVerdict& verdict) {
      if (const auto alive = weak.lock()) alive->on_stuck(verdict);
    });
  }

  std::shared_ptr<Hub> hub;
};

GroupHub::GroupHub(World& world, const GroupOptions& options)
    : impl_(std::make_unique<Impl>(world, options)) {}

GroupHub::~GroupHub() = default;

std::unique_ptr<ProcessGroup> GroupHub::world_group(RankHandle& rank, Runtime& runtime) {
  Hub& hub = *impl_->hub;
  return std::make_unique<SimProcessGroup>(
      hub, hub.world_group(), rank, runtime, to_int(rank.rank()));
}

void GroupHub::plan(const Mishap& mishap) { impl_->hub->plan(mishap); }

void GroupHub::remember(Rank rank) { impl_->hub->remember(rank); }

std::string GroupHub::explain(const StuckVerdict& /*verdict*/) const {
  return impl_->hub->explanation();
}

const WaitForGraph& GroupHub::wait_for() const { return impl_->hub->wait_for(); }

const std::string& GroupHub::timeouts() const { return impl_->hub->timeouts(); }

bool GroupHub::awaits_timeout() const { return impl_->hub->awaits_timeout(); }

std::vector<Rank> GroupHub::missing_ranks() const { return impl_->hub->missing(); }

}  // namespace lockstep::sim
