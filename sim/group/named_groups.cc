// Groups that their members open by name, each on its own.
#include <algorithm>
#include <charconv>
#include <fmt/core.h>
#include <utility>

#include "lockstep/base/text.h"
#include "lockstep/sim/group/detail/group_table.h"
#include "lockstep/tensor/digest.h"

namespace lockstep::sim {

namespace {

// Below: groups that splits of the world get, and names that are numbers. Above: a digest.
constexpr std::int32_t kSmallIds = 4096;
constexpr std::uint64_t kLargeIds = std::uint64_t{1} << 30U;

std::uint64_t digest_of(std::string_view name, std::int64_t instance) {
  std::uint64_t word = kGolden64 + static_cast<std::uint64_t>(instance);
  for (const char letter : name) {
    word = mix64(word + kGolden64 + static_cast<unsigned char>(letter));
  }
  return word;
}

/// The number that `name` is, or -1.
std::int32_t number_of(std::string_view name) {
  std::int32_t number = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool whole = error == std::errc() && end == name.data() + name.size();
  return whole && number >= 0 && number < kSmallIds ? number : -1;
}

std::string shown(std::string_view name, std::int64_t instance) {
  return instance == 0 ? std::string(name) : fmt::format("{} (opening {})", name, instance + 1);
}

}  // namespace

std::int32_t GroupTable::free_id(std::string_view name, std::int64_t instance) const {
  const std::int32_t number = number_of(name);
  if (number >= 0 && instance == 0 && !groups_.contains(number)) return number;
  return free_key(digest_of(name, instance));
}

std::int32_t GroupTable::free_key(std::uint64_t digest) const {
  std::uint64_t key = digest % kLargeIds;
  while (groups_.contains(static_cast<std::int32_t>(kLargeIds + key))) key = (key + 1) % kLargeIds;
  return static_cast<std::int32_t>(kLargeIds + key);
}

Result<GroupState*> GroupTable::open(Rank rank,
                                     std::string_view name,
                                     std::span<const std::int32_t> members) {
  std::vector<std::int32_t> list(members.begin(), members.end());
  std::vector<std::int32_t> sorted = list;
  std::sort(sorted.begin(), sorted.end());
  const bool twice = std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
  const bool outside =
      !sorted.empty() && (sorted.front() < 0 || sorted.back() >= world_->n_ranks());
  if (twice || outside || !std::binary_search(sorted.begin(), sorted.end(), to_int(rank))) {
    return Error{fmt::format("rank {} opens group '{}' with ranks {}: members must be distinct, "
                             "include the rank and be below the world size {}",
                             to_int(rank),
                             name,
                             join(list),
                             world_->n_ranks()),
                 {}};
  }
  std::int64_t& n_openings = n_openings_[{std::string(name), rank}];
  // Ranks that share no group may give theirs the same name.
  std::vector<GroupState*>& same_name = named_[{std::string(name), n_openings}];
  const auto shares_a_rank = [&](const GroupState* group) {
    return std::any_of(group->members.begin(), group->members.end(), [&](std::int32_t member) {
      return std::binary_search(sorted.begin(), sorted.end(), member);
    });
  };
  const auto found = std::find_if(same_name.begin(), same_name.end(), shares_a_rank);
  GroupState* known = found == same_name.end() ? nullptr : *found;
  if (known != nullptr && known->members != list) {
    return Error{fmt::format("rank {} opens group '{}' with ranks {}, but it was opened with ranks "
                             "{}: all members must list the same ranks in the same order",
                             to_int(rank),
                             name,
                             join(list),
                             join(known->members)),
                 {}};
  }
  if (known == nullptr) {
    const std::int32_t id = free_id(name, n_openings);
    std::unique_ptr<GroupState>& group = groups_[id];
    group = make_group(id, std::move(list));
    if (id >= kSmallIds) group->name = shown(name, n_openings);
    known = group.get();
    same_name.push_back(known);
  }
  ++n_openings;
  return known;
}

}  // namespace lockstep::sim
