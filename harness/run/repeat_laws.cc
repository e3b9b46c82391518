#include "lockstep/harness/run/repeat_laws.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>

#include "lockstep/harness/bugs/bug.h"
#include "lockstep/harness/run/run_scenario.h"

namespace lockstep {
namespace {

constexpr std::string_view kResumeEqual = "resume-equal";
constexpr std::string_view kDeterministic = "deterministic";

LawResult not_checkable(std::string_view law, std::string missing) {
  LawResult result;
  result.law = law;
  result.verdict = Verdict::kNotCheckable;
  result.missing = std::move(missing);
  return result;
}

/// State after a step: (step, kind, tensor) -> digest, of one rank.
using StepStates = std::map<std::tuple<std::int32_t, StateKind, std::string>, std::uint64_t>;

StepStates states_after_steps(const MemoryTrace& trace, Rank rank) {
  StepStates states;
  for (const Event& event : trace.events(rank)) {
    const auto* state = std::get_if<StateEvent>(&event.body);
    if (state == nullptr || state->point != StatePoint::kStep) continue;
    const std::span<const NameId> layout = trace.names().layout(state->layout);
    for (std::size_t i = 0; i < layout.size() && i < state->digests.size(); ++i) {
      states[{event.at.opt, state->kind, std::string(trace.names().text(layout[i]))}] =
          state->digests[i];
    }
  }
  return states;
}

using Jobs = std::vector<std::shared_ptr<const Job>>;

/// Where a run is stopped, once or more, before it is resumed for the last time.
struct Stops {
  std::vector<std::int64_t> steps;  ///< Finished at each stop, ascending.
  /// Take a snapshot at the stop, which is none of the job's own. Requires: one stop.
  bool snaps = false;
};

/// Each rank's job, ended after `n_steps`.
Jobs cut_after(const Jobs& jobs, std::int64_t n_steps, bool snaps) {
  Jobs cut;
  cut.reserve(jobs.size());
  for (const std::shared_ptr<const Job>& job : jobs) {
    Job shorter = *job;
    shorter.loop.steps = n_steps;
    if (snaps) shorter.loop.snapshot.every_steps = n_steps;
    cut.push_back(std::make_shared<const Job>(std::move(shorter)));
  }
  return cut;
}

/// The scenario's bugs in these jobs, on these disks.
Result<sim::SessionResult> run_on(const Scenario& scenario,
                                  const Jobs& jobs,
                                  sim::Disks* disks,
                                  sim::Session& session) {
  sim::SessionOptions options = scenario.session;
  options.laws = {"progress"};
  options.disks = disks;
  return session.run(options, [&](RankContext& context) {
    const auto bugs = make_bugs(scenario.bugs, context.rank());
    std::vector<LoopHook*> hooks;
    hooks.reserve(bugs.size());
    for (const auto& bug : bugs) hooks.push_back(bug.get());
    run_job(*jobs[static_cast<std::size_t>(context.rank())], context, hooks);
  });
}

/// Rows that a rank trains on from step `cut` on, in order.
std::vector<std::int64_t> rows_from(const MemoryTrace& trace, Rank rank, std::int64_t cut) {
  std::vector<std::int64_t> rows;
  for (const Event& event : trace.events(rank)) {
    const auto* sample = std::get_if<SampleEvent>(&event.body);
    if (sample == nullptr || event.at.opt < cut) continue;
    if (!is_train_split(trace.names().text(sample->split))) continue;
    rows.insert(rows.end(), sample->ids.begin(), sample->ids.end());
  }
  return rows;
}

/// What the job has and its snapshots leave out. `reads_other_rows`: the
/// resumed run does.
Cause missing_part(const Job& job, bool reads_other_rows) {
  struct Omission {
    SnapshotPart part;
    bool is_used;
    Cause cause;
  };

  const bool draws = job.model.kind == ModelKind::kGpt && job.model.gpt.dropout > 0.0;
  const bool schedules = !job.scheduler.rules.empty() || job.scheduler.plateau;
  const HookKind hook = job.ddp.hook.kind;
  const bool remembers = hook == HookKind::kPowerSgd || hook == HookKind::kPostLocalSgd;
  const SnapshotSpec& snapshot = job.loop.snapshot;
  if (snapshot.epoch == SnapshotEpoch::kFirst || snapshot.batches == BatchCount::kSinceResume) {
    return Cause::kResumeReplays;
  }
  const std::array<Omission, 6> omissions = {
      {{SnapshotPart::kSampler, reads_other_rows, Cause::kResumeReshuffle},
       {SnapshotPart::kHook, remembers, Cause::kHookStateMissing},
       {SnapshotPart::kRng, draws, Cause::kRngNotRestored},
       {SnapshotPart::kOptimizer, true, Cause::kScalerSchedMissing},
       {SnapshotPart::kScheduler, schedules, Cause::kScalerSchedMissing},
       {SnapshotPart::kScaler, job.scaler.has_value(), Cause::kScalerSchedMissing}}};
  const std::vector<SnapshotPart>& include = snapshot.include;
  for (const Omission& omission : omissions) {
    const bool there = std::find(include.begin(), include.end(), omission.part) != include.end();
    if (omission.is_used && !there) return omission.cause;
  }
  return Cause::kNone;
}

/// A tensor after a step.
struct StatePlace {
  std::int32_t step = 0;
  std::string tensor;
};

/// The first state after step `cut` that differs on one rank of the resumed run.
std::optional<StatePlace> difference_on(const StepStates& wanted,
                                        const StepStates& got,
                                        std::int64_t cut,
                                        std::int64_t& n_checked) {
  for (const auto& [place, digest] : wanted) {
    if (std::get<0>(place) < cut) continue;
    ++n_checked;
    const auto same = got.find(place);
    if (same != got.end() && same->second == digest) continue;
    return StatePlace{std::get<0>(place), std::get<2>(place)};
  }
  return std::nullopt;
}

/// The earliest of all ranks' differences, and the ranks that share it.
std::optional<Finding> first_state_difference(const MemoryTrace& whole,
                                              const MemoryTrace& resumed,
                                              std::int64_t cut,
                                              std::int64_t& n_checked) {
  std::optional<Finding> first;
  for (std::int32_t r = 0; r < whole.n_ranks(); ++r) {
    const auto place = difference_on(
        states_after_steps(whole, Rank{r}), states_after_steps(resumed, Rank{r}), cut, n_checked);
    if (!place) continue;
    if (!first || place->step < *first->step) {
      first.emplace();
      first->event = "step";
      first->step = place->step;
      first->tensor = place->tensor;
    }
    if (place->step == *first->step && place->tensor == first->tensor) {
      first->ranks.push_back(Rank{r});
    }
  }
  return first;
}

/// Steps after which the job takes snapshots, evenly thinned out.
std::vector<std::int64_t> cuts_of(const Job& job, std::int64_t n_steps) {
  constexpr std::int64_t kMostCuts = 8;
  const std::int64_t every = job.loop.snapshot.every_steps;
  const std::int64_t n_snapshots = every > 0 ? (n_steps - 1) / every : 0;
  const std::int64_t n_cuts = std::min(n_snapshots, kMostCuts);
  std::vector<std::int64_t> cuts;
  cuts.reserve(static_cast<std::size_t>(std::max<std::int64_t>(n_cuts, 0)));
  for (std::int64_t i = 1; i <= n_cuts; ++i) cuts.push_back(i * n_snapshots / n_cuts * every);
  return cuts;
}

/// Steps of the first epoch, if another one follows.
std::optional<std::int64_t> end_of_first_epoch(const MemoryTrace& trace) {
  std::int64_t n_steps = 0;
  for (const Event& event : trace.events(Rank{0})) {
    if (!std::holds_alternative<StepEvent>(event.body)) continue;
    if (event.at.epoch > 0) return n_steps;
    n_steps = event.at.opt + 1;
  }
  return std::nullopt;
}

/// Once at each snapshot and at the end of the first epoch, where loaders and schedulers turn over;
/// and one run that is stopped twice: what it saves the second time it has loaded itself.
std::vector<Stops> stops_of(const Job& job, std::int64_t n_steps, const MemoryTrace& whole) {
  const std::vector<std::int64_t> cuts = cuts_of(job, n_steps);
  std::vector<Stops> all;
  for (const std::int64_t cut : cuts) all.push_back({{cut}});
  const std::optional<std::int64_t> end = end_of_first_epoch(whole);
  const bool is_new = end && std::find(cuts.begin(), cuts.end(), *end) == cuts.end();
  if (is_new && *end < n_steps && !cuts.empty()) all.push_back({{*end}, true});
  if (cuts.size() > 1) all.push_back({{cuts[0], cuts[1]}});
  return all;
}

/// "2 steps", "2 and again after 4 steps".
std::string text_of(const Stops& stops) {
  std::string text;
  for (const std::int64_t step : stops.steps) {
    text += (text.empty() ? "" : " and again after ") + std::to_string(step);
  }
  return text + " steps";
}

/// Compares the run that is stopped and resumed. False: it could not be made.
bool compare_resumed(const Scenario& scenario,
                     const MemoryTrace& whole,
                     const Stops& stops,
                     sim::Session& session,
                     LawResult& result) {
  const std::int64_t cut = stops.steps.back();
  sim::Disks disks;
  for (const std::int64_t step : stops.steps) {
    const auto stopped =
        run_on(scenario, cut_after(scenario.jobs, step, stops.snaps), &disks, session);
    if (!stopped.ok() || !is_complete(stopped.value().report.outcome)) return false;
  }
  const auto resumed = run_on(scenario, scenario.jobs, &disks, session);
  if (!resumed.ok() || !is_complete(resumed.value().report.outcome)) return false;
  std::optional<Finding> finding =
      first_state_difference(whole, *resumed.value().trace, cut, result.n_checked);
  if (!finding) return true;
  finding->law = kResumeEqual;
  finding->message = "differs from the uninterrupted run when training is stopped after " +
                     text_of(stops) + " and resumed";
  const bool other_rows =
      rows_from(whole, Rank{0}, cut) != rows_from(*resumed.value().trace, Rank{0}, cut);
  finding->cause = missing_part(*scenario.jobs.front(), other_rows);
  result.findings.push_back(std::move(*finding));
  return true;
}

/// What is different in a run that is made once more.
struct Variant {
  std::string strategy;
  std::uint64_t seed = 0;
  std::size_t address_shift = 0;
};

Result<sim::SessionResult> repeat(const Scenario& scenario,
                                  const Variant& variant,
                                  sim::Session& session) {
  sim::SessionOptions options = scenario.session;
  options.strategy = variant.strategy;
  options.schedule_seed = variant.seed;
  options.address_shift = variant.address_shift;
  options.keep_trace = false;
  return session.run(options, [&](RankContext& context) { run_rank(scenario, context); });
}

void report_difference(LawResult& result, std::string field, std::string message) {
  Finding finding;
  finding.law = kDeterministic;
  finding.event = "end";
  finding.field = std::move(field);
  finding.message = std::move(message);
  result.findings.push_back(std::move(finding));
}

/// False: a different schedule has a different result.
bool same_result(const Scenario& scenario,
                 const Variant& variant,
                 const Report& report,
                 sim::Session& session,
                 LawResult& result) {
  const auto other = repeat(scenario, variant, session);
  if (!other.ok()) return true;
  ++result.n_checked;
  return other.value().report.result_digest == report.result_digest;
}

void compare_schedules(const Scenario& scenario,
                       const Report& report,
                       sim::Session& session,
                       LawResult& result) {
  constexpr const char* kDifferentResult =
      " has a different result: it depends on which rank came first";
  for (const std::string& other : scenario.also) {
    if (same_result(scenario, {.strategy = other}, report, session, result)) continue;
    return report_difference(result, "result", "the schedule " + other + kDifferentResult);
  }
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    if (same_result(scenario, {.strategy = "random", .seed = seed}, report, session, result))
      continue;
    return report_difference(
        result, "result", "the random schedule of seed " + std::to_string(seed) + kDifferentResult);
  }
}

}  // namespace

