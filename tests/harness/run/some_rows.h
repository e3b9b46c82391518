// Inputs and targets that differ between ranks and steps.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/comm/rank_context.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::testing {

inline Tensor some_rows(RankContext& context, std::int64_t columns, std::int64_t step) {
  std::vector<double> values(static_cast<std::size_t>(4 * columns));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto word = static_cast<std::int64_t>(i) * 31 + step * 17 + context.rank() * 7;
    values[i] = static_cast<double>(word % 13) / 4.0 - 1.0;
  }
  return Tensor::of(context.runtime(), {4, columns}, DType::kF32, values);
}

}  // namespace lockstep::testing
