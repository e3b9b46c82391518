// Evaluation on the held-out rows: every rank its share, one all-reduce of the counts.
#pragma once

#include "lockstep/train/rank_program.h"

namespace lockstep {

/// The metric over all ranks; collective. Padded repeats count once when `dedup`, as often as they
/// were drawn otherwise (the usual mistake, zoo pad-duplicates-eval). The model is put back into
/// train mode.
EvalResult evaluate(const Job& job, nn::Module& model, RankContext& context, std::int64_t epoch);

}  // namespace lockstep
