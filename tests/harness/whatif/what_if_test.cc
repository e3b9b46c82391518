#include "lockstep/harness/whatif/what_if.h"

#include <utility>

#include <gtest/gtest.h>

#include "lockstep/formats/json_text.h"
#include "lockstep/harness/run/run_scenario.h"

#include "tests/support/scenario_files.h"

namespace lockstep {
namespace {

/// tests/harness/run/network_test.cc computes it by hand: with a bucket per weight, 3584 ns of
/// computing and rings of 456 and 712 ns, of which the second is exposed.
const std::string kJob =
    "format = 1\ntitle = \"two layers\"\nworld = { ranks = 2 }\n"
    "model = { kind = \"mlp\", widths = [8, 16, 4], bias = false, activation = \"none\" }\n"
    "data = { kind = \"synthetic\", size = 40, features = 8, outputs = 4 }\n"
    "loader = { batch = 4 }\n"
    "ddp = { first_bucket_bytes = 1, bucket_cap_mb = 0.00001 }\nloop = { steps = 5 }\n";
const std::string kCosts =
    "[sim]\norder = \"gloo-ring\"\nlink = { intra = { latency_ns = 100, gb_per_s = 1 } }\n"
    "compute = { gflops = 1 }\n";

class WhatIfTest : public ScenarioFiles {
 protected:
  static Question question(const std::string& text) {
    Question asked;
    asked.file = write(text);
    return asked;
  }
};

// In one bucket all 768 bytes leave at 3584 and take 2 (100 + 768 / 2) = 968 ns. (First-bucket
// size and cap both count: one bucket needs both.)
TEST_F(WhatIfTest, BucketsThatOverlapBeatOneThatDoesNot) {
  Question asked = question(kJob + kCosts);
  asked.settings = {{"ddp.first_bucket_bytes", "1000000"}};
  asked.sweep = {{"ddp.bucket_cap_mb", {"25", "0.00001"}}};
  const auto one = what_if(asked);
  ASSERT_TRUE(one.ok()) << one.error().text();
  asked.settings.clear();
  const auto two = what_if(asked);
  ASSERT_TRUE(two.ok()) << two.error().text();
  EXPECT_EQ(one.value().setups[0].times.step.median, 3584 + 968);
  EXPECT_EQ(two.value().setups[1].times.step.median, 3584 + 712);
  EXPECT_EQ(two.value().best, 1U);
  EXPECT_EQ(two.value().title, "two layers");
}

TEST_F(WhatIfTest, TheFirstOfEquallyShortStepsIsTheBest) {
  Question asked = question(kJob + kCosts);
  asked.sweep = {{"sim.order", {"gloo-ring", "rank"}}};
  const auto answer = what_if(asked);
  ASSERT_TRUE(answer.ok()) << answer.error().text();
  EXPECT_EQ(answer.value().setups[0].times.step.median, answer.value().setups[1].times.step.median);
  EXPECT_EQ(answer.value().best, 0U);
}

TEST_F(WhatIfTest, SlowRanksSlowTheStepByTheirFactor) {
  Question asked = question(kJob + kCosts);
  asked.sweep = {{"sim.compute.slow", {"[]", "[{ ranks = [1], factor = 2.0 }]"}}};
  const auto answer = what_if(asked);
  ASSERT_TRUE(answer.ok()) << answer.error().text();
  EXPECT_EQ(answer.value().setups[1].times.step.most, 2 * 3584 + 968)
      << "the slow rank's first step, which reduces everything at once";
}

/// As `--calibrate` reads a trace.
void calibrate(Question& asked, const std::string& costly) {
  const auto scenario = load_scenario(costly, "", {});
  ASSERT_TRUE(scenario.ok()) << scenario.error().text();
  const auto result = run_scenario(scenario.value(), {});
  ASSERT_TRUE(result.ok()) << result.error().text();
  const MemoryTrace& trace = *result.value().session.trace;
  asked.steps = run_times(trace, RunClock::kVirtual);
  for (const StepCalls& step : asked.steps->step_calls) {
    asked.measured.push_back({step.calls, static_cast<double>(step.busy_ns)});
  }
}

// The simulator's own times in, its own costs out. On the slow link the second bucket waits for the first: of each
// alone, it seems to take more than twice as long as it does.
TEST_F(WhatIfTest, CostsThatWereMeasuredAreFittedAgain) {
  const std::string slow =
      "[sim]\norder = \"gloo-ring\"\nlink = { intra = { latency_ns = 100, gb_per_s = 0.1 } }\n"
      "compute = { gflops = 1 }\n";
  for (const auto& [costs, gb_per_s] : {std::pair{kCosts, 1.0}, std::pair{slow, 0.1}}) {
    Question asked;
    calibrate(asked, write(kJob + costs));
    asked.file = write(kJob + "sim = { order = \"gloo-ring\" }\n");
    asked.sweep = {{"ddp.bucket_cap_mb", {"0.00001"}}};
    const auto answer = what_if(asked);
    ASSERT_TRUE(answer.ok()) << answer.error().text();
    ASSERT_TRUE(answer.value().link && answer.value().compute);
    EXPECT_EQ(answer.value().link->latency_ns, 100);
    EXPECT_NEAR(answer.value().link->gb_per_s, gb_per_s, 1e-5);
    EXPECT_EQ(answer.value().link->n_measured, 2U) << "the first step and the others";
    EXPECT_EQ(answer.value().compute->gflops, 1.0);
    EXPECT_EQ(answer.value().compute->contention, 0.0);
    Question known = question(kJob + costs);
    known.sweep = asked.sweep;
    const auto real = what_if(known);
    ASSERT_TRUE(real.ok());
    EXPECT_EQ(answer.value().setups[0].times.step.median, real.value().setups[0].times.step.median);
  }
}

// tests/harness/run/network_test.cc computes it by hand: of the 456 ns in which a bucket is under way beside a product, half
// is lost.
TEST_F(WhatIfTest, WhatTransfersCostComputingIsFittedAgain) {
  const std::string costs =
      "[sim]\norder = \"gloo-ring\"\nlink = { intra = { latency_ns = 100, gb_per_s = 1 } }\n"
      "compute = { gflops = 1, contention = 0.5 }\n";
  Question asked;
  calibrate(asked, write(kJob + costs));
  asked.file = write(kJob + "sim = { order = \"gloo-ring\" }\n");
  asked.sweep = {{"ddp.bucket_cap_mb", {"0.00001", "25"}}};
  const auto answer = what_if(asked);
  ASSERT_TRUE(answer.ok()) << answer.error().text();
  ASSERT_TRUE(answer.value().compute);
  EXPECT_EQ(answer.value().compute->gflops, 1.0);
  EXPECT_EQ(answer.value().compute->contention, 0.5);
  EXPECT_EQ(answer.value().setups[0].times.step.median, 3584 + 228 + 712);
  EXPECT_NE(
      answer_text(answer.value()).find("it loses 50 % of its speed while messages are under way"),
      std::string::npos);
}

// Where no loss says when forwards end, the whole step gives the speed.
TEST_F(WhatIfTest, WithoutForwardsComputingIsFittedToWholeSteps) {
  Question asked = question(kJob + "sim = { order = \"gloo-ring\" }\n");
  asked.sweep = {{"ddp.bucket_cap_mb", {"25"}}};
  RunTimes measured;
  measured.compute.median = 7168;
  measured.communication.median = 1000;
  asked.steps = measured;
  const auto answer = what_if(asked);
  ASSERT_TRUE(answer.ok()) << answer.error().text();
  EXPECT_EQ(answer.value().compute->gflops, 0.5);
  EXPECT_EQ(answer.value().compute->contention, 0.0);
}

/// Of the network above: 1536 ns of forward and 2048 ns of the rest are 3584 operations.
RunTimes measured_times(std::int64_t forward, std::int64_t rest, std::int64_t hidden) {
  RunTimes times;
  times.forward.median = forward;
  times.compute.median = forward + rest;
  times.communication.median = hidden + 500;
  times.exposed.median = 500;
  return times;
}

TEST_F(WhatIfTest, WhereNothingWasHiddenWholeStepsGiveTheSpeed) {
  Question asked = question(kJob + "sim = { order = \"gloo-ring\" }\n");
  asked.sweep = {{"ddp.bucket_cap_mb", {"25"}}};
  asked.steps = measured_times(1536, 2 * 2048, 0);
  const auto answer = what_if(asked);
  ASSERT_TRUE(answer.ok()) << answer.error().text();
  EXPECT_EQ(answer.value().compute->contention, 0.0);
  EXPECT_DOUBLE_EQ(answer.value().compute->gflops, 3584.0 / (1536 + 2 * 2048));
}

TEST_F(WhatIfTest, StepsThatTookNoTimeGiveNoSpeed) {
  Question asked = question(kJob + kCosts);
  asked.sweep = {{"ddp.bucket_cap_mb", {"25"}}};
  asked.steps = RunTimes{};
  const auto answer = what_if(asked);
  ASSERT_TRUE(answer.ok()) << answer.error().text();
  EXPECT_FALSE(answer.value().compute.has_value());
}

TEST_F(WhatIfTest, TransfersNeverCostAllOfTheSpeed) {
  Question asked = question(kJob + "sim = { order = \"gloo-ring\" }\n");
  asked.sweep = {{"ddp.bucket_cap_mb", {"25"}}};
  asked.steps = measured_times(1536, 3 * 2048, 100);
  const auto answer = what_if(asked);
  ASSERT_TRUE(answer.ok()) << answer.error().text();
  EXPECT_EQ(answer.value().compute->contention, 0.9);
  EXPECT_EQ(answer.value().compute->gflops, 1.0);
}

TEST_F(WhatIfTest, WithoutCostsThereIsNothingToMeasure) {
  const auto answer = what_if(question(kJob));
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().text(),
            "job.toml: nothing takes time in it: give sim.link and sim.compute, or --calibrate "
            "MEASUREMENTS");
}

TEST_F(WhatIfTest, AKeyThatIsMisspeltIsNamed) {
  Question asked = question(kJob + kCosts);
  asked.sweep = {{"ddp.bucket_cap", {"1"}}};
  const auto answer = what_if(asked);
  ASSERT_FALSE(answer.ok());
  EXPECT_NE(answer.error().text().find("did you mean 'bucket_cap_mb'?"), std::string::npos)
      << answer.error().text();
}

TEST_F(WhatIfTest, ATableShowsEachSettingTheBestAndWhatItRestsOn) {
  Question asked = question(kJob + kCosts);
  asked.sweep = {{"ddp.bucket_cap_mb", {"0.00001"}}};
  const auto answer = what_if(asked);
  ASSERT_TRUE(answer.ok()) << answer.error().text();
  EXPECT_EQ(answer_text(answer.value()),
            "two layers\nA step under 1 settings, median of ranks and steps:\n"
            "                                   step     exposed   hidden  # computing, ~ waiting\n"
            "> ddp.bucket_cap_mb=0.00001    4.296 us      712 ns     39 %  "
            "#########################~~~~~\n"
            "Best: ddp.bucket_cap_mb=0.00001: 4.296 us per step\n"
            "Rests on:\n"
            "  links within a node: latency 100 ns, 1 GB/s\n"
            "  computing: 1 GFLOP/s per rank\n"
            "  sums in the order gloo-ring\n"
            "  matrix products and collectives take time; loading data, element-wise work, the "
            "optimizer and the host's own overhead do not\n");
  JsonText out;
  write_answer(out, answer.value());
  EXPECT_TRUE(out.str().starts_with(
      R"({"lockstep_whatif":1,"title":"two layers","setups":[{"settings":{"ddp.bucket_cap_mb":"0.00001"},"times":{)"))
      << out.str();
}

}  // namespace
}  // namespace lockstep
