// By what a program multiplies a rank's shard of gradients that all ranks have reduced.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lockstep/autograd/variable.h"
#include "lockstep/trace/recorder.h"

namespace lockstep {

/// Of a program that divides the optimizer among the ranks without a wrapper (ZeRO by hand):
///
///     all gradients  --all-reduce------>  | shard of rank 0 | of rank 1 | ...
///                    --reduce-scatter-->  | shard of this rank |
///                                         times one factor: clipping, a mean
///                                      =  gradient of what this rank's optimizer steps
///
/// Shards of one gradient that are multiplied by different factors make another gradient, so laws compare
/// the factors of the ranks. A factor is found by the values: it must make each element of the gradient out
/// of that of the shard. Elements beyond the first 4,096 are not looked at, nor are steps after the first 32.
class ShardFactors {
 public:
  ShardFactors(Rank rank, std::int32_t n_ranks) : rank_(rank), n_ranks_(n_ranks) {}

  /// What an all-reduce of all ranks has returned. It has a shard of each rank if it can be divided evenly.
  void on_whole(const OwnReductions::Sent& received);
  /// What a reduce-scatter of all ranks has returned.
  void on_shard(const OwnReductions::Sent& received);

  /// A step is about to use the gradients of these parameters.
  /// Returns: the factor, where these gradients are the shards that have come since the last step.
  std::optional<double> on_step(std::span<const Variable> parameters);

 private:
  void hold(const float* first, std::int64_t n_elems);

  Rank rank_;
  std::int32_t n_ranks_;
  std::int64_t n_elems_ = 0;  ///< Of all shards since the last step.
  std::vector<float> held_;   ///< The first of their elements.
  int n_looked_at_ = 0;       ///< Steps.
};

}  // namespace lockstep
