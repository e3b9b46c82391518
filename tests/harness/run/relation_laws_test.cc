// N ranks against one process: exactly in exact mode, within the derived bound elsewhere.
#include <gmock/gmock.h>

#include "lockstep/harness/run/run_scenario.h"

#include "tests/support/scenario_files.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

class SingleProcessTest : public ScenarioFiles {
 protected:
  static LawResult law_of(const std::string& text) {
    const Result<Scenario> scenario = load(text);
    EXPECT_TRUE(scenario.ok()) << (scenario.ok() ? "" : scenario.error().text());
    if (!scenario.ok()) return {};
    const Result<ScenarioResult> result = run_scenario(scenario.value(), {});
    EXPECT_TRUE(result.ok());
    if (!result.ok()) return {};
    for (const LawResult& law : result.value().report.laws) {
      if (law.law == "single-process-equal") return law;
    }
    return {};
  }
};

std::string network(int ranks, const std::string& more) {
  return "format = 1\nworld = { ranks = " + std::to_string(ranks) +
         " }\n"
         "model = { kind = \"mlp\", widths = [4, 8, 2], init = { kind = \"pytorch\", seed = 3 } }\n"
         "data = { kind = \"synthetic\", size = 48, features = 4, outputs = 2 }\n"
         "loader = { batch = 4, shuffle = true }\n"
         "loss = { kind = \"mse\" }\noptimizer = { kind = \"sgd\", lr = 0.1, momentum = 0.9 }\n"
         "loop = { epochs = 2 }\n" +
         more;
}

TEST_F(SingleProcessTest, ExactJobsAreEqualBitForBit) {
  const LawResult law = law_of(
      "format = 1\nworld = { ranks = 4 }\nexact = { grid = 6, clamp = 8.0 }\n"
      "model = { kind = \"mlp\", widths = [4, 8, 2], init = { kind = \"grid\", seed = 3 } }\n"
      "data = { kind = \"synthetic\", task = \"dyadic\", size = 64, features = 4, outputs = 2 }\n"
      "loader = { batch = 4, shuffle = true }\nloss = { kind = \"mse\" }\n"
      "optimizer = { kind = \"sgd\", lr = 0.125, momentum = 0.5 }\nloop = { steps = 20 }\n");

  EXPECT_EQ(law.verdict, Verdict::kHolds) << law.missing;
  EXPECT_EQ(law.n_checked, 20 * 8);  // Four gradients and four parameters per step.
}

TEST_F(SingleProcessTest, RoundingJobsStayWithinTheBound) {
  for (const int ranks : {2, 3, 4}) {
    const LawResult law = law_of(network(ranks, ""));
    EXPECT_EQ(law.verdict, Verdict::kHolds) << law.missing;
    EXPECT_GT(law.n_checked, 0);
  }
}

TEST_F(SingleProcessTest, AccumulationStaysWithinTheBound) {
  const LawResult law =
      law_of(replaced(network(3, ""), "epochs = 2", "epochs = 2, accumulate = 2, no_sync = true"));

  EXPECT_EQ(law.verdict, Verdict::kHolds) << law.missing;
}

TEST_F(SingleProcessTest, AGradientThatMissesOneRanksShareIsFound) {
  const LawResult law = law_of(network(3,
                                       "bug = [ { kind = \"scale-gradient\", ranks = [2], tensor = "
                                       "\"2.bias\", factor = 0.0, at = { step "
                                       "= 2, event = \"backward\", when = \"before\" } } ]\n"));

  ASSERT_EQ(law.verdict, Verdict::kBroken);
  EXPECT_EQ(law.findings[0].step, 2);
  EXPECT_EQ(law.findings[0].tensor, "2.bias");
  EXPECT_EQ(law.findings[0].ranks.size(), 3U);
}

TEST_F(SingleProcessTest, ARankWhoseOwnGradientWasWrongIsNamed) {
  const auto scaled_on = [](const std::string& ranks) {
    return law_of(network(5,
                          "bug = [ { kind = \"scale-gradient\", ranks = " + ranks +
                              ", tensor = \"0.weight\", factor = 3.0, at = { step = 1, event = "
                              "\"backward\", when = \"before\" } } ]\n"));
  };
  for (const std::string rank : {"3", "0"}) {
    const LawResult law = scaled_on("[" + rank + "]");
    ASSERT_EQ(law.findings.size(), 1U);
    EXPECT_EQ(id_of(law.findings[0].cause), "sdc-before-reduce");
    EXPECT_THAT(law.findings[0].message,
                HasSubstr("the local gradient `0.weight` of rank " + rank + " was wrong"));
  }
  // Where most ranks have other bits, the companion computes something else: no rank is blamed.
  const LawResult most = scaled_on("[0, 1, 2]");
  ASSERT_EQ(most.findings.size(), 1U);
  EXPECT_NE(id_of(most.findings[0].cause), "sdc-before-reduce");
}

