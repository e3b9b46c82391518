// Losses that are means over other numbers of terms on each rank.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <vector>

#include "lockstep/laws/detail/rank_wrapper_map.h"
#include "lockstep/laws/finding.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// The average over ranks weighs their means alike, so a term counts for less where there are more of them:
/// with 3 tokens on rank 0 and 17 on rank 1 each of the first counts 17/3 times as much as one of the others. It is what
/// DDP promises, and right if ranks are to count alike; hence advice, and only where most backward passes are uneven:
/// the last batch of an epoch often is.
class UnevenMeans {
 public:
  /// `n_averaged`: ranks over which a wrapper averages this loss's gradients.
  void on_loss(const Event& event, const LossEvent& loss, std::int32_t n_averaged);

  /// "A-uneven-means", at most once per wrapper.
  std::vector<Advice> advice() const;

  /// Whether it is a loss that a backward starts from, whose number of terms is known.
  static bool is_read(const LossEvent& loss);

 private:
  struct Place {
    WrapperKey wrapper;
    std::int32_t sync = 0;
    std::int32_t micro = 0;
    friend auto operator<=>(const Place&, const Place&) = default;
  };

  /// One backward of all ranks.
  struct Pass {
    std::int32_t n_ranks = 0;
    double fewest = 0.0;
    double most = 0.0;
    std::int32_t rank_of_fewest = 0;
    std::int32_t rank_of_most = 0;
  };

  struct Passes {
    std::int64_t n = 0;
    std::int64_t n_uneven = 0;
    Pass first;  ///< Of the uneven ones.
    double largest_ratio = 1.0;
  };

  std::map<Place, Pass> open_;
  std::map<WrapperKey, Passes> passes_;
};

}  // namespace lockstep::laws
