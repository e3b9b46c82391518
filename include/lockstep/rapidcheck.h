// RapidCheck generators for properties of data-parallel training: jobs, worlds, schedules, faults.
//
// Only programs that include this header need RapidCheck:
//
//   find_package(lockstep REQUIRED)
//   find_package(rapidcheck REQUIRED)
//   target_link_libraries(my_test PRIVATE lockstep::lockstep rapidcheck)
//
// A failing property is shrunk in the words of training: fewer ranks, fewer features of the job, a
// plainer schedule. RapidCheck prints what is left, and RC_PARAMS="reproduce=..." repeats it.
//
//   rc::check([] {
//     const auto world = *lockstep::gen::world();
//     RC_ASSERT_LAWS_HOLD(lockstep::run_ranks(world, my_program));
//   });
//
// Deterministic: what is drawn is a function of RapidCheck's seed.
#pragma once

#include <cstdint>
#include <exception>
#include <iostream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <rapidcheck.h>
#include <rapidcheck/state.h>

#include "lockstep/harness/explore/jobs/random_jobs.h"
#include "lockstep/harness/explore/jobs/random_worlds.h"
#include "lockstep/sim/explore/marks.h"

namespace lockstep {

// How RapidCheck prints values: found next to their types.

inline std::ostream& operator<<(std::ostream& out, const JobSketch& job) {
  return out << "\n" << to_toml(job);
}

inline std::ostream& operator<<(std::ostream& out, const RunOptions& world) {
  return out << describe(world);
}

namespace sim {
inline std::ostream& operator<<(std::ostream& out, const Fault& fault) {
  return out << describe(fault);
}
}  // namespace sim

namespace gen {

/// Values that `draw` makes from a seed. `simpler` lists simpler values of one; following it must
/// end. For generators of one's own, too.
template <typename Draw, typename Simpler>
auto from_seed(Draw draw, Simpler simpler) {
  using Value = decltype(draw(std::uint64_t{0}));
  return rc::Gen<Value>([draw, simpler](const rc::Random& random, int /*size*/) {
    rc::Random stream = random;
    return rc::shrinkable::shrinkRecur(draw(stream.next()), [simpler](const Value& value) {
      return rc::seq::fromContainer(simpler(value));
    });
  });
}

/// A random correct training job (harness/explore/jobs/job_sketch.h). Give it to complaint_about,
/// to_toml or scenario_of. Shrinks through jobs that are correct as well.
inline rc::Gen<JobSketch> correct_job() {
  return from_seed([](std::uint64_t seed) { return draw_job(seed, 0); },
                   [](const JobSketch& job) { return simpler(job); });
}

/// Options for run_ranks: `least` to `most` ranks, a schedule, a reduction order, a fidelity.
/// Shrinks towards few ranks that run until they block.
inline rc::Gen<RunOptions> world(std::int32_t least = 1, std::int32_t most = 8) {
  const WorldScope scope = {least, most};
  return from_seed([scope](std::uint64_t seed) { return draw_world(scope, seed); },
                   [scope](const RunOptions& world) { return simpler_worlds(world, scope); });
}

/// A schedule for RunOptions::strategy or `sim.strategy`. Shrinks to "run-to-block".
inline rc::Gen<std::string> schedule() {
  return from_seed([](std::uint64_t seed) { return draw_schedule(seed); }, simpler_schedules);
}

/// Up to `scope.n_faults` faults for RunOptions::faults, drawn as sim::swarm does. Shrinks to
/// fewer.
inline rc::Gen<std::vector<sim::Fault>> faults(const sim::SwarmOptions& scope) {
  return from_seed([scope](std::uint64_t seed) { return draw_faults(scope, seed); },
                   simpler_faults);
}

}  // namespace gen

/// Something that a property does to each rank in turn with what the other commands do: a step, a
/// save, a load. RapidCheck's own class: `checkPreconditions` says when it makes sense, `apply` what
/// it does to a model that is easy to believe, `run` does it on a rank and compares with RC_ASSERT.
///
/// Requires: copyable `Model`; what ranks do in `run` depends on `Model` and rank alone, so that all
///     of them make the same collectives.
template <typename Model, typename RankState>
using Command = rc::state::Command<Model, RankState>;

/// Draws a sequence of commands and runs it on every rank of `world`, each with a state and a model of
/// its own: `make(RankContext&)` gives the state, `draw(model)` a generator of the next command, such as
/// rc::state::gen::execOneOfWithArgs<Step, Save, Load>().
///
/// A failing property is shrunk to few commands with small arguments, besides a smaller world:
///
///   RC_ASSERT_LAWS_HOLD(lockstep::run_commands(*lockstep::gen::world(), Model(), make, draw));
///
/// Returns: as run_ranks with RunOptions::rethrow off: a failed RC_ASSERT of a rank is in
///     RunResult::failure, from where RC_ASSERT_LAWS_HOLD passes it on with the report.
/// Deterministic: the commands are drawn before the ranks start, so RC_PARAMS="reproduce=..." repeats all.
template <typename Model, typename Make, typename Draw>
RunResult<void> run_commands(RunOptions world, const Model& initial, Make make, Draw draw) {
  using RankState = std::invoke_result_t<Make&, RankContext&>;
  const auto commands = *rc::state::gen::commands(initial, draw);
  using Drawn = typename std::decay_t<decltype(commands)>::value_type::element_type;
  static_assert(std::is_same_v<typename Drawn::Sut, RankState>,
                "the commands act on what make(RankContext&) returns");
  world.rethrow = false;
  return run_ranks(world, [&](RankContext& context) {
    RankState state = make(context);
    rc::state::runAll(commands, initial, state);
  });
}

/// rc::check, followed by a look at the marks: false, with a line for each mark that no case has
/// reached, if the property holds and they do not.
template <typename Testable>
bool check_and_reach(const Marks& marks, const std::string& description, Testable&& testable) {
  const bool holds = rc::check(description, std::forward<Testable>(testable));
  if (!holds || marks.unreached().empty()) return holds;
  std::cerr << "\n" << description << "\nHolds, and was not tested: " << marks.text();
  return false;
}

/// Fails the property with the report unless every checked law holds and every rank finished. An
/// exception that RunResult::failure holds is passed on to RapidCheck when it is RapidCheck's own,
/// such as a failed RC_ASSERT or RC_PRE in a rank; the report is logged with it.
inline void rc_assert_laws_hold(const Report& report, const char* file, int line) {
  if (report.ok()) return;
  throw rc::detail::CaseResult(
      rc::detail::CaseResult::Type::Failure,
      rc::detail::makeMessage(
          file, line, "RC_ASSERT_LAWS_HOLD", render_text(report, TextOptions{})));
}

template <typename R>
void rc_assert_laws_hold(const RunResult<R>& run, const char* file, int line) {
  if (run.failure) {
    try {
      std::rethrow_exception(run.failure->exception);
    } catch (const rc::detail::CaseResult&) {
      RC_LOG() << run;
      throw;
    } catch (...) {  // The report names its rank and says what it was.
      return rc_assert_laws_hold(run.report, file, line);
    }
  }
  rc_assert_laws_hold(run.report, file, line);
}

}  // namespace lockstep

/// Fails the test case of a property unless the laws hold in a RunResult or a Report; prints
/// verdict, likely causes, findings as sentences, and the value of RunOptions::replay. The argument
/// may be the call of run_ranks itself, and is evaluated once.
#define RC_ASSERT_LAWS_HOLD(...) ::lockstep::rc_assert_laws_hold((__VA_ARGS__), __FILE__, __LINE__)
