#include "lockstep/harness/rounding/growth.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "lockstep/formats/json_text.h"

namespace lockstep {
namespace {

std::vector<SeriesStep> series(const std::vector<double>& distances) {
  std::vector<SeriesStep> steps;
  for (std::size_t i = 0; i < distances.size(); ++i) {
    SeriesStep step{.step = static_cast<std::int64_t>(i) + 1, .n_elements = 10};
    step.distance = distances[i];
    step.n_different = distances[i] > 0 ? 5 : 0;
    step.ulps = static_cast<std::uint64_t>(distances[i]);
    step.tensor = "w";
    step.element = 3;
    steps.push_back(step);
  }
  return steps;
}

TEST(GrowthTest, AFactorThatStaysIsGrowthAndIsFitted) {
  const Growth growth = growth_of(series({0, 2, 6.2, 19.22, 59.582, 184.7042, 572.58302}));
  EXPECT_EQ(growth.verdict, GrowthVerdict::kGrowth);
  EXPECT_EQ(*growth.begins, 1U);
  EXPECT_NEAR(*growth.factor, 3.1, 1e-9);
  EXPECT_TRUE(
      growth_text(growth).starts_with("growth from rounding: step 2 2 ulp, 3.1 x per step\n"))
      << growth_text(growth);
}

// The twin of it: the same growth with one step that multiplies by a thousand.
TEST(GrowthTest, AStepThatTheOthersDoNotExpectIsAJump) {
  const Growth growth =
      growth_of(series({1, 3.2, 9.1, 29, 88, 88'000, 270'000, 800'000, 2'500'000}));
  EXPECT_EQ(growth.verdict, GrowthVerdict::kJump);
  EXPECT_EQ(growth.largest->step, 6);
  EXPECT_LT(growth.largest->chance, 1e-3);
  EXPECT_GT(growth.largest->factor, 100.0 * growth.largest->others);
}

TEST(GrowthTest, FactorsThatScatterAreNoJump) {
  const Growth growth = growth_of(series({1, 2, 9, 11, 60, 70, 300, 900, 1500, 9000}));
  EXPECT_EQ(growth.verdict, GrowthVerdict::kGrowth) << growth_text(growth);
}

// One element differs, then all do, by their last bit: what storing rounds is not growth.
TEST(GrowthTest, ManyElementsAfterAFewAreNoJump) {
  const Growth growth = growth_of(series({0.001, 0.9, 1.1, 1.3, 1.4, 1.6, 1.7}));
  EXPECT_EQ(growth.verdict, GrowthVerdict::kGrowth) << growth_text(growth);
}

TEST(GrowthTest, ABeginningBeyondWhatStoringRoundsIsNotCalledRounding) {
  EXPECT_EQ(growth_of(series({0, 0, 5000, 5100, 5200})).verdict, GrowthVerdict::kLargeStart);
  EXPECT_EQ(growth_of(series({0, 0, 2.0, 2.1, 2.2})).verdict, GrowthVerdict::kGrowth);
}

TEST(GrowthTest, EqualStepsAreEqualAndFewStepsSayNothingOfJumps) {
  EXPECT_EQ(growth_of(series({0, 0})).verdict, GrowthVerdict::kEqual);
  const Growth few = growth_of(series({1, 2, 2000}));
  EXPECT_EQ(few.verdict, GrowthVerdict::kGrowth);
  EXPECT_FALSE(few.largest.has_value());
  EXPECT_NE(growth_text(few).find("too few to distinguish a jump from growth"), std::string::npos);
}

TEST(GrowthTest, ANumberThatIsNoLongerFiniteIsAJump) {
  const double infinite = std::numeric_limits<double>::infinity();
  EXPECT_EQ(growth_of(series({1, 2, infinite})).verdict, GrowthVerdict::kJump);
}

// How often alike factors are called a jump: less than 1 in 1,000, so of 2,000 drawn series at most a few.
// The draws are a fixed sequence of a linear congruence, made normal by a sum of twelve.
TEST(GrowthTest, AlikeFactorsAreSeldomCalledAJump) {
  std::uint64_t state = 1;
  const auto uniform = [&state] {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return static_cast<double>(state >> 11U) * 0x1p-53;
  };
  int n_jumps = 0;
  for (int i = 0; i < 2000; ++i) {
    std::vector<double> distances = {1e6};
    for (int k = 0; k < 10; ++k) {
      double normal = -6.0;
      for (int j = 0; j < 12; ++j) normal += uniform();
      distances.push_back(distances.back() * std::exp(0.5 + 0.4 * normal));
    }
    if (growth_of(series(distances)).verdict == GrowthVerdict::kJump) ++n_jumps;
  }
  EXPECT_LE(n_jumps, 8);  // 2 are expected; more than 8 has a chance below 1 in 4,000.
}

TEST(GrowthTest, ADistanceIsMeasuredInRoundoffsOfTheNorm) {
  const FloatFormat f32 = *FloatFormat::of(ElementType::kF32);
  StepDistance distance(4);
  distance.add("w", f32, 0, 3.0, 3.0);
  distance.add("w", f32, 1, 4.0, 4.0 + 0x1p-21);  // One number further: 2^-21 is 8 u.
  const SeriesStep step = distance.take();
  EXPECT_EQ(step.step, 4);
  EXPECT_EQ(step.n_different, 1);
  EXPECT_EQ(step.ulps, 1U);
  EXPECT_EQ(step.element, 1);
  EXPECT_NEAR(step.distance, 8.0 / 5.0, 1e-12);
}

TEST(GrowthTest, JsonHasEachStep) {
  JsonText out;
  write_growth(out, growth_of(series({0, 2, 4})));
  EXPECT_EQ(
      out.str(),
      R"({"verdict":"growth","factor":2,"begins":2,"largest":null,"steps":[)"
      R"({"step":1,"elements":10,"different":0,"ulps":0,"tensor":"w","element":3,"distance":0},)"
      R"({"step":2,"elements":10,"different":5,"ulps":2,"tensor":"w","element":3,"distance":2},)"
      R"({"step":3,"elements":10,"different":5,"ulps":4,"tensor":"w","element":3,"distance":4}]})");
}

}  // namespace
}  // namespace lockstep
