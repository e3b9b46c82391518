// What a training loop gets in the place of its model and data, so that its gradients show which
// weight each sample has.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "lockstep/autograd/variable.h"
#include "lockstep/comm/rank_context.h"
#include "lockstep/nn/module.h"

namespace lockstep {

/// One micro-batch. A sample with several tokens is several rows.
struct ProbeBatch {
  Variable x;  ///< (rows, samples of the whole run): the unit vector of the row's sample.
  Tensor y;    ///< (rows, 1): targets for a loss.
  std::int64_t n_samples = 0;
  std::int64_t n_tokens = 0;  ///< Rows.
};

/// A rank's model and data while its loop is certified.
///
/// The model's outputs are always zero and have the derivative 1 by the row's sample, whatever the
/// optimizer does. mse_loss, l1_loss and sum of them have the derivative 1 by each output before
/// they divide, so the gradient's elements are the samples' weights.
///
///   DistributedDataParallel ddp(probe.model(), rank.world());
///   const ProbeBatch batch = probe.sequences({1, 9});  // two samples, ten tokens
///   mse_loss(ddp(batch.x), batch.y).backward();
class Probe {
 public:
  /// `first` of `n_columns` belongs to this rank's first sample. Negative: all share one column.
  Probe(RankContext& rank, std::int64_t first, std::int64_t n_columns);

  /// (rows, samples) -> (rows, 1). One parameter, "weight".
  nn::Module& model() { return *model_; }

  /// The next micro-batch: this many samples of one token each.
  /// Requires: n_samples >= 1.
  ProbeBatch samples(std::int64_t n_samples);
  /// The next micro-batch: a sample per number, with that many tokens.
  /// Requires: one or more, none negative, not all zero.
  ProbeBatch sequences(std::span<const std::int64_t> tokens);
  /// The same for numbers written in place.
  ProbeBatch sequences(std::initializer_list<std::int64_t> tokens);

  /// Tokens of every sample so far, in order.
  const std::vector<std::int64_t>& tokens() const { return tokens_; }

 private:
  RankContext* rank_;
  std::int64_t first_;
  std::int64_t n_columns_;
  std::unique_ptr<nn::Module> model_;
  std::vector<std::int64_t> tokens_;
};

}  // namespace lockstep
