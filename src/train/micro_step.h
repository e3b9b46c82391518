// One micro-step's data and loss: what a forward consumes and what its backward starts from.
#pragma once

#include <cstdint>
#include <span>

#include "lockstep/comm/rank_context.h"
#include "lockstep/functional/functions.h"
#include "lockstep/train/job.h"

namespace lockstep {

/// Rows of a data set as tensors of the model's dtype.
struct Batch {
  Tensor x;       ///< (B, D)
  Tensor target;  ///< (B, O) values, or i64 for cross entropy: (B,), or (B * T,) of T tokens a row.
  Tensor row_weight;  ///< (B, O): each row's tokens over the denominator; undefined = unweighted.
  std::int64_t n_samples = 0;
  std::int64_t n_tokens = 0;
};

/// Gathers rows `ids` (positions in `dataset`). Requires: every id inside the data set.
Batch make_batch(const Job& job,
                 const data::Dataset& dataset,
                 Runtime& runtime,
                 std::span<const std::int64_t> ids);

/// Multiplies each row of x by its sign, 1 or -1. Requires: one sign per row.
void change_signs(const Batch& batch, std::span<const double> signs);

/// What this rank's summed loss is divided by, in samples (or tokens), as the job's `normalize`
/// says. global-tokens: all ranks' tokens over the number of ranks; collective (one all-reduce).
double loss_denominator(const Job& job, const Batch& batch, RankContext& context);

/// Gives each row its tokens over the denominator as weight, when the job normalises by tokens.
void weigh_rows(const Job& job,
                const data::Dataset& dataset,
                Batch& batch,
                std::span<const std::int64_t> ids,
                double denominator);

/// The loss of `output` on `batch` with the given denominator, times `factor` when that is not 1.
Variable micro_loss(
    const Job& job, const Variable& output, const Batch& batch, double denominator, double factor);

}  // namespace lockstep
