// Which ranks mean which ranks by a group's number.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "lockstep/laws/report.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// Groups are numbered by a counter that every rank of the job advances: the nth group of a number
/// has the same members on all ranks that belong to it. Where it has not, ranks have left out a
/// group that others made.
class GroupLists {
 public:
  void on_group(const Event& event, const GroupEvent& group);

  /// One for each group that ranks do not agree about, by attempt and number.
  std::vector<Finding> findings() const;

 private:
  /// Attempt, group, and how many of this number a rank had made before.
  using Key = std::tuple<std::int32_t, std::int32_t, std::int32_t>;
  using Members = std::vector<std::int32_t>;

  std::map<std::tuple<std::int32_t, Rank, std::int32_t>, std::int32_t> n_made_;  ///< By rank.
  std::map<Key, std::map<Members, std::vector<Rank>>> lists_;
};

}  // namespace lockstep::laws
