#include "lockstep/harness/certify/detail/weigh.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

namespace lockstep {
namespace {

/// One sample of a window, as a rank consumed it.
struct SampleUse {
  std::int32_t rank = 0;
  std::int64_t micro = 0;
  std::string site;
  ProbedSample sample;
  std::int64_t n_uses = 1;  ///< How often this rank consumes it in this window.
};

/// The window of all ranks.
struct WholeWindow {
  std::vector<const RankWindow*> parts;  ///< By rank; null for ranks that have none.
  std::vector<SampleUse> uses;           ///< By rank, then micro-step, then place in the batch.
};

/// Samples of a window, in samples or tokens.
struct Counts {
  std::int64_t n_samples = 0;
  std::int64_t n_tokens = 0;
  std::vector<std::int64_t> by_rank;  ///< Samples.
};

std::vector<SampleUse> uses_of(const ProbedRun& run, const WholeWindow& window) {
  std::vector<SampleUse> uses;
  for (std::size_t r = 0; r < window.parts.size(); ++r) {
    if (window.parts[r] == nullptr) continue;
    const auto rank = static_cast<std::int32_t>(r);
    std::map<std::int64_t, std::int64_t> times;
    const std::size_t first = uses.size();
    for (std::size_t m = 0; m < window.parts[r]->micros.size(); ++m) {
      const ProbedMicro& micro = window.parts[r]->micros[m];
      for (const std::int64_t id : micro.ids) {
        const ProbedSample sample = run.sample(rank, id);
        ++times[sample.column];
        uses.push_back({.rank = rank,
                        .micro = static_cast<std::int64_t>(m),
                        .site = micro.site,
                        .sample = sample});
      }
    }
    for (std::size_t i = first; i < uses.size(); ++i) uses[i].n_uses = times[uses[i].sample.column];
  }
  return uses;
}

WholeWindow window_at(const ProbedRun& run, std::size_t index) {
  WholeWindow window;
  for (const std::vector<RankWindow>& windows : run.ranks) {
    window.parts.push_back(index < windows.size() ? &windows[index] : nullptr);
  }
  window.uses = uses_of(run, window);
  return window;
}

Counts counts_of(const WholeWindow& window) {
  Counts counts;
  counts.by_rank.resize(window.parts.size());
  for (const SampleUse& use : window.uses) {
    ++counts.n_samples;
    counts.n_tokens += use.sample.n_tokens;
    ++counts.by_rank[static_cast<std::size_t>(use.rank)];
  }
  return counts;
}

/// What the objective gives a sample of `rank`; a token of it, if the objective counts tokens.
Fraction asked_weight(const Objective& objective, const Counts& counts, std::int32_t rank) {
  const auto r = static_cast<std::size_t>(rank);
  const auto n_ranks = static_cast<std::int64_t>(counts.by_rank.size());
  switch (objective.kind) {
    case ObjectiveKind::kSampleMean:
      return {1, counts.n_samples};
    case ObjectiveKind::kTokenMean:
      return {1, std::max<std::int64_t>(counts.n_tokens, 1)};
    case ObjectiveKind::kSum:
      return Fraction(1);
    case ObjectiveKind::kRankMean:
      return {1, n_ranks * counts.by_rank[r]};
    case ObjectiveKind::kRankWeights:
      break;
  }
  return objective.by_rank[r] / Fraction(counts.by_rank[r]);
}

std::int64_t micros_of(const WholeWindow& window) {
  std::size_t most = 0;
  for (const RankWindow* part : window.parts) {
    if (part != nullptr) most = std::max(most, part->micros.size());
  }
  return static_cast<std::int64_t>(most);
}

/// Weighs one window.
class WindowScale {
 public:
  WindowScale(const WholeWindow& window, const Objective& objective)
      : window_(window), objective_(objective), counts_(counts_of(window)) {
    const auto n_ranks = static_cast<double>(window.parts.size());
    const auto n_micros = static_cast<double>(micros_of(window));
    const double n_roundings = (n_micros + 1.0) * (n_ranks + 16.0);
    relative_error_ = n_roundings * std::numeric_limits<double>::epsilon() / 2.0;
  }

  /// False: a weight is not a fraction.
  bool weigh(WindowWeights& result) {
    const RankWindow& first = first_part();
    result.epoch = first.epoch;
    result.step = first.step;
    for (std::size_t r = 0; r < window_.parts.size(); ++r) {
      const RankWindow* part = window_.parts[r];
      if (part == nullptr) continue;
      const auto rank = static_cast<std::int32_t>(r);
      if (!part->stepped && !part->micros.empty()) result.unused_ranks.push_back(rank);
      if (part->stepped && part->used != first.used) result.other_ranks.push_back(rank);
    }
    result.stepped = result.unused_ranks.empty();
    result.left_over = has_left_over(first);
    return add_rows(first, result);
  }

