#include "lockstep/harness/certify/certify_scenario.h"

#include <algorithm>
#include <utility>

#include "lockstep/harness/certify/detail/columns.h"
#include "lockstep/harness/certify/detail/weigh.h"
#include "lockstep/harness/run/run_scenario.h"

namespace lockstep {
namespace {

constexpr const char* kProbeTensor = "weight";  ///< The name of the probe's parameter.

/// Why this scenario has no certificate; empty where it has one.
std::string obstacle(const Scenario& scenario) {
  if (scenario.jobs.empty()) {
    return "it is a raw `program` without a loss to certify; certify takes a scenario with a job";
  }
  if (scenario.session.agent) {
    return "its ranks are restarted, and certify follows one attempt; set world.max_restarts=0";
  }
  for (const auto& job : scenario.jobs) {
    const HookSpec& hook = job->ddp.hook;
    if (job->optimizer.averager || hook.kind == HookKind::kPostLocalSgd) {
      return "its ranks average parameters, not gradients, so no single step has the objective's "
             "gradient; certify it without the averager";
    }
    if (hook.kind == HookKind::kNoop || hook.loses()) {
      return "the communication hook '" + std::string(name_of(hook.kind)) +
             "' does not keep the mean of gradients exactly; certify the loop without it: --set "
             "ddp.hook=none";
    }
  }
  return {};
}

/// Row i is the unit vector of its column; the target makes the derivative by each output 1.
std::shared_ptr<const data::Dataset> probe_data(const data::Dataset& rows,
                                                const Columns& columns,
                                                std::int32_t rank) {
  data::DatasetParts parts;
  parts.name = "probe";
  parts.size = rows.size();
  parts.feature_columns = columns.n;
  parts.features.resize(static_cast<std::size_t>(rows.size() * columns.n));
  parts.target_columns = 1;
  // d/dz (z + 1/2)^2 = 1 at z = 0, where the probe's outputs stay.
  parts.targets.assign(static_cast<std::size_t>(rows.size()), -0.5);
  for (std::int64_t i = 0; i < rows.size(); ++i) {
    parts.tokens.push_back(rows.tokens(i));
    const auto found = columns.of.find({rank, i});
    if (found == columns.of.end()) continue;
    parts.features[static_cast<std::size_t>(i * columns.n + found->second)] = 1.0;
  }
  Result<data::Dataset> made = data::Dataset::make(std::move(parts));
  return std::make_shared<const data::Dataset>(std::move(made).value());
}

/// The job with the probe in the place of model and data.
std::shared_ptr<const Job> probed(const Job& job, const Columns& columns, std::int32_t rank) {
  auto probe = std::make_shared<Job>(job);
  probe->train = probe_data(*job.train, columns, rank);
  probe->train_ids.clear();
  probe->holdout = nullptr;
  probe->holdout_ids.clear();
  probe->model = {};
  probe->model.kind = ModelKind::kLinear;
  probe->model.widths = {columns.n, 1};
  probe->model.bias = false;
  probe->model.dtype = DType::kF64;
  probe->model.init.kind = InitKind::kConstant;
  probe->loader.augment = {};
  probe->loss.kind = LossKind::kMse;
  probe->optimizer = {};
  probe->optimizer.lr = 0.0;  // The probe stays where its loss has derivative 1.
  probe->scheduler = {};
  probe->clip = {};
  probe->scaler.reset();
  probe->autocast.enabled = false;
  probe->loop.redo = false;
  probe->loop.eval = {};
  probe->loop.snapshot = {};
  probe->exact = {};
  probe->ddp.options.ignored.clear();
  return probe;
}

/// A bug acts on the probe's one tensor, whichever it names. One that writes to parameters does not
/// concern weights.
std::vector<BugSpec> probed_bugs(const std::vector<BugSpec>& bugs) {
  std::vector<BugSpec> kept;
  for (BugSpec bug : bugs) {
    const auto* const written = std::get_if<bug::WriteTensor>(&bug.effect);
    if (written != nullptr && written->part == TensorSide::kValue) continue;
    std::string* const tensor = tensor_of(bug.effect);
    if (tensor != nullptr && !tensor->empty()) *tensor = kProbeTensor;
    kept.push_back(std::move(bug));
  }
  return kept;
}

std::vector<std::string> set_aside(const Scenario& scenario) {
  const auto any = [&](auto has) {
    return std::any_of(
        scenario.jobs.begin(), scenario.jobs.end(), [&](const auto& job) { return has(*job); });
  };
  std::vector<std::string> names;
  if (any([](const Job& job) { return job.clip.norm || job.clip.value; })) {
    names.emplace_back("clipping");
  }
  if (any([](const Job& job) { return job.scaler.has_value(); })) {
    names.emplace_back("the gradient scaler");
  }
  if (any([](const Job& job) { return job.exact.on && job.exact.scale_loss_by_world; })) {
    names.emplace_back("exact.scale_loss_by_world");
  }
  if (probed_bugs(scenario.bugs).size() < scenario.bugs.size()) {
    names.emplace_back("bugs that write to parameters");
  }
  return names;
}

/// Runs the probe. Errors: a run that does not finish.
Result<std::vector<std::vector<RankWindow>>> run_probe(const Scenario& scenario,
                                                       const Columns& columns) {
  Scenario probe;  // What run_rank reads of one.
  for (std::size_t r = 0; r < scenario.jobs.size(); ++r) {
    probe.jobs.push_back(probed(*scenario.jobs[r], columns, static_cast<std::int32_t>(r)));
  }
  probe.bugs = probed_bugs(scenario.bugs);
  sim::SessionOptions options = scenario.session;
  options.exact = false;
  options.values = true;
  options.policy.declared_mean.clear();  // Batch events carry the job's own declaration.
  sim::Session session;
  const auto run =
      session.run(options, [&](RankContext& context) { run_rank(probe, context, nullptr); });
  if (!run.ok()) return run.error();
  const std::string why = why_unfinished(run.value());
  if (!why.empty()) {
    return Error{"the job does not finish (" + why +
                     "), so not all of its weights are known; `lockstep run` says more",
                 scenario.path};
  }
  return windows_of(*run.value().trace, scenario.n_ranks);
}

/// One column that every sample shares: enough to see which windows there are.
Columns shared_column() { return {.of = {}, .n = 1}; }

}  // namespace

Result<Certificate> certify_scenario(const Scenario& scenario,
                                     const std::optional<Objective>& objective) {
  const std::string why_not = obstacle(scenario);
  if (!why_not.empty()) return Error{"cannot be certified: " + why_not, scenario.path};
  Result<Objective> wanted =
      objective ? Result<Objective>(*objective)
                : parse_objective(std::string(name_of(scenario.jobs.front()->loss.declared)),
                                  scenario.n_ranks);
  if (!wanted.ok()) return wanted.error();

  const auto plan = run_probe(scenario, shared_column());
  if (!plan.ok()) return plan.error();
  const Columns columns = choose_columns(plan.value());
  if (columns.n == 0) {
    return Error{"cannot be certified: no rank consumes a sample", scenario.path};
  }
  auto ranks = run_probe(scenario, columns);
  if (!ranks.ok()) return ranks.error();
  const ProbedRun run = {
      .ranks = std::move(ranks).value(), .sample = [&](std::int32_t rank, std::int64_t id) {
        const data::Dataset& rows = *scenario.jobs[static_cast<std::size_t>(rank)]->train;
        return ProbedSample{columns.of.at({rank, id}), rows.tokens(id)};
      }};
  Certificate certificate = weigh(run, wanted.value());
  name_faults(certificate);
  const std::string variant = scenario.variant.empty() ? "" : " (variant " + scenario.variant + ")";
  certificate.title = scenario.title + variant;
  certificate.set_aside = set_aside(scenario);
  return certificate;
}

}  // namespace lockstep
