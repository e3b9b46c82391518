// ddp.hook: a communication hook with PyTorch's options, and which laws a job does not promise.
#include <algorithm>

#include "lockstep/harness/format/section.h"
#include "lockstep/harness/format/sections.h"

namespace lockstep {
namespace {

const Section<PowerSgdOptions>& power_sgd_section() {
  using Options = PowerSgdOptions;
  static const Section<Options> section("ddp.hook", {"powersgd"}, [](Section<Options>& it) {
    it.differs_by_rank();
    it.add("matrix_approximation_rank", &Options::rank, "Columns of the thin matrices.")
        .at_least(1);
    it.add("start_powerSGD_iter", &Options::start_iter, "Plain averaging before this iteration.");
    it.add("min_compression_rate", &Options::min_compression_rate, "Else gradients go as they are.")
        .from(0.0);
    it.add("use_error_feedback",
           &Options::error_feedback,
           "What compression lost is added to the next gradient.");
    it.add("warm_start", &Options::warm_start, "Starts from the last Q instead of a random one.");
    it.add("orthogonalization_epsilon",
           &Options::orthogonalization_epsilon,
           "Is added to norms before division.")
        .from(0.0);
    it.add("random_seed", &Options::seed, "Of random Q.").at_most(UINT32_MAX);
    it.add("batch_tensors_with_same_shape",
           &Options::batch_same_shapes,
           "Tensors of one shape are compressed together.");
  });
  return section;
}

const Section<LocalSgdSpec>& local_sgd_section() {
  using Spec = LocalSgdSpec;
  static const Section<Spec> section("ddp.hook", {"post-local-sgd"}, [](Section<Spec>& it) {
    it.differs_by_rank();
    it.add("start_localSGD_iter", &Spec::start_iter, "All ranks average before this iteration.");
    it.add(
          "subgroup", &Spec::subgroup, "This many consecutive ranks average together from then on.")
        .at_least(1)
        .shown("a node, or all ranks")
        .counts();
    it.add("post_local_gradient_allreduce",
           &Spec::gradient_allreduce,
           "`false`: no rank averages gradients from then on.");
  });
  return section;
}

/// The hook as a table: { kind = "powersgd", matrix_approximation_rank = 2 }.
const Section<HookSpec>& hook_section() {
  static const Section<HookSpec> section("ddp.hook", [](Section<HookSpec>& it) {
    it.differs_by_rank();
    it.add("kind", &HookSpec::kind, "What takes the place of the reducer's average.").selects();
    it.add("wrapper", &HookSpec::wrapper, "Gradients travel in 16 bits.");
    it.add("bucket_size", &HookSpec::channel, "Elements that share a scale.")
        .at_least(1)
        .of({HookKind::kQuantizePerChannel})
        .counts();
  });
  return section;
}

HookSpec read_hook_table(TableReader& table, const JobSurroundings& around) {
  HookSpec spec;
  hook_section().read(table, spec);
  if (spec.kind == HookKind::kPowerSgd) power_sgd_section().read(table, spec.power_sgd);
  if (spec.kind == HookKind::kPostLocalSgd) {
    spec.local_sgd.subgroup = around.ranks_per_node;
    local_sgd_section().read(table, spec.local_sgd);
  }
  table.finish();
  return spec;
}

}  // namespace

std::vector<SchemaSection> hook_sections() {
  return {
      hook_section().described(), power_sgd_section().described(), local_sgd_section().described()};
}

HookSpec read_hook(TableReader& ddp, const JobSurroundings& around, Problem& problem) {
  HookSpec spec;
  const TomlNode* node = ddp.node("hook");
  if (node != nullptr && node->is_table()) {
    TableReader table(*node, "ddp.hook", problem);
    spec = read_hook_table(table, around);
  } else {
    spec.kind = parse_enum<HookKind>(ddp.word("hook", name_of(spec.kind), kEnumNames<HookKind>))
                    .value_or(spec.kind);
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
