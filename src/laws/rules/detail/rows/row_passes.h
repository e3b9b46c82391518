// Whether rows that several ranks read look like those of one division of the data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::laws {

/// What one forward of one rank was given: a digest per row.
using Rows = std::span<const std::uint64_t>;

/// Several rows of which none is like another: not a constant, a mask or a padding.
bool are_distinct(Rows rows);

/// What the forwards of one rank were given, one after another.
class RowList {
 public:
  void add(Rows rows) {
    constexpr std::size_t kSome = 16;  // Most programs have more than one.
    if (ends_.empty()) {
      ends_.reserve(kSome);
      rows_.reserve(kSome * rows.size());
    }
    rows_.insert(rows_.end(), rows.begin(), rows.end());
    ends_.push_back(rows_.size());
  }

  std::size_t size() const { return ends_.size(); }

  Rows operator[](std::size_t forward) const {
    const std::size_t begin = forward == 0 ? 0 : ends_[forward - 1];
    return Rows(rows_).subspan(begin, ends_[forward] - begin);
  }

  /// Of the first `n` forwards.
  Rows first(std::size_t n) const { return Rows(rows_).first(n == 0 ? 0 : ends_[n - 1]); }

 private:
  std::vector<std::uint64_t> rows_;
  std::vector<std::size_t> ends_;
};

/// Forwards of several ranks, side by side: as many as all of them have.
struct Forwards {
  std::vector<const RowList*> by_rank;
  std::size_t n = 0;
};

/// Whether this forward was given the same on all ranks.
bool are_alike(const Forwards& forwards, std::size_t at);

/// Rows that ranks which divide their data do not share, and how many they read.
struct SharedTally {
  /// For as long as rows came that none had read.
  std::int64_t n_read = 0;
  /// Of these, read by another rank in an earlier forward.
  std::int64_t n_shared = 0;
  /// Of the shared ones, before the last forward that brought a new row.
  std::int64_t n_early = 0;
  std::int64_t n_passes = 0;
  std::size_t first = 0;  ///< The first forward in which one was shared.
};

/// Goes through the forwards of all ranks side by side. A pass lasts until a rank meets a row that it has read itself.
///
///     forward     0     1     2     3
///     rank 0     a b   c d   e f   a ..        a second pass begins: a
///     rank 1     g c   b h   d i               shared: c and b at 1, d at 2
///
/// What ranks read in one forward is not held against each other: a batch that is drawn at random has no row twice, and
/// two ranks' batches may. Within a pass, rows that are shared count until the last forward that brings one that none
/// has read: ranks whose shares go round have read everything by then. A forward in which all ranks read the same counts
/// for nothing, nor does one that a rank repeats at once.
/// Returns: all zeros where no row was read by two ranks.
SharedTally tally_of(const Forwards& forwards);

/// How likely this many shared rows, or more, are where every row is drawn from all data, by all ranks alike: then one row
/// in `n_ranks` that comes again comes to the rank that had it, and ends the pass. So each pass adds a geometric number of
/// shared rows, and the sum over passes is distributed negative-binomially.
double chance_of(std::int64_t n_shared, std::int64_t n_passes, std::int64_t n_ranks);

}  // namespace lockstep::laws
