// What the ranks consumed of one pass over a split, held against what they declared.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "lockstep/laws/finding.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// What one forward consumed.
struct Consumed {
  std::int32_t attempt = 0;
  std::int32_t opt = 0;
  std::int32_t rank = 0;
  std::int32_t wrapper = -1;  ///< That trains on them.
  std::vector<std::int64_t> ids;
};

// No spans inside: safe to keep.
using DeclaredByRank = std::map<std::int32_t, EpochEvent>;

/// What a pass amounts to, in the attempts that count.
struct PassTally {
  std::int32_t n_ranks = 0;
  std::int32_t attempt = 0;  ///< The last one.
  std::int32_t step = std::numeric_limits<std::int32_t>::max();
  DeclaredByRank declared;
  std::map<std::int64_t, std::int32_t> counts;
  std::map<std::int32_t, std::vector<std::int64_t>> by_rank;

  void add(const Consumed& consumed);

  /// Where each share is read by as many ranks, in one order, as there are ranks per replica of the sampler: keeps one of
  /// them. So it is where several ranks compute one replica of a model together, as the stages of a pipeline do.
  void keep_one_reader_per_share();

  /// Samples that were consumed once more, each time.
  std::int64_t surplus() const;
  /// Whether every rank has consumed all that it declared.
  bool is_complete() const;

  /// Ranks that draw different numbers of samples. Requires: at least one rank has declared.
  std::optional<Finding> uneven_shares() const;
  /// Samples that came too often, or not at all. `is_random`: each rank draws by itself.
  std::optional<Finding> wrong_counts(bool is_random) const;

 private:
  void explain_duplicates(Finding& finding, bool is_random) const;
  std::vector<Rank> ranks_with_equal_shares() const;
  bool all_read_in_one_order(std::span<const Rank> ranks) const;
};

}  // namespace lockstep::laws