LawResult check_resume_equal(const Scenario& scenario,
                             const ScenarioResult& run,
                             sim::Session& session) {
  if (scenario.jobs.empty() || scenario.jobs.front()->loop.snapshot.every_steps <= 0) {
    return not_checkable(kResumeEqual, "a job with loop.snapshot");
  }
  if (!is_complete(run.report.outcome) || run.session.attempts.size() > 1 ||
      run.session.trace == nullptr) {
    return not_checkable(kResumeEqual, "a run that ends without a restart");
  }
  if (scenario.session.policy.coverage > 1) {
    return not_checkable(kResumeEqual, "policy.coverage = 1: parts take turns from the start");
  }
  LawResult result;
  result.law = kResumeEqual;
  const MemoryTrace& whole = *run.session.trace;
  for (const Stops& stops : stops_of(*scenario.jobs.front(), run.ranks.front().n_steps, whole)) {
    if (!compare_resumed(scenario, whole, stops, session, result)) {
      return not_checkable(kResumeEqual, "runs that finish when stopped after " + text_of(stops));
    }
    if (!result.findings.empty()) break;  // Later cuts differ by the same omission.
  }
  if (result.n_checked == 0) return not_checkable(kResumeEqual, "a snapshot before the last step");
  if (!result.findings.empty()) result.verdict = Verdict::kBroken;
  return result;
}

