#include "lockstep/laws/rules/detail/losses/uneven_means.h"

#include <algorithm>
#include <fmt/core.h>

namespace lockstep::laws {

namespace {

constexpr std::size_t kMostOpen = 4096;
constexpr std::int64_t kFewestPasses = 4;
constexpr double kUneven = 1.1;  // Times as many terms: a tenth more or less is how batches end.

}  // namespace

bool UnevenMeans::is_read(const LossEvent& loss) {
  const bool is_mean = loss.reduction != LossReduction::kSum && loss.n_terms == 0;
  return loss.grad && is_mean && loss.denominator > 0.0;
}

void UnevenMeans::on_loss(const Event& event, const LossEvent& loss, std::int32_t n_averaged) {
  if (!is_read(loss) || n_averaged < 2) return;
  const Place place{wrapper_of(event.at), event.at.sync, event.at.micro};
  const auto at = open_.try_emplace(place).first;
  Pass& pass = at->second;
  if (pass.n_ranks == 0 || loss.denominator < pass.fewest) {
    pass.fewest = loss.denominator;
    pass.rank_of_fewest = to_int(event.rank);
  }
  if (pass.n_ranks == 0 || loss.denominator > pass.most) {
    pass.most = loss.denominator;
    pass.rank_of_most = to_int(event.rank);
  }
  if (++pass.n_ranks == n_averaged) {
    Passes& all = passes_[place.wrapper];
    ++all.n;
    const double ratio = pass.most / pass.fewest;
    all.largest_ratio = std::max(all.largest_ratio, ratio);
    if (ratio > kUneven && all.n_uneven++ == 0) all.first = pass;
    open_.erase(at);
  } else if (open_.size() > kMostOpen) {
    open_.erase(open_.begin());
  }
}

std::vector<Advice> UnevenMeans::advice() const {
  std::vector<Advice> advice;
  for (const auto& [wrapper, all] : passes_) {
    if (all.n < kFewestPasses || 4 * all.n_uneven < 3 * all.n) continue;
    advice.push_back(
        {"A-uneven-means",
         fmt::format(
             "in {} of {} backward passes the ranks' mean losses have different numbers of terms "
             "(first: {:g} on rank {}, {:g} on rank {}) but equal weights. A term counts up to "
             "{:.3g} times as much on one rank as on another. For a mean over all terms, use "
             "loss.sum() * world_size / total_terms, unless ranks should count equally.",
             all.n_uneven,
             all.n,
             all.first.fewest,
             all.first.rank_of_fewest,
             all.first.most,
             all.first.rank_of_most,
             all.largest_ratio)});
  }
  return advice;
}

}  // namespace lockstep::laws
