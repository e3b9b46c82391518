#include "lockstep/data/synthetic.h"

#include <cmath>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::data {
namespace {

std::vector<double> all_features(const Dataset& data) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < data.size(); ++i) {
    for (const double value : data.features(i)) values.push_back(value);
  }
  return values;
}

std::vector<double> all_targets(const Dataset& data) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < data.size(); ++i) {
    for (const double value : data.targets(i)) values.push_back(value);
  }
  return values;
}

TEST(SyntheticTest, ASeedNamesTheDataSet) {
  for (const SyntheticKind kind :
       {SyntheticKind::kRegression, SyntheticKind::kClassification, SyntheticKind::kDyadic}) {
    const Dataset first = make_synthetic({.kind = kind, .outputs = 3, .seed = 5}).value();
    const Dataset again = make_synthetic({.kind = kind, .outputs = 3, .seed = 5}).value();
    const Dataset other = make_synthetic({.kind = kind, .outputs = 3, .seed = 6}).value();
    EXPECT_EQ(all_features(first), all_features(again));
    EXPECT_EQ(all_targets(first), all_targets(again));
    EXPECT_NE(all_features(first), all_features(other));
  }
}

TEST(SyntheticTest, GivenWeightsMakeTheTargets) {
  const SyntheticOptions options{.size = 20, .features = 2, .weights = {2.0, -1.5}};
  const Dataset data = make_synthetic(options).value();
  for (std::int64_t i = 0; i < data.size(); ++i) {
    const auto x = data.features(i);
    EXPECT_EQ(data.targets(i)[0], x[0] * 2.0 + x[1] * -1.5);
  }

  EXPECT_FALSE(make_synthetic({.features = 3, .weights = {2.0, -1.5}}).ok());
  EXPECT_FALSE(
      make_synthetic({.kind = SyntheticKind::kDyadic, .features = 2, .weights = {1, 2}}).ok());
}

TEST(SyntheticTest, ALargerSetBeginsWithTheSmallerOne) {
  const SyntheticOptions small{.size = 10, .features = 3, .outputs = 2, .seed = 1, .noise = 0.5};
  SyntheticOptions large = small;
  large.size = 50;
  std::vector<double> beginning = all_targets(make_synthetic(large).value());
  beginning.resize(20);
  EXPECT_EQ(beginning, all_targets(make_synthetic(small).value()));
}

// Two features and no noise: the weights follow from three samples; a fourth must then agree.
TEST(SyntheticTest, TargetsOfARegressionLieOnOnePlane) {
  const Dataset data = make_synthetic({.size = 4, .features = 1, .seed = 3}).value();
  const auto x = [&](std::int64_t i) { return data.features(i)[0]; };
  const auto y = [&](std::int64_t i) { return data.targets(i)[0]; };
  const double slope = (y(1) - y(0)) / (x(1) - x(0));
  const double bias = y(0) - slope * x(0);
  // Each y is off by at most 2^-52; the slope divides that by the distance of the two samples.
  const double bound = 0x1p-50 * (1 + 2 / std::abs(x(1) - x(0)));
  for (std::int64_t i = 2; i < 4; ++i) EXPECT_NEAR(y(i), slope * x(i) + bias, bound);
}

TEST(SyntheticTest, ClassesTakeTurnsAroundTheirCentres) {
  const Dataset data = make_synthetic({.kind = SyntheticKind::kClassification,
                                       .size = 12,
                                       .features = 4,
                                       .outputs = 3,
                                       .noise = 0.0})
                           .value();
  EXPECT_EQ(data.classes(), 3);
  for (std::int64_t i = 0; i < 12; ++i) {
    EXPECT_EQ(data.label(i), i % 3);
    for (std::size_t j = 0; j < 4; ++j) EXPECT_EQ(data.features(i)[j], data.features(i % 3)[j]);
  }
}

TEST(SyntheticTest, DyadicValuesAreSmallWholeNumbers) {
  const Dataset data =
      make_synthetic({.kind = SyntheticKind::kDyadic, .size = 200, .features = 6, .outputs = 2})
          .value();
  for (const double value : all_features(data)) {
    EXPECT_EQ(value, std::round(value));
    EXPECT_LE(std::abs(value), 2);
  }
  for (const double value : all_targets(data)) {
    EXPECT_EQ(value, std::round(value));
    EXPECT_LE(std::abs(value), 6 * 4 + 1);
  }
}

// Where x is 0 nothing is left of x . w.
TEST(SyntheticTest, ADyadicTargetOfNothingIsTheNoiseThatEachHas) {
  const Dataset data =
      make_synthetic({.kind = SyntheticKind::kDyadic, .size = 200, .features = 1, .outputs = 2})
          .value();
  std::set<double> noise;
  for (std::int64_t i = 0; i < data.size(); ++i) {
    if (data.features(i)[0] != 0) continue;
    for (const double value : data.targets(i)) noise.insert(value);
  }
  EXPECT_EQ(noise, (std::set<double>{-1, 0, 1}));
}

TEST(SyntheticTest, FeaturesAreFloatsExactly) {
  for (const SyntheticKind kind : {SyntheticKind::kRegression, SyntheticKind::kClassification}) {
    const Dataset data = make_synthetic({.kind = kind, .outputs = 2, .noise = 0.3}).value();
    for (const double value : all_features(data)) {
      EXPECT_EQ(value, static_cast<double>(static_cast<float>(value)));
    }
  }
}

TEST(SyntheticTest, ARampShowsTheSampleNumber) {
  const Dataset data = make_synthetic({.kind = SyntheticKind::kRamp, .size = 16}).value();
  EXPECT_EQ(data.feature_columns(), 1);
  EXPECT_EQ(data.features(12)[0], 120);
  EXPECT_EQ(data.target_columns(), 0);
}

TEST(SyntheticTest, ImpossibleOptionsAreRefused) {
  EXPECT_FALSE(make_synthetic({.size = 0}).ok());
  EXPECT_FALSE(make_synthetic({.features = -1}).ok());
  EXPECT_FALSE(make_synthetic({.outputs = 0}).ok());
  EXPECT_FALSE(make_synthetic({.noise = -0.1}).ok());
  EXPECT_FALSE(make_synthetic({.noise = std::nan("")}).ok());
  EXPECT_FALSE(make_synthetic({.size = std::int64_t{1} << 60U}).ok());
}

}  // namespace
}  // namespace lockstep::data
