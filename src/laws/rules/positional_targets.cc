#include "lockstep/laws/rules/detail/losses/positional_targets.h"

#include <algorithm>
#include <cmath>
#include <fmt/core.h>
#include <limits>

#include "lockstep/laws/rules/detail/rows/row_passes.h"
#include "lockstep/tensor/digest.h"
#include "lockstep/tensor/dtype.h"

namespace lockstep::laws {

namespace {

constexpr std::size_t kMostPasses = 128;
/// Of programs in which no rank is favoured, one in a million is advised.
constexpr double kUnlikelyFavour = 1e-6;

/// The chance that one rank of `n_ranks` that are all alike has the smallest loss in at least `k` of `n` passes: the
/// tail of a binomial distribution.
double chance_of_favour(std::int64_t k, std::int64_t n, std::int32_t n_ranks) {
  const double p = 1.0 / n_ranks;
  double log_term = static_cast<double>(n) * std::log1p(-p);  // Of none; then of one more each.
  double tail = k == 0 ? std::exp(log_term) : 0.0;
  for (std::int64_t i = 1; i <= n; ++i) {
    log_term += std::log(static_cast<double>(n - i + 1) / static_cast<double>(i));
    log_term += std::log(p) - std::log1p(-p);
    if (i >= k) tail += std::exp(log_term);
  }
  return tail;
}

}  // namespace

void PositionalTargets::on_exchange(const Event& event, const ExchangeEvent& exchange) {
  if (exchange.call != CollectiveOp::kAllGather || exchange.dropped) return;
  gathering_.insert(wrapper_of(event.at));
}

PositionalTargets::ByRank* PositionalTargets::passes_of(const Event& event) {
  const WrapperKey wrapper = wrapper_of(event.at);
  if (!gathering_.contains(wrapper)) return nullptr;
  std::map<Pass, ByRank>& passes = seen_[wrapper];
  const Pass pass{event.at.sync, event.at.micro};
  if (passes.size() >= kMostPasses && !passes.contains(pass)) return nullptr;
  return &passes[pass];
}

void PositionalTargets::on_input(const Event& event,
                                 const InputEvent& input,
                                 const NameTable& names) {
  if (is_floating(input.dtype) || input.n_elems != 1) return;
  if (names.text(input.argument) != kTargetArgument || !are_distinct(input.rows)) return;
  ByRank* const pass = passes_of(event);
  if (pass != nullptr)
    (*pass)[to_int(event.rank)].targets =
        sm64(input.rows.data(), std::ssize(input.rows), DType::kI64);
}

void PositionalTargets::on_loss(const Event& event, const LossEvent& loss) {
  ByRank* const pass = loss.grad ? passes_of(event) : nullptr;
  if (pass == nullptr) return;
  Seen& seen = (*pass)[to_int(event.rank)];
  if (seen.has_loss) return;
  seen.loss = loss.value;
  seen.has_loss = true;
}

PositionalTargets::Tally PositionalTargets::tally_of(const std::map<Pass, ByRank>& passes,
                                                     std::int32_t n_ranks) {
  Tally tally;
  for (const auto& [pass, by_rank] : passes) {
    const bool whole =
        std::ssize(by_rank) == n_ranks && std::ranges::all_of(by_rank, [](const auto& entry) {
          return entry.second.has_loss && entry.second.targets != 0;
        });
    if (!whole) continue;
    const Seen& first = by_rank.begin()->second;
    const bool same = std::ranges::all_of(
        by_rank, [&](const auto& entry) { return entry.second.targets == first.targets; });
    if (!same) {
      ++tally.n_other;
      continue;
    }
    double smallest_of_others = std::numeric_limits<double>::infinity();
    for (const auto& [rank, seen] : by_rank) {
      if (rank != by_rank.begin()->first)
        smallest_of_others = std::min(smallest_of_others, seen.loss);
    }
    ++tally.n;
    if (first.loss < smallest_of_others) ++tally.n_smallest;
  }
  return tally;
}

std::vector<Advice> PositionalTargets::advice(const Wrappers& wrappers) const {
  for (const auto& [wrapper, passes] : seen_) {
    const WrapEvent* const wrap = wrappers.find(wrapper);
    if (wrap == nullptr || wrap->group != 0 || wrap->n_ranks < 2) continue;
    const Tally tally = tally_of(passes, wrap->n_ranks);
    if (tally.n == 0 || tally.n_other > 0) continue;
    if (chance_of_favour(tally.n_smallest, tally.n, wrap->n_ranks) > kUnlikelyFavour) continue;
    return {{"A-targets-not-offset",
             fmt::format("the loss compares each rank's rows with rows gathered from all {} ranks, "
                         "but all ranks have the same integer targets. Rank 0's loss was the "
                         "smallest in {} of {} backward passes. If a target is the index of a "
                         "gathered row, add rank * batch_size to it.",
                         wrap->n_ranks,
                         tally.n_smallest,
                         tally.n)}};
  }
  return {};
}

}  // namespace lockstep::laws
