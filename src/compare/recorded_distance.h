// What two traces tell of how far one tensor is apart. A digest says that bits differ and nothing else;
// recorded values say all; sketches give a lower bound.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/compare/tensor_distance.h"
#include "lockstep/trace/memory_trace.h"

namespace lockstep {

/// An event of a rank in a trace. The trace outlives it.
struct EventPlace {
  const MemoryTrace* trace = nullptr;
  Rank rank{};
  std::size_t place = 0;  ///< In the rank's own list.
};

struct RecordedDistance {
  std::optional<TensorDistance> values = {};  ///< Both traces hold the tensor's values there.
  /// Sketches alone: the absolute differences of its elements add up to this, at least. Absent: the
  /// sketches are equal, differ by no more than their own rounding, or were not recorded.
  std::optional<double> least_sum = {};
  std::string text = {};  ///< Either as a sentence, or what is missing.
};

/// The distance of `tensor` in two events that both have it: gradients, states or values of it.
///
/// The bound: each sketch holds sums of +-x_i, so that two of them are apart by at most sum |a_i - b_i|.
/// The rounding of both (n 2^-52 of each sum of absolute values, twice the bound of a sum of n terms in
/// f64) is taken off first.
/// Deterministic: a function of the traces.
RecordedDistance recorded_distance(const EventPlace& left,
                                   const EventPlace& right,
                                   std::string_view tensor);

}  // namespace lockstep
