// Evaluation on the held-out rows: every rank its share, one all-reduce of the counts.
#pragma once

#include "lockstep/train/rank_program.h"

namespace lockstep {

/// The metric over all ranks; collective. Padded repeats count once when `dedup`, otherwise as
/// often as they were drawn (the usual mistake, zoo pad-duplicates-eval). The model is put back
/// into train mode.
///
/// `ddp`: the model's wrapper, null = none. With `eval.forward = "wrapper"` the rows go through it
/// if it has buffers to broadcast; without any it would do the same as the model.
EvalResult evaluate(const Job& job,
                    nn::Module& model,
                    RankContext& context,
                    std::int64_t epoch,
                    DistributedDataParallel<nn::Module>* ddp = nullptr);

}  // namespace lockstep
