#include <numeric>
#include <stdexcept>
#include <string>

#include "lockstep/parallel/model_averaging.h"

namespace lockstep {

namespace {

void check_levels(const std::vector<AveragingLevel>& levels, std::int32_t n_ranks) {
  if (levels.empty()) {
    throw std::invalid_argument("Arg ``period_group_size_dict`` must not be empty.");
  }
  if (levels.front().period <= 0) {
    throw std::invalid_argument(
        "The minimum period in arg ``period_group_size_dict`` must be a positive value.");
  }
  if (levels.back().group_size != n_ranks) {
    throw std::invalid_argument("The last value in arg ``period_process_group_dict`` " +
                                std::to_string(levels.back().group_size) +
                                " must be equal to the size of arg ``process_group`` " +
                                std::to_string(n_ranks) + ".");
  }
  for (const AveragingLevel& level : levels) {
    if (level.group_size >= 1 && n_ranks % level.group_size == 0) continue;
    throw std::invalid_argument("The world size must be divisible by 'group_size'");
  }
}

}  // namespace

HierarchicalModelAverager::HierarchicalModelAverager(ProcessGroup& group,
                                                     const std::vector<AveragingLevel>& levels,
                                                     std::int64_t warmup_steps)
    : ModelAverager(warmup_steps) {
  check_levels(levels, group.size());
  for (const AveragingLevel& level : levels) {
    levels_.push_back({.period = level.period, .group = &group});
    if (level.group_size == group.size()) continue;
    for (std::int32_t first = 0; first < group.size(); first += level.group_size) {
      std::vector<std::int32_t> block(static_cast<std::size_t>(level.group_size));
      std::iota(block.begin(), block.end(), first);
      std::unique_ptr<ProcessGroup> subgroup = group.split(block);
      if (!subgroup) continue;
      levels_.back().group = subgroup.get();
      owned_.push_back(std::move(subgroup));
    }
  }
}

ProcessGroup* HierarchicalModelAverager::group_at(std::int64_t step) const {
  for (std::size_t i = levels_.size(); i-- > 0;) {
    if (step % levels_[i].period == 0) return levels_[i].group;
  }
  return nullptr;
}

}  // namespace lockstep