 private:
  /// Of the first rank that stepped, or else the first that is there.
  const RankWindow& first_part() const {
    const RankWindow* found = nullptr;
    for (const RankWindow* part : window_.parts) {
      if (part == nullptr) continue;
      if (part->stepped) return *part;
      if (found == nullptr) found = part;
    }
    return *found;
  }

  bool has_left_over(const RankWindow& part) const {
    std::vector<bool> own(part.used.size());
    for (const SampleUse& use : window_.uses) {
      const auto column = static_cast<std::size_t>(use.sample.column);
      if (column < own.size()) own[column] = true;
    }
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (!own[i] && part.used[i] != 0.0) return true;
    }
    return false;
  }

  /// The weight of one use of a sample.
  std::optional<Fraction> weight_of(const RankWindow& part, const SampleUse& use) const {
    const auto column = static_cast<std::size_t>(use.sample.column);
    if (!part.stepped || column >= part.used.size()) return Fraction();
    const double value = part.used[column];
    if (value == 0.0) return Fraction();
    if (!std::isfinite(value)) return std::nullopt;
    const auto whole = nearest_fraction(value, std::abs(value) * relative_error_);
    if (!whole) return std::nullopt;
    return *whole / Fraction(use.n_uses);
  }

  bool add_rows(const RankWindow& part, WindowWeights& result) {
    result.used = Fraction();
    result.one_process = Fraction();
    std::int64_t number = 0;
    for (const SampleUse& use : window_.uses) {
      ++number;
      const auto weight = weight_of(part, use);
      if (!weight) {
        result.rows.push_back({.rank = use.rank,
                               .micro = use.micro,
                               .n_samples = 1,
                               .n_tokens = use.sample.n_tokens,
                               .site = use.site,
                               .is_fraction = false});
        return false;
      }
      const std::int64_t n_tokens = use.sample.n_tokens;
      const bool by_token = objective_.counts_tokens() && n_tokens > 0;
      Fraction asked = asked_weight(objective_, counts_, use.rank);
      if (objective_.counts_tokens() && n_tokens == 0) asked = Fraction();
      const std::int64_t unit = by_token ? n_tokens : 1;
      count({.rank = use.rank,
             .micro = use.micro,
             .n_samples = 1,
             .n_tokens = n_tokens,
             .weight = *weight / Fraction(unit),
             .asked = asked,
             .site = use.site},
            result.rows);
      add_term(*weight, number, result.used);
      add_term(asked * Fraction(unit), number, result.one_process);
    }
    return true;
  }

  static void add_term(const Fraction& weight, std::int64_t number, std::optional<Fraction>& sum) {
    if (sum) sum = sum_if_it_fits(*sum, weight * Fraction(number));
  }

  /// Adds a sample to the row of its like.
  static void count(WeightRow use, std::vector<WeightRow>& rows) {
    for (WeightRow& row : rows) {
      const bool alike = row.rank == use.rank && row.micro == use.micro &&
                         row.weight == use.weight && row.asked == use.asked;
      if (!alike) continue;
      row.n_samples += use.n_samples;
      row.n_tokens += use.n_tokens;
      return;
    }
    rows.push_back(std::move(use));
  }

  const WholeWindow& window_;
  const Objective& objective_;
  Counts counts_;
  double relative_error_ = 0.0;
};

}  // namespace

bool WindowWeights::is_right() const {
  return stepped && other_ranks.empty() && !left_over &&
         std::all_of(rows.begin(), rows.end(), [](const WeightRow& row) { return row.is_right(); });
}

std::int64_t WindowWeights::n_micros() const {
  std::int64_t most = 0;
  for (const WeightRow& row : rows) most = std::max(most, row.micro + 1);
  return most;
}

std::int64_t WindowWeights::n_ranks() const {
  std::set<std::int32_t> ranks;
  for (const WeightRow& row : rows) ranks.insert(row.rank);
  return static_cast<std::int64_t>(ranks.size());
}

Certificate weigh(const ProbedRun& run, const Objective& objective) {
  Certificate certificate;
  certificate.n_ranks = static_cast<std::int32_t>(run.ranks.size());
  certificate.objective = objective;
  std::size_t n_windows = 0;
  for (const std::vector<RankWindow>& windows : run.ranks) {
    n_windows = std::max(n_windows, windows.size());
  }
  for (std::size_t i = 0; i < n_windows; ++i) {
    const WholeWindow window = window_at(run, i);
    WindowWeights weights;
    const bool exact = WindowScale(window, objective).weigh(weights);
    certificate.windows.push_back(std::move(weights));
    if (exact) continue;
    certificate.faults.push_back({.deviation = Deviation::kNotAFraction,
                                  .place = {i, certificate.windows.back().rows.size() - 1}});
    return certificate;
  }
  return certificate;
}

}  // namespace lockstep
