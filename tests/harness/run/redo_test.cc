// Micro-steps that are computed twice: any wrong bit of any contribution is found, where it is.
#include "lockstep/harness/run/run_scenario.h"

#include "tests/support/scenario_files.h"

namespace lockstep {
namespace {

class RedoTest : public ScenarioFiles {
 protected:
  static Result<ScenarioResult> run(const std::string& more) {
    const Result<Scenario> scenario = load(
        "format = 1\nworld = { ranks = 3 }\n"
        "model = { kind = \"mlp\", widths = [3, 4, 2], init = { kind = \"pytorch\", seed = 1 } }\n"
        "data = { kind = \"synthetic\", size = 36, features = 3, outputs = 2 }\n"
        "loader = { batch = 2, shuffle = true }\nloss = { kind = \"mse\" }\n"
        "optimizer = { kind = \"sgd\", lr = 0.1 }\n" +
        more);
    EXPECT_TRUE(scenario.ok()) << (scenario.ok() ? "" : scenario.error().text());
    return run_scenario(scenario.value(), {});
  }

  static LawResult law_of(const ScenarioResult& result) {
    for (const LawResult& law : result.report.laws) {
      if (law.law == "redo-equal") return law;
    }
    return {};
  }
};

constexpr const char* kLoop = "loop = { steps = 3, accumulate = 2, redo = true }\n";

TEST_F(RedoTest, AHealthyJobComputesTheSameTwice) {
  const Result<ScenarioResult> result = run(kLoop);
  ASSERT_TRUE(result.ok());
  const LawResult law = law_of(result.value());
  EXPECT_EQ(law.verdict, Verdict::kHolds);
  EXPECT_EQ(law.n_checked, 3 * 3 * 2 * 4);  // Ranks, steps, micro-steps, tensors.
}

TEST_F(RedoTest, TrainingIsTheSameWithAndWithoutIt) {
  const Result<ScenarioResult> with = run(kLoop);
  const Result<ScenarioResult> without = run("loop = { steps = 3, accumulate = 2 }\n");
  ASSERT_TRUE(with.ok() && without.ok());
  for (std::size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(with.value().ranks[rank].losses, without.value().ranks[rank].losses);
  }
  EXPECT_EQ(law_of(without.value()).verdict, Verdict::kNotCheckable);
}

// Each bit of a contribution is as good as any other; a multiplicative walk visits some of them.
TEST_F(RedoTest, AnyWrongBitIsFoundWhereItIs) {
  const std::pair<const char*, int> tensors[] = {
      {"0.weight", 12}, {"0.bias", 4}, {"2.weight", 8}, {"2.bias", 2}};
  for (int i = 0; i < 24; ++i) {
    const int draw = (i + 1) * 7919;
    const auto& [tensor, n_elems] = tensors[draw % 4];
    const int rank = draw / 4 % 3;
    const int step = draw / 12 % 3;
    const int micro = draw / 36 % 2;
    const std::string bug =
        "bug = [ { kind = \"flip-bit\", ranks = [" + std::to_string(rank) + "], tensor = \"" +
        tensor + "\", element = " + std::to_string(draw / 72 % n_elems) +
        ", bit = " + std::to_string(draw % 32) + ", at = { step = " + std::to_string(step) +
        ", micro = " + std::to_string(micro) + " } } ]\n";
    const Result<ScenarioResult> result = run(kLoop + bug);
    ASSERT_TRUE(result.ok());
    const LawResult law = law_of(result.value());
    ASSERT_EQ(law.findings.size(), 1U) << bug;
    EXPECT_EQ(law.findings[0].ranks, std::vector<Rank>{Rank{rank}}) << bug;
    EXPECT_EQ(law.findings[0].step, step) << bug;
    EXPECT_EQ(law.findings[0].tensor, tensor) << bug;
    EXPECT_EQ(law.findings[0].message.find("micro-step " + std::to_string(micro)),
              std::string("recomputing ").size());
  }
}

}  // namespace
}  // namespace lockstep
