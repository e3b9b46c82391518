#include "lockstep/sim/process/detail/rank_groups.h"

#include <fmt/core.h>
#include <utility>

#include "lockstep/sim/process/detail/serving.h"
#include "lockstep/sim/process/detail/well_formed.h"

namespace lockstep::sim {

namespace {

constexpr std::size_t kMostGroups = 1U << 16U;
/// What PyTorch calls the group of all ranks, the first that it makes.
constexpr std::string_view kDefaultGroup = "0";

bool is_whole_world(const ProcessGroup& world, std::span<const std::int32_t> members) {
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (members[i] != static_cast<std::int32_t>(i)) return false;
  }
  return static_cast<std::int32_t>(members.size()) == world.size();
}

}  // namespace

RankGroups::RankGroups(Serving& serving, RankContext& context, RankProcess& process)
    : serving_(serving), context_(context), process_(process) {}

Answer RankGroups::open(const Request& request) {
  const Result<GroupRequest> decoded = decode_group(request.body);
  const GroupRequest& asked = well_formed(decoded);
  const char* name = process_.name(asked.name);
  require(name != nullptr && asked.name != kNoName && open_.size() < kMostGroups,
          fmt::format("name {} is not defined, or there are too many groups", asked.name));
  serving_.note_progress();
  ProcessGroup& world = context_.world();
  if (open_.empty() && name == kDefaultGroup && is_whole_world(world, asked.members)) {
    open_.push_back(&world);
    return {ValueStatus::kOk, encode_i32(0)};
  }
  auto& handle = static_cast<RankHandle&>(context_.host());
  Result<std::unique_ptr<ProcessGroup>> opened =
      serving_.groups->open(handle, context_.runtime(), name, asked.members);
  if (!opened.ok()) return {ValueStatus::kContract, opened.error().message};
  own_.push_back(std::move(opened).value());
  open_.push_back(own_.back().get());
  return {ValueStatus::kOk, encode_i32(static_cast<std::int32_t>(open_.size()) - 1)};
}

void RankGroups::close(const Request& request) {
  const Result<std::int32_t> decoded = decode_i32(request.body);
  const std::int32_t group = well_formed(decoded);
  if (group < 0 || static_cast<std::size_t>(group) >= open_.size()) return;
  ProcessGroup* closed = std::exchange(open_[static_cast<std::size_t>(group)], nullptr);
  std::erase_if(own_, [closed](const auto& own) { return own.get() == closed; });
}

ProcessGroup& RankGroups::at(std::int32_t group) const {
  const auto index = static_cast<std::size_t>(group);
  require(group >= 0 && index < open_.size() && open_[index] != nullptr,
          fmt::format("there is no open group with handle {}", group));
  return *open_[index];
}

}  // namespace lockstep::sim
