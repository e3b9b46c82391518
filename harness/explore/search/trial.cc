#include "lockstep/harness/explore/search/trial.h"

#include <memory>
#include <vector>

#include "lockstep/base/check.h"
#include "lockstep/harness/companion/companion.h"
#include "lockstep/harness/explore/search/paths.h"
#include "lockstep/harness/run/run_scenario.h"

namespace lockstep::explore {
namespace {

/// Elements of the model's parameters and of the rows, summed over distinct jobs.
std::int64_t volume_of(const Scenario& scenario) {
  std::int64_t volume = 0;
  const Job* previous = nullptr;
  for (const std::shared_ptr<const Job>& job : scenario.jobs) {
    if (job.get() == previous) continue;
    previous = job.get();
    const std::int64_t columns = job->train->feature_columns() + job->train->target_columns() + 1;
    volume += n_parameters(job->model) + job->train->size() * columns;
    if (job->holdout != nullptr) volume += job->holdout->size() * columns;
  }
  for (const auto& [name, tensor] : scenario.tensors) {
    std::int64_t n = 1;
    for (const std::int64_t size : tensor.shape) n *= size;
    volume += n;
  }
  return volume;
}

std::int64_t n_items(const TomlNode& document, std::string_view key) {
  const TomlNode* list = document.find(key);
  return list == nullptr ? 0 : static_cast<std::int64_t>(list->items.size());
}

std::int64_t n_deviations(const std::string& schedule) {
  const auto decoded = sim::decode_schedule(schedule);
  return decoded.ok() ? static_cast<std::int64_t>(decoded.value().deviations.size()) : 0;
}

/// The strategy of a run, followed leniently where it is a schedule.
Result<std::unique_ptr<sim::Strategy>> strategy_of(const Scenario& scenario,
                                                   const TrialChoices& choices) {
  const std::string& name = choices.strategy.empty() ? scenario.session.strategy : choices.strategy;
  return sim::make_strategy(name, scenario.session.schedule_seed);
}

/// The run's schedule as one word. For several attempts, only the strategy's name is known.
std::string schedule_of(const ScenarioResult& result, const sim::RecordingStrategy& recording) {
  if (result.session.attempts.size() > 1) return recording.describe();
  sim::Schedule schedule;
  schedule.deviations = recording.schedule().deviations;
  return sim::encode_schedule(schedule);
}

}  // namespace

Result<Trial> TrialRunner::run(const TomlNode& document, const TrialChoices& choices) const {
  const Result<Scenario> scenario = scenario_of(document, path_);
  if (!scenario.ok()) return scenario.error();
  Result<Trial> trial = run(scenario.value(), choices);
  if (!trial.ok()) return trial;
  Cost& cost = trial.value().cost;
  for (const char* key : {"bug", "fault", "override"}) cost.disturbances += n_items(document, key);
  const Size size = size_of(document);
  cost.volume = volume_of(scenario.value());
  cost.leaves = size.leaves;
  cost.sum = size.sum;
  if (scenario.value().session.strategy.front() == '@') {
    cost.deviations = n_deviations(trial.value().schedule);
  }
  return trial;
}

Result<Trial> TrialRunner::run(const Scenario& scenario, const TrialChoices& choices) const {
  const auto strategy = strategy_of(scenario, choices);
  if (!strategy.ok()) return strategy.error();
  return run(scenario, *strategy.value(), choices.livelock_points);
}

std::optional<Trial> TrialRunner::attempt(const TomlNode& document,
                                          const TrialChoices& choices) const {
  try {
    Result<Trial> trial = run(document, choices);
    if (trial.ok()) return std::move(trial).value();
  } catch (const ContractViolation& odd) {
    static_cast<void>(odd);
  }
  return std::nullopt;
}

Result<Trial> TrialRunner::run(const Scenario& scenario,
                               sim::Strategy& strategy,
                               std::uint64_t livelock_points) const {
  const auto recording = sim::make_recording(strategy);
  const auto counting = make_counting(*recording);
  RunChoices how;
  how.strategy = counting.get();
  how.livelock_points = livelock_points;
  const Result<ScenarioResult> run = warm_.lend([&](sim::Session& session) {
    how.session = &session;
    return run_scenario(scenario, how);
  });
  if (!run.ok()) return run.error();
  const Report& report = run.value().report;
  Trial trial;
  trial.failure = failure_of(report);
  if (trial.failure) trial.sentence = sentence_of(report);
  for (const LawResult& law : report.laws) {
    if (!law.findings.empty()) trial.laws.push_back(law.law);
  }
  trial.cost.ranks = scenario.n_ranks;
  trial.cost.events = report.n_events;
  trial.schedule = schedule_of(run.value(), *recording);
  trial.n_choices = run.value().session.world.n_choices;
  if (const auto* pct = dynamic_cast<const sim::PctStrategy*>(&strategy)) {
    trial.n_processes = pct->n_processes();
  }
  trial.trace_digest = report.trace_digest;
  trial.result_digest = report.result_digest;
  trial.coverage = coverage_of(scenario, run.value(), counting->counts());
  return trial;
}

}  // namespace lockstep::explore
