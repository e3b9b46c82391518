// Targets that number the rows of one rank, in a loss over the rows of all ranks.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/finding.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// A contrastive loss scores each of a rank's B rows against the rows that all ranks have gathered, and its target is
/// the place of the row's partner:
///
///     gathered rows     0 .. B-1 | B .. 2B-1 | 2B .. 3B-1
///     their rank            0    |     1     |     2
///     targets of rank 1           B .. 2B-1                 right
///                       0 .. B-1                            the offset rank * B was forgotten
///
/// Without the offset all ranks have the same targets, which are right on rank 0 only. So they are where a rank puts its
/// own rows first; but then no rank's loss is smaller than another's, except by chance. Hence both are asked for.
class PositionalTargets {
 public:
  void on_exchange(const Event& event, const ExchangeEvent& exchange);
  void on_input(const Event& event, const InputEvent& input, const NameTable& names);
  void on_loss(const Event& event, const LossEvent& loss);

  /// Whether any loss compares with gathered rows; what comes before the first such loss need not be passed on.
  bool active() const { return !gathering_.empty(); }

  /// "A-targets-not-offset", at most once.
  std::vector<Advice> advice(const Wrappers& wrappers) const;

 private:
  struct Pass {
    std::int32_t sync = 0;
    std::int32_t micro = 0;
    friend auto operator<=>(const Pass&, const Pass&) = default;
  };

  struct Seen {
    std::uint64_t targets = 0;  ///< A digest of their digests; 0: not known, or not distinct.
    double loss = 0.0;
    bool has_loss = false;
  };

  using ByRank = std::map<std::int32_t, Seen>;

  struct Tally {
    std::int64_t n = 0;           ///< Passes in which all ranks had the same, distinct targets,
    std::int64_t n_smallest = 0;  ///< and of these the ones in which rank 0 had the smallest loss.
    std::int64_t n_other = 0;     ///< Passes in which they had not.
  };

  ByRank* passes_of(const Event& event);
  static Tally tally_of(const std::map<Pass, ByRank>& passes, std::int32_t n_ranks);

  std::set<WrapperKey> gathering_;
  std::map<WrapperKey, std::map<Pass, ByRank>> seen_;
};

}  // namespace lockstep::laws
