// What Kernels::reduce does to one element of all ranks: left to right, rounded after each step.
#pragma once

#include <type_traits>

#include "lockstep/gpu/cuda/ops/math.cuh"
#include "lockstep/tensor/kernels.h"

namespace lockstep::cuda {

/// Integers wrap around, so they add and multiply unsigned.
template <typename V>
using Unsigned = std::conditional_t<(sizeof(V) < 8), std::uint32_t, std::uint64_t>;

template <typename V>
LOCKSTEP_BOTH V combine(V a, V b, ReduceOp op) {
  if (op == ReduceOp::kMin) return b < a ? b : a;
  if (op == ReduceOp::kMax) return a < b ? b : a;
  if constexpr (std::is_integral_v<V>) {
    using U = Unsigned<V>;
    if (op == ReduceOp::kBand) return static_cast<V>(a & b);
    if (op == ReduceOp::kBor) return static_cast<V>(a | b);
    if (op == ReduceOp::kBxor) return static_cast<V>(a ^ b);
    const U x = static_cast<U>(a);
    const U y = static_cast<U>(b);
    return static_cast<V>(op == ReduceOp::kProduct ? x * y : x + y);
  } else {
    return op == ReduceOp::kProduct ? a * b : a + b;
  }
}

/// Lists travel with the launch, hence the bound.
struct FoldLists {
  static constexpr std::int64_t kMost = 64;
  const void* inputs[kMost];
  void* outputs[kMost];
  std::int64_t n_inputs;
  std::int64_t n_outputs;
};

template <typename T>
struct FoldRanks {
  FoldLists lists;
  ReduceOp op;

  LOCKSTEP_BOTH Value<T> input(std::int64_t r, std::int64_t i) const {
    return detail::load(static_cast<const T*>(lists.inputs[r])[i]);
  }

  LOCKSTEP_BOTH void operator()(std::int64_t i) const {
    Value<T> sum = input(0, i);
    for (std::int64_t r = 1; r < lists.n_inputs; ++r) {
      sum = combine(sum, input(r, i), op);
      if constexpr (detail::kWrapped<T>) sum = detail::load(detail::store<T>(sum));
    }
    if (op == ReduceOp::kAvg) {
      sum = static_cast<Value<T>>(sum / static_cast<Value<T>>(lists.n_inputs));
    }
    for (std::int64_t r = 0; r < lists.n_outputs; ++r) {
      static_cast<T*>(lists.outputs[r])[i] = detail::store<T>(sum);
    }
  }
};

}  // namespace lockstep::cuda
