// What libraries do beside adding in their own type: none of it may ever be outside of the interval.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "lockstep/harness/rounding/result_side.h"
#include "lockstep/harness/rounding/sum_bound.h"

namespace lockstep {
namespace {

const FloatFormat kDouble = *FloatFormat::of(ElementType::kF64);
const FloatFormat kSingleFloat = *FloatFormat::of(ElementType::kF32);
const FloatFormat kHalf = *FloatFormat::of(ElementType::kF16);
const FloatFormat kBrain = *FloatFormat::of(ElementType::kBF16);

using Add = std::function<double(double, double)>;

/// Numbers of the format: of few magnitudes, subnormal or near the end of the format, zeros among them.
std::vector<double> any_values(const FloatFormat& format, std::size_t n) {
  const int kind = *rc::gen::inRange(0, 4);
  std::vector<double> values;
  for (std::size_t i = 0; i < n; ++i) {
    const int mantissa = *rc::gen::inRange(-255, 256);
    double value = std::ldexp(mantissa, *rc::gen::inRange(-12, 5));
    if (kind == 1) value = mantissa * format.smallest() * *rc::gen::inRange(1, 300);
    if (kind == 2) value = format.largest() / 255.0 * mantissa;
    if (kind == 3) value = mantissa / 37.0;
    values.push_back(format.round(value));
  }
  return values;
}

std::size_t any_count() { return *rc::gen::inRange<std::size_t>(2, 40); }

/// Adds by a random tree.
double tree(std::vector<double> values, const Add& add) {
  while (values.size() > 1) {
    const auto i = *rc::gen::inRange<std::size_t>(0, values.size());
    const double first = values[i];
    values.erase(values.begin() + static_cast<std::ptrdiff_t>(i));
    const auto j = *rc::gen::inRange<std::size_t>(0, values.size());
    values[j] = add(first, values[j]);
  }
  return values.front();
}

Add adding_in(const FloatFormat& format) {
  return [format](double a, double b) { return format.add(a, b); };
}

void expect_possible(const std::vector<double>& x,
                     const Arithmetic& how,
                     const Combination& combination,
                     double result) {
  RC_ASSERT(is_possible(x, how, combination, result));
}

RC_GTEST_PROP(OtherWaysProperty, SubnormalNumbersMayBeFlushedToZero, ()) {
  const FloatFormat format = *rc::gen::element(kSingleFloat, kBrain);
  const auto flushed = [](double value) { return std::abs(value) < 0x1p-126 ? 0.0 : value; };
  std::vector<double> x = any_values(format, any_count());
  if (*rc::gen::arbitrary<bool>()) {
    for (double& value : x) value = format.round(value * 0x1p-124);
  }
  const double result =
      tree(x, [&](double a, double b) { return flushed(format.add(flushed(a), flushed(b))); });
  expect_possible(x, {format}, {}, result);
}

RC_GTEST_PROP(OtherWaysProperty, AMeanMayBeAddedByFusedMultiplyAdd, ()) {
  const std::vector<double> x = any_values(kSingleFloat, any_count());
  const float reciprocal = 1.0F / static_cast<float>(x.size());
  float sum = 0.0F;
  for (const double value : x) sum = std::fmaf(static_cast<float>(value), reciprocal, sum);
  expect_possible(x, {kSingleFloat}, {ResultKind::kMean}, sum);
}

// Nodes of k ranks average, then the nodes average; either divides or multiplies by a rounded 1/k.
RC_GTEST_PROP(OtherWaysProperty, AMeanOfMeansIsAMean, ()) {
  const FloatFormat format = *rc::gen::element(kDouble, kSingleFloat, kHalf, kBrain);
  const auto k = *rc::gen::inRange<std::size_t>(2, 7);
  const auto m = *rc::gen::inRange<std::size_t>(2, 7);
  const bool divides = *rc::gen::arbitrary<bool>();
  const std::vector<double> x = any_values(format, k * m);
  const auto mean = [&](const std::vector<double>& values) {
    const auto n = static_cast<double>(values.size());
    const double sum = tree(values, adding_in(format));
    return divides ? format.divide(sum, n) : format.multiply(sum, format.divide(1.0, n));
  };
  std::vector<double> means;
  for (std::size_t node = 0; node < m; ++node) {
    const auto first = x.begin() + static_cast<std::ptrdiff_t>(node * k);
    means.push_back(mean({first, first + static_cast<std::ptrdiff_t>(k)}));
  }
  expect_possible(x, {format}, {ResultKind::kMean}, mean(means));
}

// Divided by f before they are added and by n / f afterwards, as sharded training does.
RC_GTEST_PROP(OtherWaysProperty, AMeanMayBeDividedInTwoSteps, ()) {
  const FloatFormat format = *rc::gen::element(kSingleFloat, kHalf, kBrain);
  std::vector<double> x = any_values(format, any_count());
  const std::vector<double> given = x;
  const double before = *rc::gen::inRange(2, 8);
  for (double& value : x) value = format.divide(value, before);
  const double after = format.round(before / static_cast<double>(x.size()));
  const double result = format.multiply(tree(x, adding_in(format)), after);
  expect_possible(given, {format}, {ResultKind::kMean}, result);
}

RC_GTEST_PROP(OtherWaysProperty, ASumMayBeMultipliedBeforeOrAfter, ()) {
  const FloatFormat format = *rc::gen::element(kDouble, kSingleFloat, kHalf, kBrain);
  const double given = *rc::gen::element(0.1, -3.0, 1.0 / 3.0, 1024.0, 0x1p-20);
  const double factor = format.round(given);
  const std::vector<double> x = any_values(format, any_count());
  std::vector<double> scaled;
  for (const double value : x) scaled.push_back(format.multiply(value, factor));
  const Combination combination{ResultKind::kScaledSum, given};
  expect_possible(x, {format}, combination, tree(scaled, adding_in(format)));
  expect_possible(x, {format}, combination, format.multiply(tree(x, adding_in(format)), factor));
}

RC_GTEST_PROP(OtherWaysProperty, AWiderTypeMayAddAndRoundOnce, ()) {
  const std::vector<double> x = any_values(kSingleFloat, any_count());
  const double wide = tree(x, [](double a, double b) { return a + b; });
  expect_possible(x, {kSingleFloat}, {}, kSingleFloat.round(wide));
  const std::vector<double> y = any_values(kDouble, any_count());
  long double extended = 0.0L;
  for (const double value : y) extended += value;
  expect_possible(y, {kDouble}, {}, static_cast<double>(extended));
}

// Within a node in f32, between nodes in 16 bits, and rounded in between.
RC_GTEST_PROP(OtherWaysProperty, NodesMayAddInAWiderTypeThanTheNetwork, ()) {
  const FloatFormat format = *rc::gen::element(kHalf, kBrain);
  const auto k = *rc::gen::inRange<std::size_t>(1, 9);
  const auto m = *rc::gen::inRange<std::size_t>(2, 9);
  const std::vector<double> x = any_values(format, k * m);
  std::vector<double> sums;
  for (std::size_t node = 0; node < m; ++node) {
    const auto first = x.begin() + static_cast<std::ptrdiff_t>(node * k);
    const std::vector<double> own(first, first + static_cast<std::ptrdiff_t>(k));
    sums.push_back(format.round(tree(own, adding_in(kSingleFloat))));
  }
  expect_possible(x, {format}, {}, tree(sums, adding_in(format)));
}

RC_GTEST_PROP(OtherWaysProperty, ANarrowerExchangeIsPossibleAsSuch, ()) {
  const FloatFormat narrow = *rc::gen::element(kHalf, kBrain);
  const std::vector<double> x = any_values(kSingleFloat, any_count());
  std::vector<double> sent;
  for (const double value : x) sent.push_back(narrow.round(value));
  const double sum = tree(sent, adding_in(narrow));
  expect_possible(x, {.format = narrow, .converts = true}, {}, sum);
  const double mean = narrow.divide(sum, static_cast<double>(x.size()));
  expect_possible(x, {.format = narrow, .converts = true}, {ResultKind::kMean}, mean);
}

/// The neighbour of `exact` that lies towards zero.
double truncated(const FloatFormat& format, double exact) {
  const double nearest = format.round(exact);
  if (!std::isfinite(exact)) return nearest;
  if (std::isinf(nearest)) return std::copysign(format.largest(), exact);
  if (std::abs(nearest) <= std::abs(exact)) return nearest;
  const std::uint64_t bits = format.bits_of(nearest) - 1;  // One number nearer to zero.
  return format.read(std::string(reinterpret_cast<const char*>(&bits), 8), 0);  // NOLINT
}

RC_GTEST_PROP(OtherWaysProperty, TruncatedSumsArePossibleAsSuch, ()) {
  const FloatFormat format = *rc::gen::element(kSingleFloat, kHalf, kBrain);
  const std::vector<double> x = any_values(format, any_count());
  const double result = tree(x, [&](double a, double b) { return truncated(format, a + b); });
  expect_possible(x, {.format = format, .nearest = false}, {}, result);
}

// The twin of all of these: one contribution that is lost is outside, whatever the library does, where the
// contribution is larger than what rounding takes away.
RC_GTEST_PROP(OtherWaysProperty, ALostContributionIsOutsideOfEveryWay, ()) {
  const FloatFormat format = *rc::gen::element(kDouble, kSingleFloat, kHalf);
  const std::size_t n = *rc::gen::inRange<std::size_t>(2, 9);
  std::vector<double> x;
  for (std::size_t i = 0; i < n; ++i) {
    x.push_back(format.round(1.0 + *rc::gen::inRange(0, 1000) / 1000.0));
  }
  const double result = tree({x.begin() + 1, x.end()}, adding_in(format));
  RC_ASSERT(!is_possible(x, {format}, {}, result));
  RC_ASSERT(!is_possible(x, {.format = format, .nearest = false}, {}, result));
  for (const Arithmetic& how : other_ways(format)) RC_ASSERT(!is_possible(x, how, {}, result));
}

}  // namespace
}  // namespace lockstep
