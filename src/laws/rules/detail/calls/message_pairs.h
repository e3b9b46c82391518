// Messages between two ranks: what one sends is what the other receives.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "lockstep/laws/finding.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// Pairs the sends and receives of the world by source, target and tag, each such triple with its own
/// numbers, and compares the two calls of a pair.
class MessagePairs {
 public:
  /// Takes a posted send or receive. One of another group is passed by: its peers are numbered within
  /// the group.
  void on_message(const Event& event, const CollectiveEvent& call);

  /// One for each pair whose element types or counts differ, in the order in which pairs were complete.
  const std::vector<Finding>& findings() const { return findings_; }

  std::int64_t n_pairs() const { return n_pairs_; }

 private:
  /// Attempt, source, target, tag, number.
  using Key = std::tuple<std::int32_t, std::int32_t, std::int32_t, std::int32_t, std::int64_t>;

  std::map<Key, Signature> open_;  // Of which only one rank's call was seen.
  std::vector<Finding> findings_;
  std::int64_t n_pairs_ = 0;
};

}  // namespace lockstep::laws
