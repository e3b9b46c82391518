// Metrics other than means: formulas, and metric-true over what several ranks looked at.
#include "lockstep/laws/rules/metric_formula.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using laws::value_of;
using testing::check;
using testing::EventStream;

std::vector<double> rows(const std::vector<double>& x, const std::vector<double>& y) {
  std::vector<double> all;
  for (std::size_t i = 0; i < x.size(); ++i) {
    all.push_back(x[i]);
    all.push_back(y[i]);
  }
  return all;
}

// Values from the documentation of SciPy (pearsonr, spearmanr) and scikit-learn (r2_score,
// mean_squared_error, roc_auc_score).
TEST(MetricFormulaTest, ValuesAreThoseOfSciPyAndScikitLearn) {
  const auto value =
      [](MetricFormula formula, const std::vector<double>& x, const std::vector<double>& y) {
        return value_of(formula, rows(x, y))->value;
      };
  EXPECT_NEAR(value(MetricFormula::kPearson, {1, 2, 3, 4, 5}, {10, 9, 2.5, 6, 4}),
              -0.7426106572325057,
              1e-15);
  EXPECT_NEAR(
      value(MetricFormula::kSpearman, {1, 2, 3, 4, 5}, {5, 6, 7, 8, 7}), 0.8207826816681233, 1e-15);
  EXPECT_NEAR(
      value(MetricFormula::kR2, {2.5, 0.0, 2, 8}, {3, -0.5, 2, 7}), 0.9486081370449679, 1e-15);
  EXPECT_NEAR(
      value(MetricFormula::kRmse, {2.5, 0.0, 2, 8}, {3, -0.5, 2, 7}), std::sqrt(0.375), 1e-15);
  EXPECT_NEAR(value(MetricFormula::kAuc, {0.1, 0.4, 0.35, 0.8}, {0, 0, 1, 1}), 0.75, 1e-15);
}

TEST(MetricFormulaTest, AConstantColumnHasNoValue) {
  EXPECT_FALSE(value_of(MetricFormula::kPearson, rows({1, 1, 1}, {1, 2, 3})).has_value());
  EXPECT_FALSE(value_of(MetricFormula::kR2, rows({1, 2, 3}, {4, 4, 4})).has_value());
  EXPECT_FALSE(value_of(MetricFormula::kAuc, rows({1, 2, 3}, {1, 1, 1})).has_value());
  EXPECT_FALSE(value_of(MetricFormula::kRmse, {}).has_value());
}

// Single precision with sums of plain products, as a short program would do it.
TEST(MetricFormulaTest, ACorrelationInSinglePrecisionLiesWithinTheBound) {
  std::vector<double> x;
  std::vector<double> y;
  for (int i = 0; i < 500; ++i) {
    x.push_back(std::sin(i) + 3.0);
    y.push_back(std::sin(i + 0.5) + 2.0);
  }
  float sx = 0;
  float sy = 0;
  float sxx = 0;
  float syy = 0;
  float sxy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto a = static_cast<float>(x[i]);
    const auto b = static_cast<float>(y[i]);
    x[i] = a;
    y[i] = b;
    sx += a;
    sy += b;
    sxx += a * a;
    syy += b * b;
    sxy += a * b;
  }
  const auto n = static_cast<float>(x.size());
  const float r = (sxy - sx * sy / n) / std::sqrt((sxx - sx * sx / n) * (syy - sy * sy / n));
  const auto value = value_of(MetricFormula::kPearson, rows(x, y));
  EXPECT_TRUE(value->is(r)) << value->value << " " << r;
  EXPECT_FALSE(value->is(r + 0.05));
}

/// Two ranks report `value` of samples that the second one has repeated.
LawResult reported(MetricFormula formula, double value) {
  const std::vector<double> x = {1, 2, 3, 4, 5};
  const std::vector<double> y = {2, 1, 4, 3, 5};
  const std::vector<std::vector<std::int64_t>> ids = {{0, 1, 2}, {3, 4, 0}};
  EventStream stream(2);
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    const std::vector<std::int64_t>& own = ids[static_cast<std::size_t>(rank)];
    std::vector<double> parts;
    for (const std::int64_t id : own) {
      parts.push_back(x[static_cast<std::size_t>(id)]);
      parts.push_back(y[static_cast<std::size_t>(id)]);
    }
    stream.add(rank, PhaseEvent{PhaseKind::kEval});
    stream.add(rank, SampleEvent{.split = stream.name("eval"), .ids = own});
    stream.add(rank,
               MetricEvent{.name = stream.name("correlation"),
                           .value = value,
                           .parts = parts,
                           .formula = formula});
  }
  return check("metric-true", stream);
}

TEST(MetricFormulaTest, ACorrelationIsThatOfOneProcessOverDifferentSamples) {
  // Sums of products about the means: 8 / sqrt(10 * 10).
  EXPECT_EQ(reported(MetricFormula::kPearson, 0.8).verdict, Verdict::kHolds);
}

TEST(MetricFormulaTest, AMeanOfCorrelationsIsNamed) {
  // Ranks: x {1, 2, 3}, y {2, 1, 4}: 2 / sqrt(2 * 14/3); x {4, 5, 1}, y {3, 5, 2}:
  // 17/3 / sqrt(26/3 * 14/3).
  const double first = 2.0 / std::sqrt(2.0 * 14.0 / 3.0);
  const double second = (17.0 / 3.0) / std::sqrt(26.0 / 3.0 * 14.0 / 3.0);
  const LawResult of_means = reported(MetricFormula::kPearson, (first + second) / 2.0);
  ASSERT_EQ(of_means.findings.size(), 1U);
  EXPECT_EQ(id_of(of_means.findings[0].cause), "prereduced-metric");
  const LawResult local = reported(MetricFormula::kPearson, first);
  ASSERT_EQ(local.findings.size(), 1U);
  EXPECT_EQ(id_of(local.findings[0].cause), "local-metric-logged");
  EXPECT_EQ(local.findings[0].ranks, (std::vector<Rank>{Rank{0}, Rank{1}}));
}

TEST(MetricFormulaTest, RepeatedSamplesInACorrelationAreNamed) {
  // x {1, 2, 3, 4, 5, 1}, y {2, 1, 4, 3, 5, 2}: 29/3 / sqrt(40/3 * 65/6).
  const double repeated = (29.0 / 3.0) / std::sqrt(40.0 / 3.0 * 65.0 / 6.0);
  const LawResult result = reported(MetricFormula::kPearson, repeated);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(id_of(result.findings[0].cause), "pad-duplicates-eval");
}

}  // namespace
}  // namespace lockstep
