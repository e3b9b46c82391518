// One rank's job: its sections together, and what must fit between them.
#include "lockstep/base/text.h"
#include "lockstep/harness/companion/companion.h"
#include "lockstep/harness/format/sections.h"

namespace lockstep {
namespace {

/// Ranks under a join context take different numbers of steps.
void check_join(const Job& job, TableReader& root, Problem& problem) {
  if (!job.loop.join) return;
  const std::string where = section(root, "loop", problem).where("join");
  const auto refuse = [&](bool wrong, const std::string& why) {
    if (wrong) problem.report("'loop.join' " + why, where);
  };
  refuse(!job.ddp.wrap, "shadows a wrapper's collectives: set ddp.wrap = true");
  refuse(job.loop.steps.has_value(),
         "needs 'epochs', because ranks take different numbers of steps");
  refuse(job.loop.snapshot.every_steps > 0,
         "does not support snapshots, because ranks are at different steps");
  refuse(job.ddp.options.static_graph, "cannot shadow a static graph");
}

/// Quantization is for single precision alone, and PowerSGD multiplies matrices.
void check_hook_dtype(const Job& job, TableReader& root, Problem& problem) {
  const HookKind kind = job.ddp.hook.kind;
  const bool quantizes =
      kind == HookKind::kQuantizePerTensor || kind == HookKind::kQuantizePerChannel;
  const bool multiplies = kind == HookKind::kPowerSgd && job.model.dtype != DType::kF64;
  if (job.model.dtype == DType::kF32 || (!quantizes && !multiplies)) return;
  problem.report("the hook '" + std::string(name_of(kind)) +
                     "' takes f32 gradients: set model.dtype = \"f32\"",
                 section(root, "ddp", problem).where("hook"));
}

void check_autocast(const Job& job, TableReader& root, Problem& problem) {
  if (!job.autocast.enabled || job.model.dtype != DType::kF64) return;
  problem.report("autocast leaves f64 alone: set model.dtype = \"f32\"", root.where("autocast"));
}

void check_initial_values(const Job& job, TableReader& root, Problem& problem) {
  if (job.model.init.kind != InitKind::kValues) return;
  const std::int64_t n = n_parameters(job.model);
  const auto n_given = static_cast<std::int64_t>(job.model.init.values.size());
  if (n == n_given) return;
  problem.report("the model has " + std::to_string(n) + " elements, 'model.init.values' has " +
                     std::to_string(n_given),
                 section(root, "model", problem).where("init"));
}

}  // namespace

std::shared_ptr<const Job> read_job(TableReader& root,
                                    const JobSurroundings& around,
                                    Problem& problem) {
  auto job = std::make_shared<Job>();
  job->exact = around.exact;
  job->model = read_model(root, around, problem);
  job->loader = read_loader(root, around.n_ranks, problem);
  job->loss = read_loss(root, problem);
  read_optimization(root, *job, problem);
  job->loop = read_loop(root, problem);
  job->ddp = read_ddp(root, around, problem);
  check_join(*job, root, problem);
  check_hook_dtype(*job, root, problem);
  check_autocast(*job, root, problem);
  check_sharing(*job, around.n_ranks, root, problem);
  if (job->clip.before_sync && job->ddp.wrap) {
    problem.report("'clip.when = \"before-sync\"' is for hand-written loops: set ddp.wrap = false",
                   root.where("clip"));
  }
  if (!problem.found()) read_data(root, around, *job, problem);
  if (!problem.found()) check_initial_values(*job, root, problem);
  return job;
}

}  // namespace lockstep