TEST_F(SingleProcessTest, ASmallErrorBeyondTheBoundIsFound) {
  // One part in 65,536 of one rank's gradient: thousands of roundings.
  const LawResult law = law_of(network(2,
                                       "bug = [ { kind = \"scale-gradient\", ranks = [1], factor = "
                                       "1.0000152587890625, at = { step = 0, "
                                       "event = \"backward\", when = \"before\" } } ]\n"));

  EXPECT_EQ(law.verdict, Verdict::kBroken);
}

TEST_F(SingleProcessTest, AMeanOfUnequalBatchesIsNotTheMeanOfSamples) {
  const LawResult law =
      law_of(replaced(network(2, ""),
                      "loader = { batch = 4, shuffle = true }",
                      "loader = { sampler = \"batches_by_rank\", batches_by_rank = [[6], [2]] }"));

  EXPECT_EQ(law.verdict, Verdict::kBroken);
}

TEST_F(SingleProcessTest, TheSameMeanDeclaredAsOneOfRanksIsFine) {
  const std::string job =
      replaced(network(2, ""),
               "loader = { batch = 4, shuffle = true }",
               "loader = { sampler = \"batches_by_rank\", batches_by_rank = [[6], [2]] }");

  const LawResult law =
      law_of(replaced(job, "kind = \"mse\"", "kind = \"mse\", declared = \"rank-mean\""));

  EXPECT_EQ(law.verdict, Verdict::kHolds) << law.missing;
}

TEST_F(SingleProcessTest, ReplicasThatStartApartAreNotComparable) {
  const LawResult law =
      law_of(small_job() +
             "bug = [ { kind = \"write-tensor\", ranks = [1], tensor = \"weight\", value "
             "= 3.0, at = { event = \"wrap\", when = \"after\" } } ]\n");

  EXPECT_EQ(law.verdict, Verdict::kNotCheckable);
  EXPECT_THAT(law.missing, HasSubstr("replicas are equal as step 0 begins (rank 1 differs"));
}

TEST_F(SingleProcessTest, RowsThatRankZeroDoesNotHaveAreNotComparable) {
  const LawResult law =
      law_of(small_job() +
             "override = [ { ranks = [1], set = { \"data.rows\" = [ { x = [1], y = [0], id = 5 }, "
             "{ x = [2], y = [0], id = 6 } ] } } ]\n");

  EXPECT_EQ(law.verdict, Verdict::kNotCheckable);
  EXPECT_THAT(law.missing, HasSubstr("one training set for all ranks"));
}

TEST_F(SingleProcessTest, OtherSchedulesAreRepeatedAsTheyWere) {
  const Result<Scenario> scenario =
      load(small_job() + "expect = { quiet = [\"deterministic\"] }\n");
  ASSERT_TRUE(scenario.ok()) << scenario.error().text();
  RunChoices choices;
  choices.schedule_seed = 3;

  const Result<ScenarioResult> run = run_scenario(scenario.value(), choices);

  ASSERT_TRUE(run.ok()) << run.error().text();
  EXPECT_EQ(run.value().report.n_findings(), 0U);
}

TEST_F(SingleProcessTest, RecordedValuesMoveNoFaultAndNoEventOfARestartedJob) {
  const std::string job =
      replaced(small_job(), "ranks = 2", "ranks = 2, max_restarts = 1") +
      "fault = [ { kind = \"crash\", ranks = [1], at = { step = 0, event = \"step\" } } ]\n";
  const Result<Scenario> scenario = load(job);
  ASSERT_TRUE(scenario.ok()) << scenario.error().text();
  RunChoices with_values;
  with_values.values = true;

  const ScenarioResult plain = run_scenario(scenario.value(), {}).value();
  const ScenarioResult wordy = run_scenario(scenario.value(), with_values).value();

  EXPECT_EQ(plain.session.attempts.size(), 2U);
  EXPECT_EQ(wordy.report.trace_digest, plain.report.trace_digest);
}

/// Rank 1's gradient of every micro-step is off by a factor.
std::string off_by(const std::string& dtype, double factor, const std::string& more = "") {
  const std::string text =
      replaced(network(2, more), "\"mlp\",", "\"mlp\", dtype = \"" + dtype + "\",");
  return text +
         "bug = [ { kind = \"scale-gradient\", ranks = [1], factor = " + std::to_string(factor) +
         ", at = { event = \"backward\", when = \"before\" } } ]\n";
}

