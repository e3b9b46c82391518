#include "lockstep/laws/rules/metric_formula.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

namespace lockstep::laws {

namespace {

constexpr double kUnit = 0x1p-24;

/// The two columns of the rows.
struct Pairs {
  std::vector<double> x;
  std::vector<double> y;
};

Pairs pairs_of(std::span<const double> rows) {
  Pairs pairs;
  for (std::size_t i = 0; i + 1 < rows.size(); i += 2) {
    pairs.x.push_back(rows[i]);
    pairs.y.push_back(rows[i + 1]);
  }
  return pairs;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// Sums of products, about the means and about zero.
struct Moments {
  double xx = 0.0, yy = 0.0, xy = 0.0;
  double raw_xx = 0.0, raw_yy = 0.0;
};

Moments moments_of(const Pairs& pairs) {
  const double mean_x = mean(pairs.x);
  const double mean_y = mean(pairs.y);
  Moments sums;
  for (std::size_t i = 0; i < pairs.x.size(); ++i) {
    const double x = pairs.x[i];
    const double y = pairs.y[i];
    sums.xx += (x - mean_x) * (x - mean_x);
    sums.yy += (y - mean_y) * (y - mean_y);
    sums.xy += (x - mean_x) * (y - mean_y);
    sums.raw_xx += x * x;
    sums.raw_yy += y * y;
  }
  return sums;
}

double rounding(std::size_t n) { return (static_cast<double>(n) + 4.0) * kUnit; }

std::optional<MetricValue> pearson(const Pairs& pairs) {
  const Moments sums = moments_of(pairs);
  if (!(sums.xx > 0.0) || !(sums.yy > 0.0)) return std::nullopt;
  const double scale = std::sqrt(sums.xx * sums.yy);
  const double r = sums.xy / scale;
  // Each of the three sums may be off by twice its rounding: products, and the means' product.
  const double off = 2.0 * rounding(pairs.x.size());
  const double of_xy = off * std::sqrt(sums.raw_xx * sums.raw_yy) / scale;
  const double of_scale = off * (sums.raw_xx / sums.xx + sums.raw_yy / sums.yy) / 2.0;
  return MetricValue{r, of_xy + std::abs(r) * of_scale + 4.0 * kUnit};
}

/// From 1; equal values share the mean of their places.
std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return values[a] < values[b];
  });
  std::vector<double> ranks(values.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t end = first + 1;
    while (end < order.size() && values[order[end]] == values[order[first]]) ++end;
    const double shared = static_cast<double>(first + 1 + end) / 2.0;
    for (; first < end; ++first) ranks[order[first]] = shared;
  }
  return ranks;
}

std::optional<MetricValue> r2(const Pairs& pairs) {
  const Moments sums = moments_of(pairs);
  if (!(sums.yy > 0.0)) return std::nullopt;
  double residual = 0.0;
  double size = 0.0;
  for (std::size_t i = 0; i < pairs.x.size(); ++i) {
    const double difference = pairs.y[i] - pairs.x[i];
    residual += difference * difference;
    size += std::abs(difference) * (std::abs(pairs.x[i]) + std::abs(pairs.y[i]));
  }
  const double off = 2.0 * rounding(pairs.x.size());
  const double of_residual = off * (residual + size) / sums.yy;
  const double of_total = off * sums.raw_yy / sums.yy * residual / sums.yy;
  return MetricValue{1.0 - residual / sums.yy, of_residual + of_total + 4.0 * kUnit};
}

std::optional<MetricValue> rmse(const Pairs& pairs) {
  if (pairs.x.empty()) return std::nullopt;
  const auto n = static_cast<double>(pairs.x.size());
  double squares = 0.0;
  double size = 0.0;
  for (std::size_t i = 0; i < pairs.x.size(); ++i) {
    const double difference = pairs.y[i] - pairs.x[i];
    squares += difference * difference;
    size += std::abs(difference) * (std::abs(pairs.x[i]) + std::abs(pairs.y[i]));
  }
  const double value = std::sqrt(squares / n);
  const double of_square = (rounding(pairs.x.size()) * squares + 2.0 * kUnit * size) / n;
  return MetricValue{value, value > 0.0 ? of_square / value : std::sqrt(of_square)};
}

std::optional<MetricValue> auc(const Pairs& pairs) {
  const std::vector<double> ranks = ranks_of(pairs.x);
  double sum = 0.0;
  double n_ones = 0.0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (!(pairs.y[i] > 0.5)) continue;
    sum += ranks[i];
    n_ones += 1.0;
  }
  const double n_zeros = static_cast<double>(ranks.size()) - n_ones;
  if (n_ones == 0.0 || n_zeros == 0.0) return std::nullopt;
  const double value = (sum - n_ones * (n_ones + 1.0) / 2.0) / (n_ones * n_zeros);
  return MetricValue{value, rounding(ranks.size())};
}

}  // namespace

bool MetricValue::is(double other) const { return std::abs(other - value) <= bound; }

std::size_t columns_of(MetricFormula formula) { return formula == MetricFormula::kNone ? 1 : 2; }

std::optional<MetricValue> value_of(MetricFormula formula, std::span<const double> rows) {
  const Pairs pairs = pairs_of(rows);
  if (pairs.x.empty()) return std::nullopt;
  switch (formula) {
    case MetricFormula::kNone:
      break;
    case MetricFormula::kPearson:
      return pearson(pairs);
    case MetricFormula::kSpearman:
      return pearson({ranks_of(pairs.x), ranks_of(pairs.y)});
    case MetricFormula::kR2:
      return r2(pairs);
    case MetricFormula::kRmse:
      return rmse(pairs);
    case MetricFormula::kAuc:
      return auc(pairs);
  }
  return std::nullopt;
}

}  // namespace lockstep::laws
