// In which order a rank enters the collectives of different groups.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lockstep/laws/detail/rank_wrapper_map.h"
#include "lockstep/laws/finding.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// Finds two ranks that entered calls of two groups in opposite orders.
///
/// A run may survive it, when the calls do not block or a schedule is kind; with one execution slot
/// a communicator and rank, as NCCL has, it is a deadlock that waits for its day. So it is advice.
///
/// Looks at the first kMaxRuns changes of group of each rank, messages left out.
class GroupOrder {
 public:
  static constexpr std::size_t kMaxRuns = 1024;

  /// `n` calls, of which this is the last; 0 = none.
  void on_posted(const Event& event, const CollectiveEvent& call, RankRange who, std::int64_t n);

  /// Whether these ranks made the same calls until now.
  bool knows(RankRange who) const { return runs_.shares({}, who); }

  /// One sentence per pair of groups, for its first inversion.
  std::vector<Advice> advice() const;

 private:
  /// Calls of one group without one of another between them.
  struct Run {
    std::int32_t group = 0;
    std::int64_t first = 0;  ///< Sequence number.
    std::int64_t n = 0;
    CallSite site = {};  ///< Of the first.
  };

  struct Pair {
    std::int32_t low = 0;
    std::int32_t high = 0;
    friend auto operator<=>(const Pair&, const Pair&) = default;
  };

  struct Inversion;

  static Run from(const Run& run, std::int64_t n_done);
  static std::vector<Run> merged(const std::vector<Run>& runs, const Pair& pair);
  static bool inverted(const std::vector<Run>& left, const std::vector<Run>& right, Inversion& at);
  static Advice describe(const Inversion& at, std::int32_t left, std::int32_t right);

  RankWrapperMap<std::vector<Run>> runs_;  // Of ranks alone, in the last attempt.
  std::int32_t attempt_ = 0;
};

}  // namespace lockstep::laws
