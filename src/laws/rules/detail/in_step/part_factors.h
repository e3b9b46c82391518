// By what ranks multiply their shards of gradients, of a model or an optimizer that is divided among them.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "lockstep/laws/detail/rank_wrapper_map.h"
#include "lockstep/laws/finding.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// Compares the factors of one step. Parts of one tensor that are multiplied by different factors make another gradient than
/// that of the loss, whatever the factors were meant for.
class PartFactors {
 public:
  explicit PartFactors(std::int32_t n_ranks) : n_ranks_(n_ranks) {}

  /// Takes one of kind kPart.
  void on_clip(const Event& event, const ClipEvent& clip, RankRange who);

  /// Of the first step of each attempt whose factors differ between the ranks.
  const std::vector<Finding>& findings() const { return findings_; }

  std::int64_t n_checked() const { return n_checked_; }

 private:
  using Step = std::pair<std::int32_t, std::int32_t>;  // Attempt, number.

  std::int32_t n_ranks_;
  std::map<Step, std::map<std::int32_t, double>> open_;  // By rank.
  std::set<std::int32_t> reported_;                      // Attempts.
  std::vector<Finding> findings_;
  std::int64_t n_checked_ = 0;
};

}  // namespace lockstep::laws
