#include "lockstep/laws/rules/detail/rows/row_passes.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

namespace lockstep::laws {

namespace {

bool is_repeated(const RowList& own, std::size_t at) {
  return at > 0 && std::ranges::equal(own[at], own[at - 1]);
}

/// Whether any row was read by two ranks.
bool any_is_shared(const Forwards& forwards) {
  std::vector<std::pair<std::uint64_t, std::size_t>> readers;
  std::size_t n = 0;
  for (const RowList* own : forwards.by_rank) n += own->first(forwards.n).size();
  readers.reserve(n);
  for (std::size_t rank = 0; rank < forwards.by_rank.size(); ++rank) {
    for (const std::uint64_t row : forwards.by_rank[rank]->first(forwards.n)) {
      if (readers.empty() || readers.back() != std::pair(row, rank))
        readers.emplace_back(row, rank);
    }
  }
  std::ranges::sort(readers);
  return std::ranges::adjacent_find(readers, [](const auto& left, const auto& right) {
           return left.first == right.first && left.second != right.second;
         }) != readers.end();
}

/// One pass of all ranks, as far as it has come.
class RowPass {
 public:
  explicit RowPass(std::size_t n_ranks) : own_(n_ranks) {}

  /// Whether a rank would meet a row again that it has read in this pass.
  bool ends_with(const Forwards& forwards, std::size_t at) const {
    for (std::size_t rank = 0; rank < own_.size(); ++rank) {
      const RowList& own = *forwards.by_rank[rank];
      if (is_repeated(own, at)) continue;
      std::set<std::uint64_t> now;
      for (const std::uint64_t row : own[at]) {
        if (own_[rank].contains(row) || !now.insert(row).second) return true;
      }
    }
    return false;
  }

  void take(const Forwards& forwards, std::size_t at) {
    const std::int64_t n_before = n_shared_;
    std::set<std::uint64_t> now;
    for (std::size_t rank = 0; rank < own_.size(); ++rank) {
      const RowList& own = *forwards.by_rank[rank];
      if (is_repeated(own, at)) continue;
      for (const std::uint64_t row : own[at]) {
        own_[rank].insert(row);
        ++n_read_;
        if (!read_.contains(row)) {
          now.insert(row);
        } else {
          ++n_shared_;
          if (!first_) first_ = at;
        }
      }
    }
    read_.insert(now.begin(), now.end());
    if (now.empty()) return;
    until_last_ = {.n_read = n_read_, .n_shared = n_shared_, .n_early = n_before};
  }

  void add_to(SharedTally& tally) const {
    if (n_read_ == 0) return;
    if (tally.n_shared == 0 && first_) tally.first = *first_;
    tally.n_read += until_last_.n_read;
    tally.n_shared += until_last_.n_shared;
    tally.n_early += until_last_.n_early;
    ++tally.n_passes;
  }

 private:
  std::vector<std::set<std::uint64_t>> own_;
  std::set<std::uint64_t> read_;
  std::int64_t n_read_ = 0;
  std::int64_t n_shared_ = 0;
  std::optional<std::size_t> first_;
  SharedTally until_last_;  // Up to the last forward that brought a new row.
};

}  // namespace

bool are_distinct(Rows rows) {
  return rows.size() > 1 && std::set<std::uint64_t>(rows.begin(), rows.end()).size() == rows.size();
}

bool are_alike(const Forwards& forwards, std::size_t at) {
  return std::ranges::all_of(forwards.by_rank, [&](const RowList* own) {
    return std::ranges::equal((*own)[at], (*forwards.by_rank.front())[at]);
  });
}

SharedTally tally_of(const Forwards& forwards) {
  SharedTally tally;
  if (!any_is_shared(forwards)) return tally;  // Most are not.
  const std::size_t n_ranks = forwards.by_rank.size();
  RowPass pass(n_ranks);
  for (std::size_t at = 0; at < forwards.n; ++at) {
    if (are_alike(forwards, at)) continue;
    if (pass.ends_with(forwards, at)) {
      pass.add_to(tally);
      pass = RowPass(n_ranks);
      if (pass.ends_with(forwards, at)) continue;  // It holds a row twice.
    }
    pass.take(forwards, at);
  }
  pass.add_to(tally);
  return tally;
}

double chance_of(std::int64_t n_shared, std::int64_t n_passes, std::int64_t n_ranks) {
  // The sum reaches n_shared if, of the rows that come again, fewer than n_passes of the first
  // n_shared + n_passes - 1 come to their own rank. In logarithms: the first terms may be tiny.
  const double own = 1.0 / static_cast<double>(n_ranks);
  const auto n = static_cast<double>(n_shared + n_passes - 1);
  double log_term = n * std::log1p(-own);
  double chance = 0.0;
  for (std::int64_t i = 0; i < n_passes; ++i) {
    chance += std::exp(log_term);
    const auto k = static_cast<double>(i);
    log_term += std::log((n - k) / (k + 1.0) * own / (1.0 - own));
  }
  return chance;
}

}  // namespace lockstep::laws
