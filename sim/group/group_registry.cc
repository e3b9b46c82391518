#include "lockstep/sim/group/detail/group_registry.h"

#include <fmt/core.h>
#include <numeric>
#include <utility>

#include "lockstep/base/check.h"
#include "lockstep/base/text.h"
#include "lockstep/sim/group/detail/message_network.h"
#include "lockstep/sim/group/detail/sim_process_group.h"
#include "lockstep/tensor/digest.h"

namespace lockstep::sim {

namespace {

// Ids of groups follow from which group was split how often, never from the schedule: child k of
// group g is g * 4096 + k + 1, so that the world (0) has the children 1, 2, ...
constexpr std::int64_t kMaxSplits = 4096;

enum class Touched : std::uint64_t { kMeeting, kChannel, kSplit };

std::uint64_t object_of(Touched kind, const GroupState& group, std::int64_t a, std::int64_t b) {
  std::uint64_t word = static_cast<std::uint64_t>(kind);
  for (const std::int64_t part : {std::int64_t{group.id}, a, b}) {
    word = mix64(word + kGolden64 + static_cast<std::uint64_t>(part));
  }
  return word | 1U;
}

}  // namespace

std::unique_ptr<GroupState> make_group(std::int32_t id, std::vector<std::int32_t> members) {
  auto group = std::make_unique<GroupState>();
  group->id = id;
  group->members = std::move(members);
  group->handles.resize(group->members.size());
  return group;
}

std::uint64_t slot_object(const GroupState& group, std::int64_t seq) {
  return object_of(Touched::kMeeting, group, seq, 0);
}

std::uint64_t channel_object(const GroupState& group,
                             const Signature& signature,
                             std::int32_t self) {
  const std::int32_t receiver = signature.op == CollectiveOp::kSend ? signature.peer : self;
  return object_of(Touched::kChannel, group, receiver, signature.tag);
}

std::uint64_t split_object(const GroupState& group, std::int64_t k) {
  return object_of(Touched::kSplit, group, k, 0);
}

GroupRegistry::GroupRegistry(World& world, const GroupOptions& options)
    : world_(&world), options_(options), transfer_(options.order) {}

GroupRegistry::~GroupRegistry() = default;

GroupState& GroupRegistry::world_group() {
  const auto known = groups_.find(0);
  if (known != groups_.end()) return *known->second;
  LOCKSTEP_CHECK(options_.order.fits(world_->n_ranks()),
                 fmt::format("the rings of '{}' do not name the ranks of this world, which has {}",
                             options_.order.name(),
                             world_->n_ranks()));
  std::vector<std::int32_t> members(static_cast<std::size_t>(world_->n_ranks()));
  std::iota(members.begin(), members.end(), 0);
  std::unique_ptr<GroupState>& group = groups_[0];
  group = make_group(0, std::move(members));
  const bool free = options_.net.is_free() && options_.fidelity == Fidelity::kRendezvous;
  if (!free) message_network_ = std::make_unique<MessageNetwork>(*this, *world_, options_);
  return *group;
}

GroupState& GroupRegistry::split(const GroupState& parent,
                                 std::int64_t k,
                                 std::vector<std::int32_t> members) {
  const std::int64_t id = parent.id * kMaxSplits + k + 1;
  LOCKSTEP_CHECK(
      k + 1 < kMaxSplits && id < (std::int64_t{1} << 31U),
      fmt::format(
          "split {} of group {}: a group can be split {} times, and splits nest at most twice",
          k + 1,
          parent.id,
          kMaxSplits - 1));
  std::unique_ptr<GroupState>& group = groups_[static_cast<std::int32_t>(id)];
  if (group == nullptr) group = make_group(static_cast<std::int32_t>(id), members);
  LOCKSTEP_CHECK(group->members == members,
                 "all members must split a group by the same list: one passed " +
                     join(std::span<const std::int32_t>(group->members)) + ", another " +
                     join(std::span<const std::int32_t>(members)));
  return *group;
}

GroupState* GroupRegistry::group_of(std::int32_t id) const {
  const auto found = groups_.find(id);
  return found == groups_.end() ? nullptr : found->second.get();
}

const std::string* GroupRegistry::keep(std::string text) {
  return &details_.emplace_back(std::move(text));
}

void GroupRegistry::set_waiting(Rank rank, SimWork* work) {
  if (to_index(rank) >= waiting_.size()) {
    waiting_.resize(static_cast<std::size_t>(world_->n_ranks()));
  }
  waiting_[to_index(rank)] = work;
}

SimWork* GroupRegistry::waiting_on(Rank rank) const {
  return to_index(rank) < waiting_.size() ? waiting_[to_index(rank)] : nullptr;
}

void GroupRegistry::wake_waiter(const SimWork& work) {
  if (waiting_on(work.rank()) != &work || !world_->is_blocked(work.rank())) return;
  world_->wake(work.rank());
}

}  // namespace lockstep::sim
