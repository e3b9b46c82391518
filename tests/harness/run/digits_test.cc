// The main job, end to end, on its real data.
#include <gtest/gtest.h>

#include "lockstep/harness/format/load.h"
#include "lockstep/harness/run/run_scenario.h"
#include "lockstep/harness/scenario/scenario.h"

namespace lockstep {
namespace {

ScenarioResult run(const std::string& variant) {
  const Result<Scenario> scenario =
      load_scenario(LOCKSTEP_SOURCE_DIR "/scenarios/jobs/digits.toml", variant, {});
  if (!scenario.ok()) throw std::runtime_error(scenario.error().text());
  Result<ScenarioResult> result = run_scenario(scenario.value(), {});
  if (!result.ok()) throw std::runtime_error(result.error().text());
  return std::move(result).value();
}

TEST(DigitsTest, EightRanksReachTheAccuracyOfOneProcess) {
  const ScenarioResult eight = run("");
  const ScenarioResult one = run("single");

  // 1440 training rows divide by 8, so no sample is padded and both see the same global batches.
  ASSERT_EQ(eight.ranks.size(), 8U);
  ASSERT_EQ(one.ranks.size(), 1U);
  const EvalResult& reached = eight.ranks[0].evals.back();
  EXPECT_GE(reached.value, 0.95);
  EXPECT_EQ(reached.numerator, one.ranks[0].evals.back().numerator);
  EXPECT_EQ(reached.denominator, one.ranks[0].evals.back().denominator);
}

TEST(DigitsTest, EveryLawOfTheMainJobIsCheckedAndHolds) {
  const ScenarioResult result = run("");

  EXPECT_EQ(result.report.laws.size(), 22U);
  for (const LawResult& law : result.report.laws) {
    // Nothing is drawn while it trains, computed twice, clipped or averaged from time to time; the
    // model has no buffers, and nothing is saved.
    if (law.law == "rng-scopes" || law.law == "buffers-policy" || law.law == "checkpoint-whole" ||
        law.law == "redo-equal" || law.law == "norm-true" || law.law == "outer-step") {
      EXPECT_EQ(law.verdict, Verdict::kNotCheckable);
      continue;
    }
    EXPECT_EQ(law.verdict, Verdict::kHolds) << law.law << ": " << law.missing;
    EXPECT_GT(law.n_checked, 0) << law.law;
    EXPECT_TRUE(law.advice.empty()) << law.law << ": " << law.advice.front().message;
  }
}

TEST(DigitsTest, AStrayWriteIsNamedByStepTensorAndRank) {
  const ScenarioResult result = run("broken");

  ASSERT_EQ(result.report.n_findings(), 1U);
  for (const LawResult& law : result.report.laws) {
    for (const Finding& finding : law.findings) {
      EXPECT_EQ(finding.law, "replicas-equal");
      EXPECT_EQ(finding.tensor, "2.weight");
      EXPECT_EQ(finding.ranks, std::vector<Rank>{Rank{5}});
      EXPECT_EQ(finding.step, 18);
    }
  }
}

}  // namespace
}  // namespace lockstep
