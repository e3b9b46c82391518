// Runs a scenario: the world itself, then the companion runs of relation laws.
#include "lockstep/harness/run/run_scenario.h"

#include <algorithm>

#include "lockstep/compare/bisect.h"
#include "lockstep/harness/bugs/bug.h"
#include "lockstep/harness/companion/relation_laws.h"
#include "lockstep/harness/run/place_values.h"
#include "lockstep/harness/run/raw_program.h"
#include "lockstep/harness/run/repeat_laws.h"
#include "lockstep/harness/scenario/scenario.h"
#include "lockstep/laws/finish_report.h"

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
  if (!choices.schedule.empty()) options.strategy = choices.schedule;
  if (choices.livelock_points > 0) {
    options.livelock_points = std::min(options.livelock_points, choices.livelock_points);
  }
  options.values = choices.values || !scenario.expect.values.empty();
  options.address_shift = choices.address_shift;
  options.policy.declared_mean.clear();  // Batch events carry the job's own declaration.
  return options;
}

/// Says how far the rank is that it hooks into.
class ProgressHook final : public LoopHook {
 public:
  explicit ProgressHook(std::function<void(const RunProgress&)> say) : say_(std::move(say)) {}

  void after(LoopPoint point, LoopState& state) override {
    if (point != LoopPoint::kStep) return;
    const LoopSpec& loop = state.job->loop;
    say_({state.step + 1, loop.steps, state.epoch, loop.epochs});
  }

 private:
  std::function<void(const RunProgress&)> say_;
};

/// Runs the world once.
Result<sim::SessionResult> run_world(const Scenario& scenario,
                                     const sim::SessionOptions& options,
                                     const RunChoices& choices,
                                     sim::Session& session,
                                     std::vector<RankOutcomeValues>& outcomes) {
  outcomes.assign(static_cast<std::size_t>(scenario.n_ranks), {});
  ProgressHook progress(choices.progress);
  const auto body = [&](RankContext& context) {
    LoopHook* hook = choices.progress && context.rank() == 0 ? &progress : nullptr;
    outcomes[static_cast<std::size_t>(context.rank())] = run_rank(scenario, context, hook);
  };
  return choices.strategy == nullptr ? session.run(options, body)
                                     : session.run(options, *choices.strategy, body);
}

bool compares_with_one_process(const Scenario& scenario) {
  const std::vector<std::string>& allow = scenario.session.policy.allow;
  const bool allowed = std::find(allow.begin(), allow.end(), "single-process-equal") != allow.end();
  return !scenario.jobs.empty() && scenario.n_ranks > 1 && !allowed;
}

/// The law that compares with one process, on rank 0's recorded values.
LawResult relation_law(const Scenario& scenario, const ScenarioResult& run) {
  const bool restarted = run.session.attempts.size() > 1;
  if (is_complete(run.report.outcome) && !restarted) {
    return check_single_process_equal(scenario, *run.session.trace);
  }
  LawResult result;
  result.law = "single-process-equal";
  result.verdict = Verdict::kNotCheckable;
  result.missing =
      restarted ? "a run without restarts" : "a run that finishes a step on every rank";
  return result;
}

/// What the trace itself showed of the law, beside what companion runs say.
void merge_into(LawResult& shown, LawResult result) {
  shown.n_checked += result.n_checked;
  for (Finding& finding : result.findings) shown.findings.push_back(std::move(finding));
  for (Advice& advice : result.advice) shown.advice.push_back(std::move(advice));
  if (!shown.findings.empty()) shown.verdict = Verdict::kBroken;
}