LawResult check_deterministic(const Scenario& scenario,
                              const ScenarioResult& run,
                              sim::Session& session) {
  LawResult result;
  result.law = kDeterministic;
  const sim::SessionOptions& options = scenario.session;
  constexpr std::size_t kElsewhere = 4096;
  const auto again = repeat(scenario,
                            {.strategy = run.session.schedule,
                             .seed = options.schedule_seed,
                             .address_shift = options.address_shift + kElsewhere},
                            session);
  if (!again.ok()) return not_checkable(kDeterministic, again.error().text());
  ++result.n_checked;
  if (again.value().report.trace_digest != run.report.trace_digest) {
    report_difference(
        result, "trace", "the same schedule at other addresses has a different trace");
  }
  if (is_complete(run.report.outcome)) compare_schedules(scenario, run.report, session, result);
  if (!result.findings.empty()) result.verdict = Verdict::kBroken;
  return result;
}

bool names_law(const Scenario& scenario, LawId id) {
  const std::string_view law = name_of(id);
  const std::vector<std::string>& quiet = scenario.expect.quiet;
  return std::find(quiet.begin(), quiet.end(), law) != quiet.end() ||
         std::any_of(scenario.expect.fires.begin(),
                     scenario.expect.fires.end(),
                     [&](const ExpectedFinding& wanted) { return wanted.law == law; });
}

}  // namespace lockstep
