// What the ranks of a recorded run held at each optimizer step: samples, gradients, parameters.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lockstep/trace/memory_trace.h"

namespace lockstep {

using TensorValues = std::map<std::string, std::vector<double>>;  ///< By qualified name.

/// One micro-step's data on one rank.
struct MicroData {
  std::vector<std::int64_t> ids;  ///< Row ids, as recorded.
  double denominator = 0.0;       ///< What the rank divided its summed loss by.
  std::int64_t n_samples = 0;
  std::int64_t n_tokens = 0;
};

/// One optimizer step on one rank.
struct RankStep {
  std::vector<MicroData> micros;
  TensorValues before;  ///< Parameters as the step's first forward found them.
  TensorValues used;    ///< Gradients the optimizer consumed.
  TensorValues after;   ///< Parameters behind the step.
};

/// The steps a rank finished, in order.
std::vector<RankStep> steps_of(const MemoryTrace& trace, Rank rank);

}  // namespace lockstep
