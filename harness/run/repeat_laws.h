// Laws that run a scenario again: cut in two, under other schedules, at other addresses. They cost
// several runs, so they are checked where a scenario names them.
#pragma once

#include <array>

#include "lockstep/harness/run/run_scenario.h"
#include "lockstep/harness/scenario/scenario.h"
#include "lockstep/laws/law_id.h"

namespace lockstep {

inline constexpr std::array<LawId, 2> kRepeatLaws = {LawId::kResumeEqual, LawId::kDeterministic};

/// Law resume-equal: stopped after k steps, saved, loaded by new processes and run to its end, a
/// job has the state the uninterrupted run has, bit for bit, after every step behind k.
///
/// Checks each k at which the job takes a snapshot, at most eight of them; the end of the first
/// epoch, wherever snapshots fall; and a run that is stopped twice, since a resumed run's snapshots
/// need not be as good as the first one's.
///
/// Requires: `run` is a result of the scenario with its trace. `session` makes the runs.
LawResult check_resume_equal(const Scenario& scenario,
                             const ScenarioResult& run,
                             sim::Session& session);

/// Law deterministic: the same schedule at other addresses gives the same trace, three other
/// schedules give the same result.
///
/// Requires: `run` is a result of the scenario, under whatever strategy. `session` makes the runs.
LawResult check_deterministic(const Scenario& scenario,
                              const ScenarioResult& run,
                              sim::Session& session);

/// Whether the scenario's expectations name this law, so that its runs are worth their time.
bool names_law(const Scenario& scenario, LawId id);

}  // namespace lockstep
