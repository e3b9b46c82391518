// When messages of a rank are under way.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/base/types.h"

namespace lockstep::sim {

/// What the network says and computing asks for (compute_model.h): how long messages of a rank were under way.
///
/// Deterministic: a function of the calls.
class Traffic {
 public:
  explicit Traffic(std::int32_t n_ranks) : ranks_(static_cast<std::size_t>(n_ranks)) {}

  /// Messages of `rank` are under way from `begin` to `end`, whatever else is.
  void add(std::int32_t rank, VirtualTime begin, VirtualTime end);

  /// The part of the time from `begin` to `end` in which messages of `rank` were under way.
  /// Requires: all that began before `end` has been added, and `begin` is not before that of an earlier question.
  Duration under_way(std::int32_t rank, VirtualTime begin, VirtualTime end);

 private:
  struct Interval {
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };

  std::vector<std::vector<Interval>> ranks_;  // By beginning.
};

}  // namespace lockstep::sim
