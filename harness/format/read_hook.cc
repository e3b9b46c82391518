// ddp.hook: a communication hook with PyTorch's options, and which laws a job does not promise.
#include <algorithm>

#include "lockstep/harness/format/sections.h"

namespace lockstep {
namespace {

PowerSgdOptions read_power_sgd(TableReader& table) {
  PowerSgdOptions options;
  options.rank = table.integer("matrix_approximation_rank", options.rank, 1);
  options.start_iter = table.integer("start_powerSGD_iter", options.start_iter, 0);
  options.min_compression_rate =
      table.number_from("min_compression_rate", options.min_compression_rate, 0.0);
  options.error_feedback = table.flag("use_error_feedback", true);
  options.warm_start = table.flag("warm_start", true);
  options.orthogonalization_epsilon = table.number_from("orthogonalization_epsilon", 0.0, 0.0);
  options.seed = static_cast<std::uint32_t>(table.integer("random_seed", 0, 0, UINT32_MAX));
  options.batch_same_shapes = table.flag("batch_tensors_with_same_shape", false);
  return options;
}

LocalSgdSpec read_local_sgd(TableReader& table, const JobSurroundings& around) {
  LocalSgdSpec spec;
  spec.start_iter = table.integer("start_localSGD_iter", 0, 0);
  spec.subgroup = table.small("subgroup", around.ranks_per_node, 1);
  spec.gradient_allreduce = table.flag("post_local_gradient_allreduce", true);
  return spec;
}

/// The hook as a table: { kind = "powersgd", matrix_approximation_rank = 2 }.
HookSpec read_hook_table(TableReader& table, const JobSurroundings& around) {
  HookSpec spec;
  spec.kind = table.word("kind", spec.kind);
  if (spec.kind == HookKind::kPowerSgd) spec.power_sgd = read_power_sgd(table);
  if (spec.kind == HookKind::kPostLocalSgd) spec.local_sgd = read_local_sgd(table, around);
  if (spec.kind == HookKind::kQuantizePerChannel) {
    spec.channel = table.integer("bucket_size", 512, 1);
  }
  spec.wrapper = table.word("wrapper", spec.wrapper);
  table.finish();
  return spec;
}

}  // namespace

HookSpec read_hook(TableReader& ddp, const JobSurroundings& around, Problem& problem) {
  HookSpec spec;
  const TomlNode* node = ddp.node("hook");
  if (node != nullptr && node->is_table()) {
    TableReader table(*node, "ddp.hook", problem);
    spec = read_hook_table(table, around);
  } else {
    spec.kind = ddp.word("hook", spec.kind);
    spec.local_sgd.subgroup = around.ranks_per_node;
  }
  if (spec.kind == HookKind::kNone) return spec;
  const Outcome outcome = check_hook(spec, around.n_ranks);
  if (!outcome.ok()) problem.report(outcome.error().message, ddp.where("hook"));
  return spec;
}

std::vector<std::string> tolerated_laws(std::span<const std::shared_ptr<const Job>> jobs) {
  const auto any = [&](auto test) {
    return std::any_of(jobs.begin(), jobs.end(), [&](const auto& job) { return test(*job); });
  };
  std::vector<std::string> laws;
  if (any([](const Job& job) { return job.ddp.hook.loses(); })) {
    laws = {"gradient-mean", "single-process-equal"};
  }
  const bool local = any([](const Job& job) {
    return job.ddp.hook.kind == HookKind::kPostLocalSgd || job.optimizer.averager;
  });
  if (local) laws.emplace_back("replicas-equal");
  // The mean of N equal parameters may be their neighbour, from which no recorded step began.
  const bool averaged = any([](const Job& job) { return job.optimizer.averager.has_value(); });
  if (averaged) laws.emplace_back("single-process-equal");
  // Ranks without inputs take no steps, and receive no optimizer state that these leave.
  const bool joined = any([](const Job& job) { return job.loop.join && job.loop.join->enable; });
  if (local || joined) laws.emplace_back("optimizer-equal");
  return laws;
}

}  // namespace lockstep
