#include "lockstep/harness/rounding/suspicion.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <numeric>

namespace lockstep {

namespace {

std::vector<std::int32_t> all_ranks(std::int32_t n) {
  std::vector<std::int32_t> ranks(static_cast<std::size_t>(n));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

Suspicion::Suspicion(std::int32_t n, const Arithmetic& arithmetic, const Combination& combination)
    : n_(n),
      arithmetic_(arithmetic),
      combination_(combination),
      left_out_(all_ranks(n)),
      added_twice_(all_ranks(n)),
      low_(-std::numeric_limits<double>::infinity()),
      high_(std::numeric_limits<double>::infinity()) {}

// The mistake is made before a mean divides by n, which it goes on to do.
bool Suspicion::fits(std::span<const double> contributions,
                     std::int32_t rank,
                     double times,
                     double result) const {
  std::vector<double> changed(contributions.begin(), contributions.end());
  const double own = changed[static_cast<std::size_t>(rank)];
  changed[static_cast<std::size_t>(rank)] = times == 0.0 ? 0.0 : own;
  if (times == 2.0) changed.push_back(own);
  const Combination after{ResultKind::kScaledSum, combination_.factor(contributions.size())};
  return is_possible(
      changed, arithmetic_, combination_.kind == ResultKind::kSum ? combination_ : after, result);
}

void Suspicion::narrow_factor(std::span<const double> contributions, double result) {
  const Combination scaled{ResultKind::kScaledSum, combination_.factor(contributions.size())};
  const SumBound bound = bound_of(contributions, arithmetic_, scaled);
  const double size = std::abs(bound.exact);
  // The factor rounds even where the sums do not.
  if (size <= bound.general || !std::isfinite(result)) return;
  // result is within c radius of c exact.
  const bool positive = (bound.exact > 0.0) == (result > 0.0);
  const double least = std::abs(result) / (size + bound.general);
  const double most = std::abs(result) / (size - bound.general);
  low_ = std::max(low_, positive ? least : -most);
  high_ = std::min(high_, positive ? most : -least);
  ++n_informative_;
}

void Suspicion::add(std::span<const double> contributions, double result) {
  ++n_elements_;
  std::erase_if(left_out_,
                [&](std::int32_t rank) { return !fits(contributions, rank, 0.0, result); });
  std::erase_if(added_twice_,
                [&](std::int32_t rank) { return !fits(contributions, rank, 2.0, result); });
  narrow_factor(contributions, result);
}

std::string Suspicion::factor_text() const {
  if (n_informative_ < 2 || low_ > high_) return {};
  const auto n = static_cast<double>(n_);
  const auto holds = [&](double factor) { return low_ <= factor && factor <= high_; };
  if (combination_.kind == ResultKind::kSum && holds(1.0 / n)) {
    return "as if it were the mean, not the sum (--mean)";
  }
  if (combination_.kind == ResultKind::kMean && holds(n))
    return "as if it were the sum, not the mean";
  return fmt::format("as if it had been multiplied by {:.6g}", (low_ + high_) / 2.0);
}

std::string Suspicion::text() const {
  if (std::string factor = factor_text(); !factor.empty()) return factor;
  if (left_out_.size() + added_twice_.size() != 1) return {};
  const bool lost = !left_out_.empty();
  return fmt::format("as if the contribution of rank {} had been {}",
                     lost ? left_out_.front() : added_twice_.front(),
                     lost ? "left out" : "added twice");
}

}  // namespace lockstep
