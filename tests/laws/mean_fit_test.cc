#include "lockstep/laws/detail/mean_fit.h"

#include <gtest/gtest.h>

namespace lockstep::laws {
namespace {

constexpr Sketch kFirst{10.0, {1.0, 2.0, 3.0, 4.0}};
constexpr Sketch kSecond{7.0, {4.0, -1.0, 2.0, 0.0}};

OneReduction reduced_to(const Sketch& reduced) {
  return {{&kFirst, &kSecond}, &reduced, 4, DType::kF64};
}

TEST(MeanFitTest, FindsTheWeightsOfBatchesEightToTwo) {
  // 0.8 * first + 0.2 * second, projection by projection.
  const Sketch reduced{9.4, {1.6, 1.4, 2.8, 3.2}};
  const OneReduction reductions[] = {reduced_to(reduced)};

  const std::optional<Fit> found = fit(reductions, Weights::uniform(2, 1.0, 2.0), false);

  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->weights.values(), (std::vector<double>{0.8, 0.2}));
  EXPECT_NE(found->message.find("0.8:0.2, but 0.5:0.5 was declared"), std::string::npos);
}

TEST(MeanFitTest, NamesAMeanOfMeansByTheBatchesItShouldHaveWeighed) {
  const Sketch reduced{8.5, {2.5, 0.5, 2.5, 2.0}};
  const OneReduction reductions[] = {reduced_to(reduced)};

  const std::optional<Fit> found = fit(reductions, Weights{{8.0, 2.0}, 10.0}, false);

  ASSERT_TRUE(found.has_value());
  EXPECT_NE(found->message.find("weights are 8:2"), std::string::npos) << found->message;
  EXPECT_EQ(id_of(found->cause), "token-weighted-mean");
}

TEST(MeanFitTest, NamesASumByTheWorldSizeItIsOffBy) {
  const Sketch reduced{17.0, {5.0, 1.0, 5.0, 4.0}};
  const OneReduction reductions[] = {reduced_to(reduced)};

  const std::optional<Fit> found = fit(reductions, Weights::uniform(2, 1.0, 2.0), false);

  ASSERT_TRUE(found.has_value());
  EXPECT_NE(found->message.find("off by the world size (x 2)"), std::string::npos);
}

TEST(MeanFitTest, NamesTheRankWhoseContributionIsLost) {
  const Sketch reduced{5.0, {0.5, 1.0, 1.5, 2.0}};
  const OneReduction reductions[] = {reduced_to(reduced)};

  const std::optional<Fit> found = fit(reductions, Weights::uniform(2, 1.0, 2.0), false);

  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->culprit, 1);
  EXPECT_NE(found->message.find("one rank's contribution is missing"), std::string::npos);
}

TEST(MeanFitTest, SaysNothingWhenNoWeightsExplainWhatCameOut) {
  const Sketch reduced{9.4, {1.6, 1.4, 2.8, -3.2}};
  const OneReduction reductions[] = {reduced_to(reduced)};

  EXPECT_FALSE(fit(reductions, Weights::uniform(2, 1.0, 2.0), false).has_value());
}

// 1.5 * first - 0.5 * second explains it, and means nothing.
TEST(MeanFitTest, NegativeWeightsExplainNothing) {
  const Sketch reduced{11.5, {-0.5, 3.5, 3.5, 6.0}};
  const OneReduction reductions[] = {reduced_to(reduced)};
  EXPECT_FALSE(fit(reductions, Weights::uniform(2, 1.0, 2.0), false).has_value());

  const Sketch turned{8.5, {-2.5, -0.5, -2.5, -2.0}};
  const OneReduction against[] = {reduced_to(turned)};
  EXPECT_FALSE(fit(against, Weights::uniform(2, 1.0, 2.0), false).has_value());
}

TEST(MeanFitTest, TheBoundGrowsWithTheLocalGradientsAndEndsThere) {
  // u = 2^-53, N = 2, n = 4, L = 8.5: (3 + 16) * 2^-53 * 8.5 = 161.5 * 2^-53.
  for (const double ulps : {160.0, 164.0}) {
    const Sketch reduced{8.5, {2.5 + ulps * 0x1p-53, 0.5, 2.5, 2.0}};
    EXPECT_EQ(explains(Weights::uniform(2, 1.0, 2.0), reduced_to(reduced), false), ulps < 161.5);
  }
}

// (N + 1 + k) u L with N = 2, where at most k additions made each local gradient.
TEST(MeanFitTest, TheBoundGrowsWithTheAdditionsThatMadeALocalGradient) {
  for (const double share : {0.9, 1.5}) {
    const Sketch reduced{8.5, {2.5 + share * 8 * 0x1p-24 * 8.5, 0.5, 2.5, 2.0}};
    OneReduction reduction = reduced_to(reduced);
    reduction.dtype = DType::kF32;
    reduction.n_added_before = 5;
    EXPECT_EQ(explains(Weights::uniform(2, 1.0, 2.0), reduction, false), share < 1.0);
  }
}

// (N + 1) u L with N = 2 and the unit roundoff u of the type; n 2^-53 L vanishes beside it.
TEST(MeanFitTest, TheBoundHasTheUnitRoundoffOfTheType) {
  const std::pair<DType, double> types[] = {
      {DType::kF32, 0x1p-24}, {DType::kF16, 0x1p-11}, {DType::kBF16, 0x1p-8}};
  for (const auto& [dtype, unit] : types) {
    for (const double share : {0.9, 1.5}) {
      const Sketch reduced{8.5, {2.5 + share * 3 * unit * 8.5, 0.5, 2.5, 2.0}};
      OneReduction reduction = reduced_to(reduced);
      reduction.dtype = dtype;
      EXPECT_EQ(explains(Weights::uniform(2, 1.0, 2.0), reduction, false), share < 1.0)
          << name_of(dtype);
    }
  }
}

}  // namespace
}  // namespace lockstep::laws
