// Which element of the gradient is which sample's weight.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "lockstep/harness/certify/detail/windows.h"

namespace lockstep {

/// Columns of samples, by rank and id.
struct Columns {
  std::map<std::pair<std::int32_t, std::int64_t>, std::int64_t> of;
  std::int64_t n = 0;
};

/// Gives samples columns such that within a window, and from one window to the next, two samples
/// never share one: the gradient of a window then has an element per sample, and what an earlier
/// window left there shows. Samples of windows further apart may share, so the gradient is not
/// longer than it has to be.
///
/// Deterministic: the lowest free column, in the order of windows, ranks and micro-steps.
Columns choose_columns(const std::vector<std::vector<RankWindow>>& ranks);

}  // namespace lockstep
