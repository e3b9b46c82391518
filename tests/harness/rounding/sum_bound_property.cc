// No order of adding is ever outside of its bound: all trees of few contributions, random trees of many.
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "lockstep/harness/rounding/sum_bound.h"

namespace lockstep {
namespace {

constexpr std::array kTypes = {
    ElementType::kF16, ElementType::kBF16, ElementType::kF32, ElementType::kF64};

FloatFormat any_format() {
  return *FloatFormat::of(kTypes[*rc::gen::inRange<std::size_t>(0, kTypes.size())]);
}

/// Numbers of the format that cancel: few magnitudes, both signs.
std::vector<double> any_contributions(const FloatFormat& format, std::size_t n) {
  std::vector<double> values;
  for (std::size_t i = 0; i < n; ++i) {
    const int mantissa = *rc::gen::inRange(-2047, 2048);
    const int exponent = *rc::gen::inRange(-12, 5);
    values.push_back(format.round(std::ldexp(static_cast<double>(mantissa), exponent)));
  }
  return values;
}

/// Calls `visit` with the result of every tree over the values, operands in every order.
template <typename Visit>
void all_trees(const std::vector<double>& values, const FloatFormat& format, const Visit& visit) {
  if (values.size() == 1) {
    visit(values.front());
    return;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (std::size_t j = i + 1; j < values.size(); ++j) {
      std::vector<double> rest;
      for (std::size_t k = 0; k < values.size(); ++k) {
        if (k != i && k != j) rest.push_back(values[k]);
      }
      rest.push_back(format.add(values[i], values[j]));
      all_trees(rest, format, visit);
    }
  }
}

RC_GTEST_PROP(SumBoundProperty, EveryTreeOfFiveContributionsLiesInside, ()) {
  const FloatFormat format = any_format();
  const std::vector<double> x = any_contributions(format, *rc::gen::inRange<std::size_t>(2, 6));
  const SumBound bound = bound_of(x, {format}, {});
  all_trees(x, format, [&](double result) {
    if (bound.may_overflow && !std::isfinite(result)) return;
    RC_ASSERT(distance_from_exact(x, {}, result) <= bound.radius);
  });
}

RC_GTEST_PROP(SumBoundProperty, RandomTreesOfManyContributionsLieInside, ()) {
  const FloatFormat format = any_format();
  const std::vector<double> x = any_contributions(format, *rc::gen::inRange<std::size_t>(6, 200));
  const bool mean = *rc::gen::arbitrary<bool>();
  const Combination reduction{mean ? ResultKind::kMean : ResultKind::kSum};
  const bool before = *rc::gen::arbitrary<bool>();
  const auto n = static_cast<double>(x.size());
  std::vector<double> left = x;
  if (mean && before) {
    for (double& value : left) value = format.divide(value, n);
  }
  while (left.size() > 1) {
    const auto i = *rc::gen::inRange<std::size_t>(0, left.size());
    const double first = left[i];
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(i));
    const auto j = *rc::gen::inRange<std::size_t>(0, left.size());
    left[j] = format.add(first, left[j]);
  }
  const double result = mean && !before ? format.divide(left.front(), n) : left.front();
  const SumBound bound = bound_of(x, {format}, reduction);
  if (!std::isfinite(result)) {
    RC_ASSERT(bound.may_overflow);
    return;
  }
  RC_ASSERT(distance_from_exact(x, reduction, result) <= bound.radius);
}

RC_GTEST_PROP(SumBoundProperty, AddingInF32AndRoundingOnceLiesInside, ()) {
  const bool half = *rc::gen::arbitrary<bool>();
  const FloatFormat format = *FloatFormat::of(half ? ElementType::kF16 : ElementType::kBF16);
  const std::vector<double> x = any_contributions(format, *rc::gen::inRange<std::size_t>(2, 40));
  float sum = 0.0F;
  for (const double value : x) sum += static_cast<float>(value);
  const double result = format.round(sum);
  const SumBound bound = bound_of(x, {format}, {});
  if (bound.may_overflow && !std::isfinite(result)) return;
  RC_ASSERT(distance_from_exact(x, {}, result) <= bound.radius);
}

// The twin: a bound that were half as wide would be wrong. Two numbers whose sum is a tie are off by u
// times the sum, which is the whole bound for n = 2.
TEST(SumBoundTest, TheBoundIsReached) {
  const FloatFormat f32 = *FloatFormat::of(ElementType::kF32);
  const std::vector<double> x = {16'777'216.0, 1.0};
  const SumBound bound = bound_of(x, {f32}, {});
  const double distance = distance_from_exact(x, {}, f32.add(x[0], x[1]));
  EXPECT_EQ(distance, 1.0);
  EXPECT_GE(bound.radius, 1.0);
  EXPECT_LT(bound.radius, 1.0 + 1e-6);
}

TEST(SumBoundTest, ARadiusIsRoundoffTimesAdditionsTimesAbsoluteValues) {
  const FloatFormat f64 = *FloatFormat::of(ElementType::kF64);
  const std::vector<double> x = {1.0, -2.0, 3.0 + 0x1p-51};
  const SumBound bound = bound_of(x, {f64}, {});
  EXPECT_NEAR(bound.exact, 2.0, 1e-15);
  EXPECT_NEAR(bound.absolute, 6.0, 1e-14);
  EXPECT_NEAR(bound.radius, (2 * 0x1p-53 + 3 * 0x1p-64) * bound.absolute, 1e-28);
}

// Their absolute values add up beyond the largest double, which does not widen the interval.
TEST(SumBoundTest, NumbersNearTheEndOfF64AreJudgedLikeOthers) {
  const FloatFormat f64 = *FloatFormat::of(ElementType::kF64);
  const std::vector<double> x = {1.7e308, 1.7e308, -1.7e308};
  EXPECT_TRUE(is_possible(x, {f64}, {}, 1.7e308));
  EXPECT_TRUE(is_possible(x, {f64}, {}, std::numeric_limits<double>::infinity()));
  EXPECT_FALSE(is_possible(x, {f64}, {}, 1.6e308));
}

// Whole numbers whose absolute values add up to less than 2^24 have one sum in f32.
TEST(SumBoundTest, WhereNothingCanRoundTheRadiusIsZero) {
  const FloatFormat f32 = *FloatFormat::of(ElementType::kF32);
  const auto radius = [&](const std::vector<double>& x, const Combination& combination) {
    return bound_of(x, {f32}, combination).radius;
  };
  EXPECT_EQ(radius({1, -2, 3, 30}, {}), 0.0);
  EXPECT_EQ(radius({0x1p-20, 7, -0.5}, {}), 0.0);
  EXPECT_EQ(radius({16'777'214, 1}, {}), 0.0);
  EXPECT_GT(radius({16'777'215, 1}, {}), 0.0);
  EXPECT_GT(radius({0x1p-20, 17, -0.5}, {}), 0.0);
  EXPECT_GT(radius({0x1p-130, 0x1p-131}, {}), 0.0);            // Subnormal: they may be flushed.
  EXPECT_GT(radius({1, 2, 3, 30}, {ResultKind::kMean}), 0.0);  // It may be divided in two steps.
}

// The twin of a radius of zero is a tree that rounds, and there is none.
RC_GTEST_PROP(SumBoundProperty, WhereTheRadiusIsZeroEveryTreeIsExact, ()) {
  const FloatFormat format = any_format();
  std::vector<double> x;
  const int exponent = *rc::gen::inRange(-20, 10);
  for (std::size_t i = *rc::gen::inRange<std::size_t>(2, 6); i > 0; --i) {
    x.push_back(std::ldexp(*rc::gen::inRange(-60, 61), exponent));
    if (format.round(x.back()) != x.back()) x.back() = 0.0;
  }
  const SumBound bound = bound_of(x, {format}, {});
  if (bound.radius > 0.0 || bound.may_overflow) return;
  double exact = 0.0;
  for (const double value : x) exact += value;
  all_trees(x, format, [&](double result) { RC_ASSERT(result == exact); });
}

TEST(SumBoundTest, ASumMayOverflowWhereItsTermsTogetherLeaveTheFormat) {
  const FloatFormat f16 = *FloatFormat::of(ElementType::kF16);
  const auto may_overflow = [&](double each, ResultKind kind) {
    return bound_of(std::vector<double>{each, -each}, {f16}, {kind}).may_overflow;
  };
  EXPECT_TRUE(may_overflow(40'000.0, ResultKind::kSum));
  EXPECT_TRUE(may_overflow(40'000.0, ResultKind::kMean));  // Of a sum that is divided afterwards.
  EXPECT_FALSE(may_overflow(32'000.0, ResultKind::kSum));
  EXPECT_FALSE(may_overflow(32'000.0, ResultKind::kMean));
}

TEST(SumBoundTest, WhatIsNotFiniteIsInfinitelyFar) {
  const std::vector<double> x = {1.0, 2.0};
  EXPECT_EQ(distance_from_exact(x, {}, std::nan("")), std::numeric_limits<double>::infinity());
  EXPECT_EQ(distance_from_exact(x, {ResultKind::kMean}, 1.5), 0.0);
}

}  // namespace
}  // namespace lockstep