// Two ranks, one micro-step: 4 roundings, 1.6 % of the shares' sum in bf16, 0.2 % in f16. Rank 1's share
// is some part of that sum.
TEST_F(SingleProcessTest, BoundsAreThoseOfTheParametersType) {
  EXPECT_EQ(law_of(off_by("bf16", 1.01)).verdict, Verdict::kHolds);
  EXPECT_EQ(law_of(off_by("bf16", 1.1)).verdict, Verdict::kBroken);
  EXPECT_EQ(law_of(off_by("f16", 1.001)).verdict, Verdict::kHolds);
  EXPECT_EQ(law_of(off_by("f16", 1.01)).verdict, Verdict::kBroken);
  EXPECT_EQ(law_of(off_by("f32", 1.0)).verdict, Verdict::kHolds);
  EXPECT_EQ(law_of(off_by("f32", 1.001)).verdict, Verdict::kBroken);
}

TEST_F(SingleProcessTest, UnderAutocastBoundsStayThoseOfF32) {
  EXPECT_EQ(law_of(off_by("f32", 1.0, "autocast = {}\n")).verdict, Verdict::kHolds);
  EXPECT_EQ(law_of(off_by("f32", 1.001, "autocast = {}\n")).verdict, Verdict::kBroken);
}

// Unscaled, these gradients would round to multiples of 2^-24, the least number of f16.
TEST_F(SingleProcessTest, ALossScaleThatKeepsGradientsFromUnderflowIsRepeated) {
  const LawResult law = law_of(
      "format = 1\nworld = { ranks = 2 }\nmodel = { kind = \"linear\", in = 1, out = 1, bias = "
      "false, "
      "init = { kind = \"constant\", value = 0.0 } }\n"
      "data = { rows = [ { x = [1], y = [4.1e-8] }, { x = [1], y = [7.7e-8] } ] }\n"
      "autocast = { dtype = \"f16\" }\nscaler = { init = 65536 }\nloop = { steps = 1 }\n");

  EXPECT_EQ(law.verdict, Verdict::kHolds) << law.missing;
  EXPECT_EQ(law.n_checked, 1);
}

TEST_F(SingleProcessTest, MoreRoundingsThan16BitsHaveDigitsAreNotComparable) {
  std::string text = replaced(network(2, ""), "\"mlp\",", "\"mlp\", dtype = \"bf16\",");
  text = replaced(text, "batch = 4", "batch = 1");
  text = replaced(text, "size = 48", "size = 160");

  const LawResult law = law_of(replaced(text, "epochs = 2", "epochs = 1, accumulate = 64"));

  EXPECT_EQ(law.verdict, Verdict::kNotCheckable);
  EXPECT_THAT(law.missing, HasSubstr("256 roundings of bf16 have no bound"));
}

// f16 gradients of 21 times 2^-24, the least number of the type, after they were multiplied by a clipping factor.
TEST_F(SingleProcessTest, AClippingFactorRoundsOnceMoreBelowTheNormalNumbers) {
  const LawResult law = law_of(
      "format = 1\nworld = { ranks = 2 }\n"
      "model = { kind = \"bn\", widths = [3, 6, 4, 1], activation = \"relu\", dtype = \"f16\", "
      "init = { seed = 135494 } }\n"
      "data = { kind = \"synthetic\", size = 4, features = 3, outputs = 1, seed = 135494 }\n"
      "loader = { batch = 2, seed = 135494 }\nloss = { kind = \"mse\" }\n"
      "optimizer = { kind = \"sgd\", lr = 0.05 }\nclip = { norm = 0.5 }\nloop = { epochs = 1 }\n");

  EXPECT_EQ(law.verdict, Verdict::kHolds) << law.missing;
  EXPECT_GT(law.n_checked, 0);
}

// f32 gradients near 2^-140, far below the normal numbers, where each rounding is absolute.
TEST_F(SingleProcessTest, TheBoundHoldsBelowTheNormalNumbers) {
  const LawResult law = law_of(
      "format = 1\nworld = { ranks = 3 }\nmodel = { kind = \"linear\", in = 1, out = 1 }\n"
      "data = { rows = [ { x = [1e-42], y = [0.3] }, { x = [3e-42], y = [0.7] }, "
      "{ x = [7e-42], y = [0.9] } ] }\nloader = { batch = 1 }\nloop = { steps = 1 }\n");

  EXPECT_EQ(law.verdict, Verdict::kHolds) << law.missing;
}

}  // namespace
}  // namespace lockstep
