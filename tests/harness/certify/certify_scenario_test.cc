#include "lockstep/harness/certify/certify_scenario.h"

#include <cstdint>
#include <gmock/gmock.h>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/harness/format/load.h"

namespace lockstep {

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Scenario load(const std::string& file,
              const std::string& variant = "",
              const std::vector<Setting>& settings = {}) {
  const Result<Scenario> scenario =
      load_scenario(LOCKSTEP_SOURCE_DIR "/scenarios/" + file, variant, settings);
  EXPECT_TRUE(scenario.ok()) << (scenario.ok() ? "" : scenario.error().text());
  return scenario.value();
}

Certificate certificate_of(const Scenario& scenario, const std::string& objective = "") {
  std::optional<Objective> chosen;
  if (!objective.empty()) chosen = parse_objective(objective, scenario.n_ranks).value();
  const Result<Certificate> certificate = certify_scenario(scenario, chosen);
  EXPECT_TRUE(certificate.ok()) << (certificate.ok() ? "" : certificate.error().text());
  return certificate.value();
}

std::string refusal_of(const Scenario& scenario) {
  const Result<Certificate> certificate = certify_scenario(scenario, std::nullopt);
  return certificate.ok() ? "" : certificate.error().text();
}

/// Weights of the samples (or tokens) of a window, row after row.
std::vector<Fraction> weights_of(const WindowWeights& window) {
  std::vector<Fraction> weights;
  for (const WeightRow& row : window.rows) weights.push_back(row.weight);
  return weights;
}

const WeightRow& wrong_row(const Certificate& certificate) {
  return certificate.windows[certificate.fault().place.window].rows[certificate.fault().place.row];
}

/// A published factor, as arithmetic on paper gives it.
struct Published {
  const char* file;
  Deviation deviation;
  Fraction factor;
  std::int64_t step;
  std::int32_t rank;
  std::int64_t micro;
};

std::ostream& operator<<(std::ostream& out, const Published& published) {
  return out << published.file;
}

class PublishedFactor : public ::testing::TestWithParam<Published> {};

TEST_P(PublishedFactor, IsNamedWithItsPlaceAndValue) {
  const Published& expected = GetParam();
  const Certificate certificate = certificate_of(load(expected.file));
  EXPECT_EQ(certificate.fault().deviation, expected.deviation) << certificate;
  EXPECT_EQ(certificate.fault().factor, expected.factor) << certificate;
  EXPECT_EQ(certificate.windows[certificate.fault().place.window].step, expected.step);
  EXPECT_EQ(wrong_row(certificate).rank, expected.rank);
  EXPECT_EQ(wrong_row(certificate).micro, expected.micro);
}

TEST_P(PublishedFactor, IsGoneInTheRepair) {
  const Certificate certificate = certificate_of(load(GetParam().file, "fixed"));
  EXPECT_TRUE(certificate.certified()) << certificate;
}

INSTANTIATE_TEST_SUITE_P(
    All,
    PublishedFactor,
    ::testing::Values(
        Published{"averages/micro_step_means.toml", Deviation::kMeanOfMicros, Fraction(3), 0, 0, 2},
        Published{"averages/tokens_per_rank.toml", Deviation::kMeanOfRanks, Fraction(9), 0, 0, 0},
        Published{
            "averages/sum_averaged_again.toml", Deviation::kRanksDivided, Fraction(1, 8), 0, 0, 0},
        Published{
            "averages/short_last_window.toml", Deviation::kShortWindow, Fraction(1, 2), 1, 0, 0},
        Published{"averages/reduced_in_each_micro_step.toml",
                  Deviation::kGrowsPerMicro,
                  Fraction(8),
                  0,
                  0,
                  0}));

// The means of 1 2 3, 4 5 6 and 7 are 2, 5 and 7, and their mean is 14/3; that of 1 to 7 is 4.
TEST(CertifyScenarioTest, FindsFourteenThirdsAgainstFour) {
  const Certificate certificate = certificate_of(load("averages/micro_step_means.toml"));
  EXPECT_EQ(certificate.windows.front().used, Fraction(14, 3));
  EXPECT_EQ(certificate.windows.front().one_process, Fraction(4));
}

TEST(CertifyScenarioTest, APassThatIsDoneTwiceToCompareItChangesNoWeight) {
  for (const char* const redo : {"false", "true"}) {
    const Certificate certificate =
        certificate_of(load("averages/micro_step_means.toml", "", {{"loop.redo", redo}}));
    EXPECT_EQ(certificate.windows.size(), 1U) << redo;
    EXPECT_EQ(certificate.windows.front().used, Fraction(14, 3)) << redo;
  }
}

// What was accumulated first has gone through four reductions, each of which adds two ranks.
TEST(CertifyScenarioTest, FindsAPowerOfTwoPerMicroStep) {
  const Certificate certificate = certificate_of(load("averages/reduced_in_each_micro_step.toml"));
  EXPECT_THAT(weights_of(certificate.windows.front()),
              ElementsAre(Fraction(1),
                          Fraction(1, 2),
                          Fraction(1, 4),
                          Fraction(1, 8),
                          Fraction(1),
                          Fraction(1, 2),
                          Fraction(1, 4),
                          Fraction(1, 8)));
}

TEST(CertifyScenarioTest, AsksForWhatTheScenarioDeclaresUnlessAskedOtherwise) {
  const Scenario scenario = load("averages/tokens_per_rank.toml");
  EXPECT_EQ(certificate_of(scenario).objective.text(), "token-mean");
  // Each rank has one sample, and their mean is what DDP computes.
  EXPECT_TRUE(certificate_of(scenario, "sample-mean").certified());
  EXPECT_TRUE(certificate_of(scenario, "rank-mean").certified());
  EXPECT_TRUE(certificate_of(scenario, "1/2,1/2").certified());
  EXPECT_FALSE(certificate_of(scenario, "1/4,3/4").certified());
}

TEST(CertifyScenarioTest, SaysThatASummedReductionIsTimesTheRanks) {
  const Certificate certificate = certificate_of(load("zoo/sum_vs_mean.toml"));
  EXPECT_EQ(certificate.fault().deviation, Deviation::kRanksAdded);
  EXPECT_EQ(certificate.fault().factor, Fraction(4));
}

TEST(CertifyScenarioTest, SaysThatALossDividedByTheRanksIsAveragedTwice) {
  const Certificate certificate = certificate_of(load("zoo/double_average.toml"));
  EXPECT_EQ(certificate.fault().deviation, Deviation::kRanksDivided);
  EXPECT_EQ(certificate.fault().factor, Fraction(1, 4));
  EXPECT_TRUE(certificate_of(load("zoo/double_average.toml", "alike")).certified());
}

TEST(CertifyScenarioTest, SaysWhichMicroStepStayedLocal) {
  const Certificate certificate = certificate_of(load("zoo/last_micro_unsynced.toml"));
  EXPECT_EQ(certificate.fault().deviation, Deviation::kRanksDiffer);
  EXPECT_THAT(certificate.windows.front().other_ranks, ElementsAre(1));
  // Rank 0's own last micro-step is whole in its gradient, rank 1's is not in it.
  EXPECT_THAT(weights_of(certificate.windows.front()),
              ElementsAre(Fraction(1, 2), Fraction(1), Fraction(1, 2), Fraction(0)));
}

TEST(CertifyScenarioTest, SaysThatAnEpochsLastMicroStepsAreNeverUsed) {
  const Certificate certificate = certificate_of(load(
      "zoo/partial_window.toml",
      "",
      {{"bug",
        R"([{ kind = "scale-gradient", factor = 0.25, at = { event = "step", when = "before" } }])"}}));
  EXPECT_EQ(certificate.fault().deviation, Deviation::kNeverUsed) << certificate;
  EXPECT_EQ(certificate.fault().place.window, 1U);
  EXPECT_EQ(certificate.windows[1].step, 0);  // After it.
  EXPECT_EQ(certificate.windows.back().step, 2);
  // Without a step that uses it, the micro-step of either rank has no weight.
  EXPECT_THAT(weights_of(certificate.windows[1]), ElementsAre(Fraction(), Fraction()));
}

TEST(CertifyScenarioTest, SaysThatGradientsOfAnEarlierWindowAreLeft) {
  const Certificate certificate = certificate_of(
      load("averages/sum_averaged_again.toml",
           "fixed",
           {{"loop.zero_grad", "never"}, {"loop.steps", "2"}, {"loader.shuffle", "true"}}));
  EXPECT_EQ(certificate.fault().deviation, Deviation::kLeftOver) << certificate;
  EXPECT_TRUE(certificate.windows.front().is_right());
}

// DDP divides by all ranks, also when some have run out of inputs.
TEST(CertifyScenarioTest, SaysThatAJoinDividesByRanksThatHaveNoInput) {
  const Certificate certificate = certificate_of(load("healthy/uneven_inputs_joined.toml"));
  EXPECT_TRUE(certificate.windows.front().is_right()) << certificate;
  EXPECT_EQ(certificate.fault().deviation, Deviation::kIdleRanks) << certificate;
  EXPECT_EQ(certificate.fault().factor, Fraction(1, 2)) << certificate;
  EXPECT_EQ(wrong_row(certificate).rank, 1);
}

// Without the division by the window, a job has two faults: each is named once, at its first window.
TEST(CertifyScenarioTest, NamesEveryFaultOnce) {
  const Certificate certificate = certificate_of(load("zoo/partial_window.toml"));
  ASSERT_EQ(certificate.faults.size(), 2U) << certificate;
  EXPECT_EQ(certificate.faults[0].deviation, Deviation::kMicrosAdded);
  EXPECT_EQ(certificate.faults[0].factor, Fraction(4));
  EXPECT_EQ(certificate.faults[1].deviation, Deviation::kNeverUsed);
  EXPECT_EQ(certificate.faults[1].place.window, 1U);
  EXPECT_THAT(render_text(certificate), HasSubstr("Also, after step 0: never-used."));
}

TEST(CertifyScenarioTest, SaysWhichRankLeavesAStepOut) {
  const Certificate certificate = certificate_of(load("kill_matrix/step_skipped_once.toml"));
  ASSERT_EQ(certificate.fault().deviation, Deviation::kNeverUsed) << certificate;
  const WindowWeights& window = certificate.windows[certificate.fault().place.window];
  EXPECT_THAT(window.unused_ranks, ElementsAre(1));
}

TEST(CertifyScenarioTest, SaysThatAGradientIsNotANumber) {
  const Certificate certificate = certificate_of(load("zoo/scaler_inf_local.toml"));
  EXPECT_EQ(certificate.fault().deviation, Deviation::kNotAFraction) << certificate;
}

TEST(CertifyScenarioTest, SetsAsideWhatIsNoAverage) {
  const Certificate certificate =
      certificate_of(load("averages/tokens_per_rank.toml", "fixed", {{"clip.norm", "0.001"}}));
  EXPECT_TRUE(certificate.certified()) << certificate;
  EXPECT_THAT(certificate.set_aside, ElementsAre("clipping"));
}

TEST(CertifyScenarioTest, RefusesWhatHasNoAverageOfGradients) {
  EXPECT_THAT(refusal_of(load("lessons/other_collectives.toml")), HasSubstr("without a loss"));
  EXPECT_THAT(refusal_of(load("healthy/local_sgd.toml")), HasSubstr("average parameters"));
  EXPECT_THAT(refusal_of(load("healthy/comm_hook_fp16.toml")), HasSubstr("ddp.hook=none"));
  EXPECT_THAT(refusal_of(load("zoo/uneven_batches.toml")), HasSubstr("does not finish"));
  // Ranks that fail together, and a law that says why: still not all of their windows.
  EXPECT_THAT(refusal_of(load("zoo/rank0_only_collective.toml", "strict")),
              HasSubstr("does not finish"));
}

TEST(CertifyScenarioTest, GivesTheSameCertificateEachTime) {
  const Scenario scenario = load("averages/short_last_window.toml");
  EXPECT_EQ(render_text(certificate_of(scenario)), render_text(certificate_of(scenario)));
}

}  // namespace

}  // namespace lockstep
