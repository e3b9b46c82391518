#include "lockstep/laws/rules/detail/in_step/part_factors.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "lockstep/base/text.h"
#include "lockstep/laws/report.h"

namespace lockstep::laws {

namespace {

/// Factors are measured on products that single precision has rounded, each off by 2^-24 at most; a program may round
/// twice.
constexpr double kRoundingOfFactors = 0x1p-21;

Finding factors_differ(const Event& event, const std::map<std::int32_t, double>& factors) {
  constexpr std::size_t kMostFactors = 4;
  Finding finding;
  finding.attempt = event.at.attempt;
  finding.event = "clip";
  finding.field = "factor";
  finding.step = event.at.opt;
  finding.cause = Cause::kClipOwnPart;
  finding.message = "the ranks multiplied their shards of the same gradients by different factors:";
  for (const auto& [rank, factor] : factors) {
    finding.ranks.push_back(Rank{rank});
    if (finding.ranks.size() > kMostFactors) continue;
    finding.message += (finding.ranks.size() == 1 ? " " : ", ") + exact(factor) + " on rank " +
                       std::to_string(rank);
  }
  if (finding.ranks.size() > kMostFactors) finding.message += ", ...";
  return finding;
}

}  // namespace

void PartFactors::on_clip(const Event& event, const ClipEvent& clip, RankRange who) {
  const Step step{event.at.attempt, event.at.opt};
  std::map<std::int32_t, double>& factors = open_[step];
  for (std::int32_t i = 0; i < who.n; ++i) factors[who.first + i] = clip.factor;
  if (std::ssize(factors) < n_ranks_) return;
  const std::map<std::int32_t, double> all = std::move(factors);
  open_.erase(step);
  n_checked_ += std::ssize(all) - 1;
  const auto [least, most] = std::ranges::minmax_element(
      all, [](const auto& a, const auto& b) { return a.second < b.second; });
  const double allowed =
      kRoundingOfFactors * std::max(std::abs(least->second), std::abs(most->second));
  if (most->second - least->second <= allowed) return;
  if (!reported_.insert(event.at.attempt).second) return;
  findings_.push_back(factors_differ(event, all));
}

}  // namespace lockstep::laws
