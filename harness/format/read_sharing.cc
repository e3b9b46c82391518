// optimizer.zero and optimizer.averager: what ranks share out, and what they keep apart for a
// while.
#include "lockstep/harness/format/sections.h"

namespace lockstep {
namespace {

std::vector<AveragingLevel> read_levels(TableReader& table) {
  std::vector<AveragingLevel> levels;
  const TomlNode* list = table.array("levels");
  if (list == nullptr) return levels;
  for (const TomlNode& node : list->items) {
    if (!node.is_table()) {
      table.problem().report("a level is a table: { period = 2, group_size = 4 }", node.where);
      continue;
    }
    TableReader one(node, "optimizer.averager.levels", table.problem());
    levels.push_back(
        {.period = one.integer("period", 1, 1), .group_size = one.small("group_size", 1, 1)});
    one.finish();
  }
  return levels;
}

std::optional<AveragerSpec> read_averager(TableReader& optimizer) {
  const TomlNode* node = optimizer.table("averager");
  if (node == nullptr) return std::nullopt;
  TableReader table(*node, "optimizer.averager", optimizer.problem());
  AveragerSpec averager;
  averager.warmup_steps = table.integer("warmup_steps", 0, 0);
  averager.levels = read_levels(table);
  if (averager.levels.empty()) averager.period = table.integer("period", 1, 1);
  table.finish();
  return averager;
}

void check_levels(const Job& job, std::int32_t n_ranks, TableReader& optimizer) {
  if (!job.optimizer.averager || job.optimizer.averager->levels.empty()) return;
  const std::vector<AveragingLevel>& levels = job.optimizer.averager->levels;
  bool divides = levels.back().group_size == n_ranks;
  for (const AveragingLevel& level : levels) {
    divides = divides && n_ranks % level.group_size == 0;
  }
  if (divides) return;
  optimizer.problem().report("the groups of an averager's levels divide the " +
                                 std::to_string(n_ranks) + " ranks, the last one has all of them",
                             optimizer.where("averager"));
}

}  // namespace

void read_sharing(TableReader& optimizer, OptimizerSpec& spec) {
  spec.zero = optimizer.integer("zero", 0, 0, 1) == 1;
  if (spec.zero) {
    spec.parameters_as_bucket_view = optimizer.flag("parameters_as_bucket_view", false);
  }
  spec.averager = read_averager(optimizer);
}

void check_sharing(const Job& job, std::int32_t n_ranks, TableReader& root, Problem& problem) {
  TableReader optimizer = section(root, "optimizer", problem);
  check_levels(job, n_ranks, optimizer);
  if (job.optimizer.zero && job.loop.snapshot.every_steps > 0) {
    problem.report("snapshots do not collect the shares of 'optimizer.zero = 1'",
                   optimizer.where("zero"));
  }
  if (job.optimizer.averager && job.loop.join) {
    problem.report("no joined rank shadows 'optimizer.averager'", optimizer.where("averager"));
  }
}

}  // namespace lockstep
