// Runs a scenario: the world itself, then the companion runs of relation laws.
#include <algorithm>

#include "lockstep/scenario/bugs/bug.h"
#include "lockstep/scenario/raw_program.h"
#include "lockstep/scenario/relation_laws.h"
#include "lockstep/scenario/scenario.h"

namespace lockstep {
namespace {

sim::SessionOptions session_options(const Scenario& scenario, const RunChoices& choices) {
  sim::SessionOptions options = scenario.session;
  if (choices.schedule_seed) {
    options.strategy = "random";
    options.schedule_seed = *choices.schedule_seed;
  }
  options.schedule = choices.schedule;
  options.values = choices.values || !scenario.expect.values.empty();
  options.address_shift = choices.address_shift;
  options.policy.declared_mean.clear();  // Batch events carry the job's own declaration.
  return options;
}

/// Runs the world once. `max_steps` cuts jobs short (0 = not).
Result<sim::SessionResult> run_world(const Scenario& scenario,
                                     const sim::SessionOptions& options,
                                     std::int64_t max_steps,
                                     std::vector<RankOutcomeValues>& outcomes) {
  outcomes.assign(static_cast<std::size_t>(scenario.n_ranks), {});
  sim::Session session;
  return session.run(options, [&](RankContext& context) {
    if (!scenario.programs.empty()) {
      run_program(scenario, context);
      return;
    }
    const auto rank = static_cast<std::size_t>(context.rank());
    const auto bugs = make_bugs(scenario.bugs, context.rank());
    std::vector<LoopHook*> hooks;
    hooks.reserve(bugs.size());
    for (const auto& bug : bugs) hooks.push_back(bug.get());
    if (max_steps == 0) {
      outcomes[rank] = run_job(*scenario.jobs[rank], context, hooks);
      return;
    }
    Job job = *scenario.jobs[rank];
    job.loop.steps = max_steps;
    job.loop.eval = {};
    outcomes[rank] = run_job(job, context, hooks);
  });
}

bool allowed(const Scenario& scenario, std::string_view law) {
  const std::vector<std::string>& allow = scenario.session.policy.allow;
  return std::find(allow.begin(), allow.end(), law) != allow.end();
}

/// The law that compares with one process, on a recording with values of as many steps as fit.
LawResult relation_law(const Scenario& scenario,
                       const sim::SessionOptions& options,
                       const ScenarioResult& run) {
  LawResult result;
  result.law = "single-process-equal";
  result.verdict = Verdict::kNotCheckable;
  std::int64_t n_steps = 0;
  for (const RankOutcomeValues& rank : run.ranks) n_steps = std::max(n_steps, rank.n_steps);
  const std::int64_t fit = recordable_steps(scenario);
  if (run.report.outcome == "hang" || run.report.outcome == "error" || n_steps == 0) {
    result.missing = "a run that finishes a step on every rank";
    return result;
  }
  if (fit == 0) {
    result.missing = "a smaller model or fewer ranks: the values of one step exceed 64 MiB";
    return result;
  }
  sim::SessionOptions recording = options;
  recording.values = true;
  recording.keep_trace = true;
  recording.schedule.clear();  // A shorter run makes other choices; results do not depend on them.
  recording.laws = {"progress"};
  std::vector<RankOutcomeValues> outcomes;
  const auto again = run_world(scenario, recording, std::min(fit, n_steps), outcomes);
  if (!again.ok()) {
    result.missing = again.error().text();
    return result;
  }
  result = check_single_process_equal(scenario, *again.value().trace);
  if (fit < n_steps) {
    result.advice.push_back({"A-coverage",
                             "single-process-equal looked at the first " + std::to_string(fit) +
                                 " of " + std::to_string(n_steps) + " steps"});
  }
  return result;
}

/// Puts the result where the contract's numbers have it.
void insert_in_order(LawResult result, Report& report) {
  const auto number = [](std::string_view id) {
    for (const LawInfo& law : all_laws()) {
      if (law.id == id) return law.number;
    }
    return std::int32_t{0};
  };
  const std::int32_t own = number(result.law);
  const auto place = std::find_if(report.laws.begin(),
                                  report.laws.end(),
                                  [&](const LawResult& law) { return number(law.law) > own; });
  report.laws.insert(place, std::move(result));
}

}  // namespace

Result<ScenarioResult> run_scenario(const Scenario& scenario, const RunChoices& choices) {
  const sim::SessionOptions options = session_options(scenario, choices);
  ScenarioResult result;
  auto session = run_world(scenario, options, 0, result.ranks);
  if (!session.ok()) return session.error();
  result.session = std::move(session).value();
  result.report = result.session.report;
  result.report.title = scenario.title;
  if (!scenario.variant.empty()) result.report.title += " (variant " + scenario.variant + ")";
  if (!scenario.jobs.empty() && scenario.n_ranks > 1 &&
      !allowed(scenario, "single-process-equal")) {
    insert_in_order(relation_law(scenario, options, result), result.report);
    const bool broken = result.report.n_findings() > 0;
    if (result.report.outcome == "ok" && broken) result.report.outcome = "findings";
  }
  return result;
}

}  // namespace lockstep