/// Puts the result where the contract's numbers have it.
void insert_in_order(LawResult result, Report& report) {
  for (LawResult& shown : report.laws) {
    if (shown.law == result.law) return merge_into(shown, std::move(result));
  }
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

/// The command that makes these choices again; empty where no option stands for them.
std::string repeat_command(const Scenario& scenario, const RunChoices& choices) {
  if (!choices.report.replay.empty()) return choices.report.replay;
  if (choices.strategy != nullptr || !choices.schedule.empty()) return {};
  if (!choices.schedule_seed) return scenario.command;
  return scenario.command + " --schedule-seed " + std::to_string(*choices.schedule_seed);
}

/// The laws that need more than the run itself, the title, the replay line, the first divergence.
void complete_report(const Scenario& scenario,
                     bool compares,
                     const ReportChoices& choices,
                     ScenarioResult& result) {
  Report& report = result.report;
  if (compares) insert_in_order(relation_law(scenario, result), report);
  const std::string variant = scenario.variant.empty() ? "" : " (variant " + scenario.variant + ")";
  ReportFinish finish{.title = scenario.title + variant, .replay = choices.replay};
  if (choices.first_divergence) {
    finish.first_divergence = first_divergence_of(result.session.trace.get());
  }
  finish_report(report, finish);
  if (!choices.replay_of_failure.empty() && !report.ok()) report.replay = choices.replay_of_failure;
}

/// The laws that run the scenario again, where it names them.
void add_repeat_laws(const Scenario& scenario, sim::Session& session, ScenarioResult& result) {
  if (names_law(scenario, LawId::kResumeEqual)) {
    insert_in_order(check_resume_equal(scenario, result, session), result.report);
  }
  if (names_law(scenario, LawId::kDeterministic)) {
    insert_in_order(check_deterministic(scenario, result, session), result.report);
  }
}

/// What the ranks evaluated, as their traces tell it.
std::vector<RankOutcomeValues> outcomes_of(const MemoryTrace& trace) {
  std::vector<RankOutcomeValues> outcomes(static_cast<std::size_t>(trace.n_ranks()));
  for (std::int32_t r = 0; r < trace.n_ranks(); ++r) {
    for (const Event& event : trace.events(Rank{r})) {
      const auto* metric = std::get_if<MetricEvent>(&event.body);
      if (metric == nullptr) continue;
      outcomes[static_cast<std::size_t>(r)].evals.push_back(
          {event.at.epoch, metric->value, metric->numerator, metric->denominator});
    }
  }
  return outcomes;
}

}  // namespace

RankOutcomeValues run_rank(const Scenario& scenario, RankContext& context, LoopHook* more) {
  if (!scenario.programs.empty()) {
    run_program(scenario, context);
    return {};
  }
  const auto bugs = make_bugs(scenario.bugs, context.rank());
  std::vector<LoopHook*> hooks;
  hooks.reserve(bugs.size() + 1);
  for (const auto& bug : bugs) hooks.push_back(bug.get());
  if (more != nullptr) hooks.push_back(more);
  return run_job(*scenario.jobs[static_cast<std::size_t>(context.rank())], context, hooks);
}

std::int64_t step_value_bytes(const Scenario& scenario) {
  return compares_with_one_process(scenario) ? kMaxValueBytes : 0;
}

Result<ScenarioResult> judge_scenario(const Scenario& scenario,
                                      const LoadedTrace& loaded,
                                      const ReportChoices& choices) {
  LawPolicy policy = scenario.session.policy;
  policy.declared_mean.clear();
  Result<Report> report = check_trace(loaded, policy, scenario.session.laws);
  if (!report.ok()) return report.error();
  ScenarioResult result;
  result.report = std::move(report).value();
  result.session.trace = loaded.trace;
  result.ranks = outcomes_of(*loaded.trace);
  complete_report(scenario, compares_with_one_process(scenario), choices, result);
  return result;
}

Result<ScenarioResult> run_scenario(const Scenario& scenario, const RunChoices& choices) {
  sim::SessionOptions options = session_options(scenario, choices);
  const bool compares = compares_with_one_process(scenario);
  if (compares) options.step_value_bytes = kMaxValueBytes;
  std::optional<sim::Session> own;
  sim::Session& session = choices.session == nullptr ? own.emplace() : *choices.session;
  ScenarioResult result;
  auto ran = run_world(scenario, options, choices, session, result.ranks);
  if (!ran.ok()) return ran.error();
  result.session = std::move(ran).value();
  result.report = result.session.report;
  add_repeat_laws(scenario, session, result);
  if (choices.explain && choices.strategy == nullptr) {
    const auto with_values = [&]() -> std::shared_ptr<const MemoryTrace> {
      sim::SessionOptions again = options;
      again.values = true;
      std::vector<RankOutcomeValues> outcomes;
      const auto run = run_world(scenario, again, choices, session, outcomes);
      return run.ok() ? run.value().trace : nullptr;
    };
    add_values(with_values, *result.session.trace, result.report);
  }
  ReportChoices report = choices.report;
  report.replay = repeat_command(scenario, choices);
  complete_report(scenario, compares, report, result);
  return result;
}

}  // namespace lockstep
