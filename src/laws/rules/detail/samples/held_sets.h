// Which samples each rank holds of a data set that a sampler divides.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "lockstep/laws/finding.h"
#include "lockstep/laws/rules/detail/samples/split_place.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// Equal indices are equal samples only where all ranks hold the same samples, in one order.
///
///   rank 0: a b c d     rank 1: b a c d     the same in another order: a finding
///   rank 0: a c         rank 1: b d         other samples: divided among the ranks, each is read in part
///
/// Ranks with other samples may have data of their own, or name what they have after themselves; hence advice.
class HeldSets {
 public:
  /// Of kEntries, kOrder and kClasses. Of each rank the first data set counts.
  void add(const Event& event, const DataEvent& data);

  std::vector<Finding> findings(const NameTable& names) const;

  /// "A-divided-twice", at most once.
  std::optional<Advice> advice(const NameTable& names) const;

 private:
  struct Held {
    std::uint64_t entries = 0;  ///< In any order.
    std::uint64_t order = 0;
    std::uint64_t classes = 0;  ///< The order, with classes numbered as they come; 0: no classes.
    std::int32_t step = 0;
    std::int32_t n_sets = 0;  ///< Data sets so far.
  };

  using HeldByRank = std::map<std::int32_t, Held>;

  static std::optional<Finding> other_order(const SplitPlace& place,
                                            const HeldByRank& by_rank,
                                            const NameTable& names);
  static bool has_a_set_alone(const HeldByRank& by_rank);

  std::map<SplitPlace, HeldByRank> held_;
};

}  // namespace lockstep::laws
