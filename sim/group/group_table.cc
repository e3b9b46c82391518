#include "lockstep/sim/group/detail/group_table.h"

#include <algorithm>
#include <fmt/core.h>
#include <numeric>
#include <utility>

#include "lockstep/base/check.h"
#include "lockstep/base/text.h"
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
  group->id = group->key = id;
  group->members = std::move(members);
  group->handles.resize(group->members.size());
  return group;
}

std::size_t place_of(Rank rank, std::span<const std::int32_t> members) {
  const auto self = static_cast<std::size_t>(to_int(rank));
  if (self < members.size() && members[self] == to_int(rank)) return self;
  return static_cast<std::size_t>(std::ranges::find(members, to_int(rank)) - members.begin());
}

std::uint64_t slot_object(GroupState& group, std::int64_t seq) {
  if (group.last_meeting.seq != seq) {
    group.last_meeting = {seq, object_of(Touched::kMeeting, group, seq, 0)};
  }
  return group.last_meeting.object;
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

GroupState& GroupTable::world_group() {
  std::unique_ptr<GroupState>& group = groups_[0];
  if (group == nullptr) {
    std::vector<std::int32_t> members(static_cast<std::size_t>(world_->n_ranks()));
    std::iota(members.begin(), members.end(), 0);
    group = make_group(0, std::move(members));
  }
  return *group;
}

GroupState& GroupTable::split(const GroupState& parent,
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
  const auto small_id = static_cast<std::int32_t>(id);
  std::unique_ptr<GroupState>& group = groups_[small_id];
  if (group == nullptr) group = make_group(small_id, members);
  if (group->members == members) return *group;
  std::vector<GroupState*>& others = disputed_[small_id];
  const auto known = std::ranges::find(
      others, members, [](const GroupState* g) -> const auto& { return g->members; });
  if (known != others.end()) return **known;
  std::uint64_t digest = static_cast<std::uint64_t>(id);
  for (const std::int32_t member : members) {
    digest = mix64(digest + kGolden64 + static_cast<std::uint64_t>(member));
  }
  const std::int32_t key = free_key(digest);
  std::unique_ptr<GroupState>& other = groups_[key];
  other = make_group(small_id, std::move(members));
  other->key = key;
  others.push_back(other.get());
  return *other;
}

}  // namespace lockstep::sim
