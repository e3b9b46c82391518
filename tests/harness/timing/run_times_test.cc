#include "lockstep/harness/timing/run_times.h"

#include <gtest/gtest.h>

#include "lockstep/formats/json_text.h"
#include "lockstep/harness/run/run_scenario.h"

#include "tests/harness/timing/made_trace.h"
#include "tests/support/scenario_files.h"

namespace lockstep {
namespace {

TEST(RunTimesTest, TheMedianOfAnEvenNumberIsTheLowerOne) {
  const DurationSpread spread = spread_of({9, 1, 4, 3});
  EXPECT_EQ(spread.least, 1);
  EXPECT_EQ(spread.median, 3);
  EXPECT_EQ(spread.most, 9);
}

TEST(RunTimesTest, DurationsHaveFourDigitsAndTheirUnit) {
  EXPECT_EQ(duration_text(0), "0 ns");
  EXPECT_EQ(duration_text(999), "999 ns");
  EXPECT_EQ(duration_text(4296), "4.296 us");
  EXPECT_EQ(duration_text(999'960), "1 ms");
  EXPECT_EQ(duration_text(1'234'567), "1.235 ms");
  EXPECT_EQ(duration_text(90'000'000'000), "90 s");
}

TEST(RunTimesTest, ATraceWithoutTimesOrStepsHasNone) {
  MadeTrace made;
  made.forward(0, 0);
  made.step(0, 0);
  EXPECT_FALSE(run_times(made.trace(), RunClock::kVirtual).has_value());
  MadeTrace other;
  other.call(0, 10, 20, made_all_reduce(0, 1));
  EXPECT_FALSE(run_times(other.trace(), RunClock::kVirtual).has_value());
}

/// Two ranks, two steps; 1,000,000 bytes in 100 us are 10 GB/s, and on two ranks as much on the bus.
MadeTrace two_steps() {
  MadeTrace made;
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    for (std::int64_t step = 0; step < 2; ++step) {
      const std::int64_t start = 1'000'000 * step;
      made.forward(rank, start);
      made.call(
          rank, start + 200'000 + 50'000 * rank, start + 350'000, made_all_reduce(step, 250'000));
      made.step(rank, start + 400'000);
    }
  }
  return made;
}

TEST(RunTimesTest, BandwidthIsBytesOverTheTimeFromTheLastArrival) {
  const MadeTrace made = two_steps();
  const auto times = run_times(made.trace(), RunClock::kVirtual);
  ASSERT_TRUE(times.has_value());
  EXPECT_EQ(times->n_steps, 4);
  EXPECT_EQ(times->step.median, 400'000);
  EXPECT_EQ(times->exposed.least, 100'000);
  EXPECT_EQ(times->exposed.most, 150'000);
  EXPECT_EQ(times->hidden, 0.0);
  ASSERT_EQ(times->calls.size(), 1U);
  EXPECT_EQ(times->calls[0].n_calls, 2);
  EXPECT_EQ(times->calls[0].took.median, 100'000);
  EXPECT_EQ(times->calls[0].waited.median, 50'000);
  EXPECT_EQ(times->calls[0].alg_gb_per_s, 10.0);
  EXPECT_EQ(times->calls[0].bus_gb_per_s, 10.0);
  ASSERT_TRUE(times->late.has_value());
  EXPECT_EQ(times->late->ranks, std::vector<std::int32_t>{1});
}

TEST(RunTimesTest, ATerminalShowsStepsCallsAndWhoIsLate) {
  const MadeTrace made = two_steps();
  EXPECT_EQ(times_text(*run_times(made.trace(), RunClock::kVirtual)),
            "Time (virtual): a step takes 400 us, median of 4 steps of ranks\n"
            "  computing 250 us (250 us to 300 us); communicating 100 us (100 us to 150 us), of "
            "which 100 us (100 us to 150 us) exposed: 0 % is hidden\n"
            "  all_reduce of 976.6 KiB (f32) on 2 ranks, 2 calls: 100 us after the last rank came; "
            "10 GB/s, bus 10 GB/s; the first rank waited 50 us\n"
            "  late: rank 1 came 50 us after the others (median) at 2 of 2 calls that ranks waited "
            "for\n");
}

TEST(RunTimesTest, ATerminalShowsFourKindsOfCallsAndCountsTheOthers) {
  MadeTrace made;
  made.forward(0, 0);
  for (std::int64_t seq = 0; seq < 6; ++seq) {
    made.call(0, 100 * seq + 1, 100 * seq + 90, made_all_reduce(seq, 1 + seq));
  }
  made.step(0, 1000);
  const std::string text = times_text(*run_times(made.trace(), RunClock::kVirtual));
  EXPECT_NE(text.find("  2 more kinds of calls took less time (file reports list them)\n"),
            std::string::npos)
      << text;
}

/// Three calls of 1 MB each, posted at once: the link is busy for 300 us. Two steps are alike, the first has one call of 600 KB.
MadeTrace queued_calls() {
  MadeTrace made;
  std::int64_t seq = 0;
  for (std::int64_t step = 0; step < 3; ++step) {
    const std::int64_t start = 1'000'000 * step;
    const std::int64_t n_calls = step == 0 ? 1 : 3;
    for (const std::int32_t rank : {0, 1}) {
      made.forward(rank, start);
      for (std::int64_t i = 0; i < n_calls; ++i) {
        const std::int64_t end = start + 100'000 + 100'000 * (i + 1);
        const std::int64_t n_elems = step == 0 ? 150'000 : 250'000;
        made.call(rank, start + 100'000, end, made_all_reduce(seq + i, n_elems));
      }
      made.step(rank, start + 500'000);
    }
    seq += n_calls;
  }
  return made;
}

TEST(RunTimesTest, CallsThatWaitForOneAnotherHaveOneTimeTogether) {
  const MadeTrace made = queued_calls();
  const auto times = run_times(made.trace(), RunClock::kShared);
  ASSERT_TRUE(times.has_value());
  ASSERT_EQ(times->step_calls.size(), 2U);
  EXPECT_EQ(times->step_calls[0].n_steps, 2) << "most steps first";
  const std::string text = times_text(*times);
  EXPECT_NE(text.find("  together, the 3 calls of a step have 2.861 MiB and keep their links busy "
                      "for 300 us: 10 GB/s\n"),
            std::string::npos)
      << text;
  JsonText out;
  write_times(out, *times);
  EXPECT_NE(
      out.str().find(R"("step_calls":[{"steps":2,"calls":3,"bytes":3000000,"busy_ns":300000},)"
                     R"({"steps":1,"calls":1,"bytes":600000,"busy_ns":100000}])"),
      std::string::npos)
      << out.str();
  EXPECT_TRUE(run_times(made.trace(), RunClock::kSeparate)->step_calls.empty());
}

TEST(RunTimesTest, AStepOfOneCallHasNoLineOfItsOwn) {
  EXPECT_EQ(times_text(*run_times(two_steps().trace(), RunClock::kShared)).find("together"),
            std::string::npos);
}

TEST(RunTimesTest, WithSeparateClocksOnlyWhatOneRankSawIsSaid) {
  const MadeTrace made = two_steps();
  const auto times = run_times(made.trace(), RunClock::kSeparate);
  ASSERT_TRUE(times.has_value());
  EXPECT_EQ(times->step.median, 400'000);
  EXPECT_TRUE(times->calls.empty());
  EXPECT_FALSE(times->late.has_value());
  EXPECT_NE(times_text(*times).find("the ranks' clocks are not synchronised"), std::string::npos);
}

TEST(RunTimesTest, LateRanksThatAreAWholeNodeAreCalledByItsName) {
  MadeTrace made;
  for (std::int32_t rank = 0; rank < 4; ++rank) {
    made.add(rank, 0, EnvironmentEvent{.node = made.names().intern(rank < 2 ? "a" : "b")});
    made.forward(rank, 0);
    for (std::int64_t seq = 0; seq < 2; ++seq) {
      made.call(rank, 100 * seq + (rank < 2 ? 1 : 31), 100 * seq + 60, made_all_reduce(seq, 1));
    }
    made.step(rank, 300);
  }
  const auto times = run_times(made.trace(), RunClock::kShared);
  ASSERT_TRUE(times.has_value());
  EXPECT_EQ(times->late_node, "b");
}

TEST(RunTimesTest, JsonHasTheSameNumbers) {
  const MadeTrace made = two_steps();
  JsonText out;
  write_times(out, *run_times(made.trace(), RunClock::kVirtual));
  EXPECT_TRUE(out.str().starts_with(
      R"({"clock":"virtual","ranks":2,"steps":4,"step":{"least_ns":400000,"median_ns":400000,"most_ns":400000},)"))
      << out.str();
  EXPECT_NE(
      out.str().find(R"("late":{"ranks":[1],"node":"","calls":2,"of_calls":2,"behind_ns":50000})"),
      std::string::npos);
}

// By hand (tests/harness/run/network_test.cc has the parts): a forward of 1536 ns, buckets that
// leave at 2560 and 3584 and take 456 and 712 ns; the step ends at 4296.
class SimulatedTimesTest : public ScenarioFiles {};

TEST_F(SimulatedTimesTest, AreThoseOfAHandComputation) {
  const auto scenario = load(
      "format = 1\nworld = { ranks = 2 }\n"
      "model = { kind = \"mlp\", widths = [8, 16, 4], bias = false, activation = \"none\" }\n"
      "data = { kind = \"synthetic\", size = 24, features = 8, outputs = 4 }\nloader = { batch = 4 "
      "}\n"
      "ddp = { first_bucket_bytes = 1, bucket_cap_mb = 0.00001 }\nloop = { steps = 3 }\n"
      "[sim]\norder = \"gloo-ring\"\nlink = { intra = { latency_ns = 100, gb_per_s = 1 } }\n"
      "compute = { gflops = 1 }\n");
  ASSERT_TRUE(scenario.ok()) << scenario.error().text();
  const auto result = run_scenario(scenario.value(), {});
  ASSERT_TRUE(result.ok()) << result.error().text();
  const auto times = run_times(*result.value().session.trace, RunClock::kVirtual);
  ASSERT_TRUE(times.has_value());
  EXPECT_EQ(times->n_steps, 6);
  EXPECT_EQ(times->step.median, 4296);
  EXPECT_EQ(times->compute.median, 3584);
  EXPECT_EQ(times->communication.median, 456 + 712);
  EXPECT_EQ(times->exposed.median, 712);
}

}  // namespace
}  // namespace lockstep
