// The reductions of gradients in a trace: what each rank gave, and what it got.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/formats/float_format.h"
#include "lockstep/trace/memory_trace.h"

namespace lockstep {

/// What a trace holds of a tensor at one point. Spans point into the trace.
struct TracedTensor {
  std::uint64_t digest = 0;  ///< 0: not recorded.
  std::optional<Sketch> sketch = {};
  std::int64_t n_elems = 0;                            ///< That digest and sketch cover.
  std::optional<std::span<const double>> values = {};  ///< With `run --values`.
};

/// One rank's part in a reduction.
struct TracedPart {
  Rank rank{};
  std::optional<TracedTensor> given = {};  ///< Absent: no gradient, which counts as zeros.
  TracedTensor got = {};
};

/// One tensor, reduced over one group.
struct TracedReduction {
  Position at = {};             ///< Of the lowest rank's gradient after it.
  std::int32_t occurrence = 0;  ///< Of this wrapper, in this synchronising step: as a rule 0.
  std::int32_t place = 0;       ///< Of the tensor in its list of names.
  std::string tensor;
  std::vector<std::int32_t> members;  ///< World ranks of the group; empty: all.
  std::int32_t n_expected = 0;        ///< How many members there are.
  FloatFormat format;
  HookEffect hook = HookEffect::kMean;  ///< What a communication hook made of it.
  std::vector<TracedPart> parts;  ///< By rank; fewer than expected where ranks recorded nothing.

  bool is_whole() const { return std::ssize(parts) == n_expected; }
};

/// In the order of (attempt, synchronising step, wrapper, occurrence, tensor, group).
std::vector<TracedReduction> reductions_of(const MemoryTrace& trace);

/// That order. Two reductions of two runs are the same one if neither comes before the other.
bool comes_before(const TracedReduction& left, const TracedReduction& right);

}  // namespace lockstep
