// Runs a scenario: the world itself, then the companion runs of relation laws.
#include <algorithm>

#include "lockstep/scenario/bugs/bug.h"
#include "lockstep/scenario/raw_program.h"
#include "lockstep/scenario/relation_laws.h"
#include "lockstep/scenario/scenario.h"

namespace lockstep {
namespace {

/// Rank 0's parameters and used gradients of as many steps as fit.
constexpr std::int64_t kMaxValueBytes = std::int64_t{64} << 20U;

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

/// Runs the world once.
Result<sim::SessionResult> run_world(const Scenario& scenario,
                                     const sim::SessionOptions& options,
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
    outcomes[rank] = run_job(*scenario.jobs[rank], context, hooks);
  });
}

bool compares_with_one_process(const Scenario& scenario) {
  const std::vector<std::string>& allow = scenario.session.policy.allow;
  const bool allowed = std::find(allow.begin(), allow.end(), "single-process-equal") != allow.end();
  return !scenario.jobs.empty() && scenario.n_ranks > 1 && !allowed;
}

/// The law that compares with one process, on rank 0's recorded values.
LawResult relation_law(const Scenario& scenario, const ScenarioResult& run) {
  const std::string& outcome = run.report.outcome;
  if (outcome != "hang" && outcome != "error") {
    return check_single_process_equal(scenario, *run.session.trace);
  }
  LawResult result;
  result.law = "single-process-equal";
  result.verdict = Verdict::kNotCheckable;
  result.missing = "a run that finishes a step on every rank";
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
  sim::SessionOptions options = session_options(scenario, choices);
  const bool compares = compares_with_one_process(scenario);
  if (compares) options.step_value_bytes = kMaxValueBytes;
  ScenarioResult result;
  auto session = run_world(scenario, options, result.ranks);
  if (!session.ok()) return session.error();
  result.session = std::move(session).value();
  result.report = result.session.report;
  result.report.title = scenario.title;
  if (!scenario.variant.empty()) result.report.title += " (variant " + scenario.variant + ")";
  if (compares) {
    insert_in_order(relation_law(scenario, result), result.report);
    const bool broken = result.report.n_findings() > 0;
    if (result.report.outcome == "ok" && broken) result.report.outcome = "findings";
  }
  return result;
}

}  // namespace lockstep
