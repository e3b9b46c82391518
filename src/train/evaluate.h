// Evaluation on the held-out rows: every rank its share, one all-reduce of the counts.
#pragma once

#include <cstdint>
#include <span>

#include "lockstep/train/rank_program.h"

namespace lockstep {

/// Where in training an evaluation takes place.
struct EvalPlace {
  std::int64_t epoch = 0;
  /// This rank's last training rows, for `eval.rows = "last-batch"`.
  std::span<const std::int64_t> last_batch = {};
};

/// The metric over all ranks; collective. Padded repeats count once when `dedup`, otherwise as
/// often as they were drawn (the usual mistake, zoo pad-duplicates-eval). The model is put back
/// into train mode.
///
/// `ddp`: the model's wrapper, null = none. With `eval.forward = "wrapper"` the rows go through it
/// if it has buffers to broadcast; without any it would do the same as the model.
EvalResult evaluate(const Job& job,
                    nn::Module& model,
                    RankContext& context,
                    const EvalPlace& place,
                    DistributedDataParallel<nn::Module>* ddp = nullptr);

}  // namespace lockstep
