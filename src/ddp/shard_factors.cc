#include "lockstep/ddp/shard_factors.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep {

namespace {

constexpr std::size_t kMostElements = 4096;
constexpr std::size_t kFewestElements = 16;  // That are not multiples of each other by chance.
constexpr int kMostSteps = 32;

/// The quotient of two numbers that single precision has rounded, and a product of it.
constexpr double kRounding = 0x1p-22;

/// The one number by which all elements were multiplied; nothing where there is none, or where any would fit.
std::optional<double> factor_between(std::span<const float> before, std::span<const float> after) {
  const auto largest =
      std::ranges::max_element(before, [](float a, float b) { return std::abs(a) < std::abs(b); });
  const double factor =
      double{after[static_cast<std::size_t>(largest - before.begin())]} / double{*largest};
  if (!(factor > 0.0) || !std::isfinite(factor)) return std::nullopt;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const double product = double{before[i]} * factor;
    const double allowed =
        kRounding * std::abs(product) + double{std::numeric_limits<float>::min()};
    if (!(std::abs(double{after[i]} - product) <= allowed)) return std::nullopt;
  }
  return factor;
}

/// A gradient of single precision, of no wrapper.
bool is_readable(const Variable& parameter) {
  if (parameter.state().wrapper >= 0 || parameter.state().sparse_grad) return false;
  return parameter.grad().dtype() == DType::kF32;
}

}  // namespace

void ShardFactors::on_whole(const OwnReductions::Sent& received) {
  if (!received.adds || received.n_elems % n_ranks_ != 0 || n_ranks_ < 2) return;
  if (!received.on_host || received.dtype != DType::kF32) return;
  const std::int64_t n_elems = received.n_elems / n_ranks_;
  hold(static_cast<const float*>(received.data) +
           n_elems * static_cast<std::int64_t>(to_index(rank_)),
       n_elems);
}

void ShardFactors::on_shard(const OwnReductions::Sent& received) {
  if (!received.on_host || received.dtype != DType::kF32) return;
  hold(static_cast<const float*>(received.data), received.n_elems);
}

void ShardFactors::hold(const float* first, std::int64_t n_elems) {
  if (n_looked_at_ >= kMostSteps) return;
  n_elems_ += n_elems;
  const std::size_t n = std::min(kMostElements - held_.size(), static_cast<std::size_t>(n_elems));
  held_.insert(held_.end(), first, first + n);
}

std::optional<double> ShardFactors::on_step(std::span<const Variable> parameters) {
  if (held_.empty()) return std::nullopt;
  std::int64_t n_elems = 0;
  std::vector<float> used;
  for (const Variable& parameter : parameters) {
    if (!parameter.has_grad()) continue;
    if (!is_readable(parameter)) return std::nullopt;
    const std::span<const float> grad = parameter.grad().read_span<float>();
    n_elems += std::ssize(grad);
    const auto part = grad.first(std::min(grad.size(), held_.size() - used.size()));
    used.insert(used.end(), part.begin(), part.end());
  }
  std::optional<double> factor;
  if (n_elems == n_elems_ && used.size() >= kFewestElements) factor = factor_between(held_, used);
  n_looked_at_ += factor.has_value() ? 1 : 0;
  n_elems_ = 0;
  held_.clear();
  return factor;
}

}  // namespace lockstep
