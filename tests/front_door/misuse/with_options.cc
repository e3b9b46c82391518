// Options of runs, schedules, certificates and scenarios that name nothing that exists.
#include <cstdint>
#include <iostream>
#include <limits>
#include <lockstep/certify.h>
#include <lockstep/explore.h>
#include <lockstep/scenario.h>
#include <stdexcept>
#include <vector>

#include "tests/front_door/misuse/misuse.h"

namespace lockstep::misuse {
namespace {

int runs(const RunOptions& options) {
  return tell(run_ranks(options, [](RankContext& rank) { (void)rank.world().barrier().wait(); }));
}

int runs_no_ranks() { return runs({.ranks = 0}); }

int runs_negative_ranks() { return runs({.ranks = -2}); }

int runs_more_ranks_than_fit() { return runs({.ranks = std::numeric_limits<std::int32_t>::max()}); }

int takes_an_unknown_strategy() { return runs({.strategy = "randon"}); }

int takes_rings_of_another_world() {
  const std::vector<std::vector<std::int32_t>> rings = {{0, 1, 2}};
  return runs({.reduction_order = ReductionOrder(rings)});
}

int takes_an_unknown_backend() { return runs({.backend = "glooo"}); }

int takes_an_unknown_law() { return runs({.laws = {"replica-equal"}}); }

int allows_an_unknown_law() { return runs({.allow = {"replica-equal"}}); }

int replays_nonsense() { return runs({.replay = "@0-5=nonsense"}); }

int replays_another_program() { return runs({.replay = "@90-1=1"}); }

int stacks_of_three_bytes() { return runs({.stack_bytes = 3}); }

int stacks_larger_than_the_machine() { return runs({.stack_bytes = std::size_t{1} << 60U}); }

int covers_nothing() { return runs({.coverage = 0}); }

int waits_a_negative_time() { return runs({.watchdog = std::chrono::nanoseconds(-1)}); }

int writes_a_trace_where_nothing_is() { return runs({.trace = "/proc/nowhere/trace"}); }

int writes_a_report_of_no_kind() { return runs({.report = "/tmp/report.docx"}); }

int faults_a_rank_that_is_not_there() {
  return runs({.faults = {{.kind = sim::FaultKind::kSigkill, .rank = 7, .event = 0}}});
}

int faults_without_records() {
  return runs({.faults = {{.rank = 0, .event = 0}}, .record = false});
}

int links_of_negative_latency() { return runs({.net = {.intra = {.latency_ns = -5}}}); }

int sleeps_backwards() {
  return tell(run_ranks({.ranks = 2}, [](RankContext& rank) { rank.host().sleep(Duration{-5}); }));
}

int certifies_no_ranks() {
  std::cerr << certify({.ranks = 0}, [](RankContext&, Probe&) {});
  return 0;
}

int certifies_a_loop_without_samples() {
  std::cerr << certify({.ranks = 2}, [](RankContext&, Probe&) {});
  return 0;
}

int loads_a_scenario_that_is_not_there() {
  const auto scenario = load_scenario("/nowhere/job.toml", "", {});
  (void)scenario.value();
  return 0;
}

int writes_a_file_into_no_folder() {
  return tell(run_ranks({.ranks = 1}, [](RankContext& rank) {
    const Outcome done = rank.host().files().write("no/such/folder/file", "bytes");
    if (!done.ok()) throw std::runtime_error(done.error().text());
  }));
}

constexpr Misuse kOptionMisuses[] = {
    {"RunsNoRanks", "ranks is 0; a world has at least one", runs_no_ranks},
    {"RunsNegativeRanks", "ranks is -2; a world has at least one", runs_negative_ranks},
    {"RunsMoreRanksThanFit",
     "ranks is 2147483647; a world has at most 1000000",
     runs_more_ranks_than_fit},
    {"TakesAnUnknownStrategy",
     "unknown strategy 'randon'; did you mean 'random'",
     takes_an_unknown_strategy},
    {"TakesRingsOfAnotherWorld",
     "the rings of reduction order .nccl-ring:0,1,2. do not name the world.s ranks 0 to 1",
     takes_rings_of_another_world},
    {"TakesAnUnknownBackend",
     "unknown backend 'glooo'; did you mean 'gloo'",
     takes_an_unknown_backend},
    {"TakesAnUnknownLaw",
     "unknown law 'replica-equal'; did you mean 'replicas-equal'",
     takes_an_unknown_law},
    {"AllowsAnUnknownLaw",
     "unknown law 'replica-equal'; did you mean 'replicas-equal'",
     allows_an_unknown_law},
    {"ReplaysNonsense", "schedule, column 2: '0-5=nonsense' is not a deviation", replays_nonsense},
    {"ReplaysAnotherProgram", "cannot do", replays_another_program},
    {"TakesStacksOfThreeBytes",
     "stack_bytes is 3; it is 16384 to 4294967296",
     stacks_of_three_bytes},
    {"TakesStacksLargerThanTheMachine",
     "stack_bytes is 1152921504606846976; it is 16384 to 4294967296",
     stacks_larger_than_the_machine},
    {"CoversNothing", "coverage is 0", covers_nothing},
    {"WaitsANegativeTime", "watchdog is -1", waits_a_negative_time},
    {"WritesATraceWhereNothingIs",
     "/proc/nowhere/trace: cannot make the folder: No such file",
     writes_a_trace_where_nothing_is},
    {"WritesAReportOfNoKind",
     "RunOptions::report writes .* not '/tmp/report.docx'",
     writes_a_report_of_no_kind},
    {"FaultsARankThatIsNotThere",
     "faults names rank 7; the world has ranks 0 to 1",
     faults_a_rank_that_is_not_there},
    {"FaultsWithoutRecords", "faults strike at recorded events", faults_without_records},
    {"LinksOfNegativeLatency", "net.intra.latency_ns is -5", links_of_negative_latency},
    {"SleepsBackwards", "cannot sleep -5 ns", sleeps_backwards},
    {"CertifiesNoRanks", "certify: there must be at least one rank", certifies_no_ranks},
    {"CertifiesALoopWithoutSamples",
     "certify: the loop takes no samples",
     certifies_a_loop_without_samples},
    {"LoadsAScenarioThatIsNotThere", "/nowhere/job.toml", loads_a_scenario_that_is_not_there},
    {"WritesAFileIntoNoFolder",
     "no/such/folder/file: no such folder 'no/such/folder'",
     writes_a_file_into_no_folder},
};

}  // namespace

std::span<const Misuse> with_options() { return kOptionMisuses; }

}  // namespace lockstep::misuse
