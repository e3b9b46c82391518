// RunOptions that make no sense are bad input: std::invalid_argument with the option, its value and
// what it may be, before any rank runs.
#include <stdexcept>

#include <gtest/gtest.h>

#include "lockstep/run.h"

namespace lockstep::testing {

namespace {

struct BadOptions {
  RunOptions options;
  std::string says;
};

std::string refusal_of(const RunOptions& options) {
  try {
    run_ranks(options, [](RankContext& /*context*/) {});
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "(accepted)";
}

sim::Fault crash(std::int32_t rank) {
  sim::Fault fault;
  fault.rank = rank;
  fault.at = EventKind::kStep;
  return fault;
}

sim::Fault nowhere() {
  sim::Fault fault = crash(0);
  fault.at = std::nullopt;
  return fault;
}

sim::Fault at_no_time() {
  sim::Fault fault = crash(0);
  fault.when = CollectivePhase::kFailed;
  return fault;
}

std::vector<BadOptions> bad_options() {
  return {
      {{.ranks = 0}, "ranks is 0; a world has at least one"},
      {{.ranks = -3}, "ranks is -3; a world has at least one"},
      {{.strategy = "randon"}, "unknown strategy 'randon'; did you mean 'random'?"},
      {{.reduction_order = ReductionOrder(std::vector<std::vector<std::int32_t>>{{0, 1, 2}})},
       "the rings of reduction order 'nccl-ring:0,1,2' do not name the world's ranks 0 to 1; each "
       "ring names all of them"},
      {{.net = {.intra = {.latency_ns = -1}}}, "net.intra.latency_ns is -1; it is not negative"},
      {{.net = {.inter = {.gb_per_s = -2.5}}}, "net.inter.gb_per_s is -2.5; 0 means no limit"},
      {{.net = {.ranks_per_node = -1}}, "net.ranks_per_node is -1; it is not negative"},
      {{.net = {.places = {0}}},
       "net.places has 1 entries for 2 ranks; it has one for each, or none"},
      {{.net = {.outages = {{.ranks = {2}}}}},
       "net.outages names rank 2; the world has ranks 0 to 1"},
      {{.compute = {.mflops = -1}}, "compute.mflops is -1; it is not negative"},
      {{.compute = {.mflops = 1, .slow = {{.rank = 5}}}},
       "compute.slow names rank 5; the world has ranks 0 to 1"},
      {{.watchdog = std::chrono::nanoseconds(-1)}, "watchdog is -1; it is not negative"},
      {{.faults = {crash(2)}}, "faults names rank 2; the world has ranks 0 to 1"},
      {{.faults = {nowhere()}},
       "the fault 'sigkill' of rank 0 has no place; set one of event, file_step, time and at"},
      {{.faults = {at_no_time()}},
       "faults.when is kFailed; it is kPosted or kCompleted: as a call ends, well or not"},
      {{.faults = {crash(0)}, .record = false}, "faults strike at recorded events: set record"},
      {{.agent = sim::AgentOptions{.max_restarts = -1}},
       "agent.max_restarts is -1; it is not negative"},
      {{.agent = sim::AgentOptions{.n_ranks_later = {0}}},
       "a restarted world of 0 ranks; it has at least one"},
      {{.laws = {"replica-equal"}},
       "unknown law 'replica-equal'; did you mean 'replicas-equal'? (the laws are ..."},
      {{.allow = {"replica-equal"}},
       "unknown law 'replica-equal'; did you mean 'replicas-equal'? (the laws are ..."},
      {{.coverage = 0}, "coverage is 0; digests cover 1/coverage of a tensor, 1 is all of it"},
      {{.timeout = std::chrono::milliseconds(0)}, "timeout is 0 ms; an operation needs some time"},
  };
}

}  // namespace

TEST(RunOptionsTest, OptionsThatMakeNoSenseAreRefusedWithTheirValues) {
  for (const BadOptions& bad : bad_options()) {
    const std::string expected = bad.says;
    const std::string refusal = refusal_of(bad.options);
    // A list that grows with the laws is not repeated here.
    const bool begins = expected.ends_with("...");
    EXPECT_EQ(begins ? refusal.substr(0, expected.size() - 3) + "..." : refusal, expected);
  }
}

TEST(RunOptionsTest, OptionsThatMakeSenseAreAccepted) {
  EXPECT_EQ(refusal_of({}), "(accepted)");
  EXPECT_EQ(
      refusal_of({.ranks = 1,
                  .reduction_order = ReductionOrder(std::vector<std::vector<std::int32_t>>{{0}})}),
      "(accepted)");
  EXPECT_EQ(refusal_of({.compute = {.mflops = 1, .slow = {{.rank = 1}}}, .coverage = 3}),
            "(accepted)");
}

}  // namespace lockstep::testing
