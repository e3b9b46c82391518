#include "lockstep/harness/rounding/order_search.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <utility>

namespace lockstep {

namespace {

std::vector<double> arranged(std::span<const double> contributions, const SumOrder& order) {
  const std::size_t n = contributions.size();
  std::vector<double> values(n);
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t step = order.shape == SumShape::kBackwardChain ? n - i : i;
    values[i] = contributions[(static_cast<std::size_t>(order.first) + step) % n];
  }
  return values;
}

double add_chain(const std::vector<double>& values, const FloatFormat& format) {
  double sum = values.front();
  for (std::size_t i = 1; i < values.size(); ++i) sum = format.add(sum, values[i]);
  return sum;
}

/// Adjacent pairs, then pairs of pairs; an odd one is carried.
double add_neighbours(std::vector<double> values, const FloatFormat& format) {
  while (values.size() > 1) {
    std::vector<double> next;
    for (std::size_t i = 0; i + 1 < values.size(); i += 2) {
      next.push_back(format.add(values[i], values[i + 1]));
    }
    if (values.size() % 2 == 1) next.push_back(values.back());
    values = std::move(next);
  }
  return values.front();
}

/// Value i with value i + half, until one is left; of an odd number the last is carried.
double add_halves(std::vector<double> values, const FloatFormat& format) {
  while (values.size() > 1) {
    const std::size_t half = values.size() / 2;
    std::vector<double> next;
    for (std::size_t i = 0; i < half; ++i) next.push_back(format.add(values[i], values[i + half]));
    if (values.size() % 2 == 1) next.push_back(values.back());
    values = std::move(next);
  }
  return values.front();
}

std::size_t power_of_two_below(std::size_t n) {
  std::size_t power = 1;
  while (2 * power <= n) power *= 2;
  return power;
}

/// The pairs that are too many for a power of two are added first.
double add_folded(const std::vector<double>& values, const FloatFormat& format) {
  const std::size_t n_pairs = values.size() - power_of_two_below(values.size());
  std::vector<double> folded;
  for (std::size_t i = 0; i < n_pairs; ++i) {
    folded.push_back(format.add(values[2 * i], values[2 * i + 1]));
  }
  folded.insert(
      folded.end(), values.begin() + static_cast<std::ptrdiff_t>(2 * n_pairs), values.end());
  return add_neighbours(std::move(folded), format);
}

/// The largest power of two first, then the next one of those left; sums are added from the last.
double add_blocks(const std::vector<double>& values, const FloatFormat& format) {
  std::vector<double> sums;
  for (std::size_t begin = 0; begin < values.size();) {
    const std::size_t size = power_of_two_below(values.size() - begin);
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(begin);
    sums.push_back(add_neighbours({first, first + static_cast<std::ptrdiff_t>(size)}, format));
    begin += size;
  }
  double sum = sums.back();
  for (std::size_t i = sums.size() - 1; i > 0; --i) sum = format.add(sums[i - 1], sum);
  return sum;
}

double sum_of(std::vector<double> values, const FloatFormat& format, SumShape shape) {
  switch (shape) {
    case SumShape::kChain:
    case SumShape::kBackwardChain:
      return add_chain(values, format);
    case SumShape::kNeighbours:
      return add_neighbours(std::move(values), format);
    case SumShape::kHalves:
      return add_halves(std::move(values), format);
    case SumShape::kFoldedNeighbours:
      return add_folded(values, format);
    case SumShape::kBlocks:
      return add_blocks(values, format);
  }
  return 0.0;
}

std::vector<MeanStep> means_of(ResultKind kind) {
  switch (kind) {
    case ResultKind::kSum:
      return {MeanStep::kNone};
    case ResultKind::kMean:
      return {MeanStep::kDividedBefore,
              MeanStep::kDividedAfter,
              MeanStep::kMultipliedBefore,
              MeanStep::kMultipliedAfter};
    case ResultKind::kScaledSum:
      return {MeanStep::kMultipliedBefore, MeanStep::kMultipliedAfter};
  }
  return {};
}

}  // namespace

std::string text_of(const SumOrder& order) {
  std::string text = fmt::format("{} from rank {}", name_of(order.shape), order.first);
  if (order.mean != MeanStep::kNone) text += fmt::format(", {}", name_of(order.mean));
  return text;
}

double add_in_order(std::span<const double> contributions,
                    const FloatFormat& format,
                    const SumOrder& order,
                    const Combination& reduction) {
  std::vector<double> values = arranged(contributions, order);
  const auto n = static_cast<double>(values.size());
  const double reciprocal = reduction.kind == ResultKind::kScaledSum ? format.round(reduction.given)
                                                                     : format.divide(1.0, n);
  for (double& value : values) {
    if (order.mean == MeanStep::kDividedBefore) value = format.divide(value, n);
    if (order.mean == MeanStep::kMultipliedBefore) value = format.multiply(value, reciprocal);
  }
  const double sum = sum_of(std::move(values), format, order.shape);
  if (order.mean == MeanStep::kDividedAfter) return format.divide(sum, n);
  if (order.mean == MeanStep::kMultipliedAfter) return format.multiply(sum, reciprocal);
  return sum;
}

std::vector<SumOrder> orders_of(std::int32_t n, const Combination& reduction) {
  std::vector<SumOrder> orders;
  for (const MeanStep mean : means_of(reduction.kind)) {
    for (const SumShape shape : {SumShape::kChain,
                                 SumShape::kNeighbours,
                                 SumShape::kHalves,
                                 SumShape::kBackwardChain,
                                 SumShape::kFoldedNeighbours,
                                 SumShape::kBlocks}) {
      const bool same_without = (n & (n - 1)) == 0 && shape >= SumShape::kFoldedNeighbours;
      if (same_without) continue;  // Of a power of two: pairs of neighbours.
      for (std::int32_t first = 0; first < n; ++first) orders.push_back({shape, first, mean});
    }
  }
  return orders;
}

SumOrderSearch::SumOrderSearch(std::int32_t n,
                               const FloatFormat& format,
                               const Combination& reduction)
    : format_(format), reduction_(reduction), orders_(orders_of(n, reduction)) {}

// The zeros are one number, and so are all NaNs.
bool SumOrderSearch::fits(std::span<const double> contributions,
                          const SumOrder& order,
                          double result) const {
  const double sum = add_in_order(contributions, format_, order, reduction_);
  return sum == result || (std::isnan(sum) && std::isnan(result));
}

void SumOrderSearch::add(std::span<const double> contributions, double result) {
  const std::int64_t element = n_elements_++;
  if (!explained_) return;
  const auto fits_here = [&](const SumOrder& order) { return fits(contributions, order, result); };
  std::vector<SumOrder> still;
  std::ranges::copy_if(fitting_, std::back_inserter(still), fits_here);
  if (!still.empty()) {
    fitting_ = std::move(still);
    runs_.back().order = fitting_.front();
    runs_.back().end = element + 1;
    return;
  }
  fitting_.clear();
  std::ranges::copy_if(orders_, std::back_inserter(fitting_), fits_here);
  explained_ = !fitting_.empty();
  if (explained_) runs_.push_back({fitting_.front(), element, element + 1});
}

std::optional<std::vector<OrderRun>> SumOrderSearch::runs() const {
  if (!explained_) return std::nullopt;
  return runs_;
}

}  // namespace lockstep
