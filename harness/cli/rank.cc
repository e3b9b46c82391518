// `lockstep rank`: one rank of a scenario, in a process that a launcher started.
#include "lockstep/formats/jsonl.h"
#include "lockstep/harness/backends/backends.h"
#include "lockstep/harness/cli/commands.h"
#include "lockstep/harness/cli/real_ranks.h"
#include "lockstep/harness/crosscheck/bit_flip.h"
#include "lockstep/harness/run/run_scenario.h"
#include "lockstep/real/group/meeting_place.h"
#include "lockstep/real/session/rank_session.h"

namespace lockstep::cli {
namespace {

ExitCode refuse(Terminal& terminal, const Error& error, ExitCode code) {
  terminal.err << "lockstep rank: " << error.text() << "\n";
  return code;
}

Result<LaunchEnvironment> own_place(const Scenario& scenario) {
  const auto read = read_launch_environment(process_environment());
  if (!read.ok()) return read.error();
  if (!read.value()) {
    return Error{"no launcher started this process; use `lockstep launch` or torchrun", {}};
  }
  const LaunchEnvironment& place = *read.value();
  if (place.world_size == scenario.n_ranks) return place;
  return Error{"the scenario has " + std::to_string(scenario.n_ranks) +
                   " ranks, but the launcher started " + std::to_string(place.world_size),
               "WORLD_SIZE"};
}

RankSessionOptions session_options(const RankArguments& arguments,
                                   const Scenario& scenario,
                                   const LaunchEnvironment& place,
                                   const std::string& rendezvous) {
  RankSessionOptions session;
  session.backend = {.place = place,
                     .rendezvous = rendezvous,
                     .timeout = std::chrono::seconds(arguments.timeout_s),
                     .check_arrivals = place.check_arrivals};
  session.exact = scenario.session.exact;
  if (!arguments.digests_only) {
    session.values = arguments.values || !scenario.expect.values.empty();
    session.step_value_bytes = step_value_bytes(scenario);
  }
  session.judge = false;
  session.trace = place.trace;
  session.header.scenario = scenario.path;
  session.header.scenario_digest = scenario.digest;
  session.header.library = "lockstep " LOCKSTEP_VERSION;
  session.laws = scenario.session.laws;
  session.policy = scenario.session.policy;
  return session;
}

Result<std::unique_ptr<LoopHook>> flip_of(const RankArguments& arguments, std::int32_t rank) {
  if (arguments.flip_bit.empty()) return std::unique_ptr<LoopHook>();
  const Result<BitFlip> flip = parse_bit_flip(arguments.flip_bit);
  if (!flip.ok()) return flip.error();
  if (flip.value().rank != rank) return std::unique_ptr<LoopHook>();
  return make_bit_flip(flip.value());
}

/// Says so on every rank. mpirun and srun end the others when one ends with an error.
ExitCode refuse_run(const LaunchEnvironment& place, const Error& error, Terminal& terminal) {
  terminal.err << "lockstep run: rank " << place.rank << ": " << error.text() << "\n";
  return ExitCode::kRunFailed;
}

}  // namespace

Result<std::optional<LaunchEnvironment>> place_among_ranks() {
  auto read = read_launch_environment(process_environment());
  if (!read.ok()) return read;
  // One rank alone is what an interactive shell of srun has.
  if (read.value() && read.value()->world_size == 1) return std::optional<LaunchEnvironment>();
  return read;
}

ExitCode run_as_rank(const RealRequest& request,
                     const Scenario& scenario,
                     const LaunchEnvironment& place,
                     const std::function<ExitCode(const LoadedTrace&)>& judge,
                     Terminal& terminal) {
  RankArguments arguments;
  arguments.timeout_s = request.timeout_s;
  arguments.values = request.values;
  const std::chrono::seconds timeout(request.timeout_s);
  // No rank writes before all have met, which needs rank 0.
  const bool clears = place.rank == 0 && !request.trace.empty();
  const Outcome removed = clears ? remove_trace(request.trace) : success();
  if (!removed.ok()) return refuse_run(place, removed.error(), terminal);
  const auto meeting = peers::MeetingPlace::join(
      rendezvous_folder(place, process_environment()), place.rank, place.world_size, timeout);
  if (!meeting.ok()) return refuse_run(place, meeting.error(), terminal);
  RankSessionOptions session =
      session_options(arguments, scenario, place, meeting.value()->folder());
  session.trace = request.trace;
  session.backend.check_arrivals = session.backend.check_arrivals || request.check_arrivals;
  const auto run =
      run_this_rank(find_backend(request.backend).value(), session, [&](RankContext& context) {
        meeting.value()->close_doors();
        run_rank(scenario, context, nullptr);
      });
  if (!run.ok()) return refuse_run(place, run.error(), terminal);
  if (place.rank != 0) return ExitCode::kOk;
  const Result<LoadedTrace> loaded = read_jsonl(run.value().trace);
  if (!loaded.ok()) return refuse_run(place, loaded.error(), terminal);
  return judge(loaded.value());
}

ExitCode rank(const RankArguments& arguments, Terminal& terminal) {
  RealRequest request;
  request.file = arguments.file;
  request.variant = arguments.variant;
  request.settings = arguments.settings;
  const Result<Scenario> scenario = load_request(request, 0);
  if (!scenario.ok()) return refuse(terminal, scenario.error(), ExitCode::kBadInput);
  const Result<LaunchEnvironment> place = own_place(scenario.value());
  if (!place.ok()) return refuse(terminal, place.error(), ExitCode::kBadInput);
  const std::string name = place.value().backend.empty() ? "gloo" : place.value().backend;
  const Result<Backend> backend = find_backend(name);
  if (!backend.ok()) return refuse(terminal, backend.error(), ExitCode::kBadInput);
  const auto flip = flip_of(arguments, place.value().rank);
  if (!flip.ok()) return refuse(terminal, flip.error(), ExitCode::kBadInput);

  const auto run = run_this_rank(
      backend.value(),
      session_options(arguments,
                      scenario.value(),
                      place.value(),
                      rendezvous_folder(place.value(), process_environment())),
      [&](RankContext& context) { run_rank(scenario.value(), context, flip.value().get()); });
  // What happened to the program is in its trace; that is for the laws.
  if (!run.ok()) return refuse(terminal, run.error(), ExitCode::kRunFailed);
  return ExitCode::kOk;
}

}  // namespace lockstep::cli
