// Operands of the suite, and what should come out: formulas, so that no test needs a tolerance.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/comm/process_group.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::conformance {

using Fill = std::function<double(std::int64_t)>;

inline Tensor filled(ProcessGroup& group, DType dtype, std::int64_t n, const Fill& fill) {
  std::vector<double> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = fill(static_cast<std::int64_t>(i));
  return Tensor::of(group.runtime(), {n}, dtype, values);
}

inline void expect_filled(const Tensor& tensor, const Fill& fill, const std::string& what) {
  for (std::int64_t i = 0; i < tensor.n_elems(); ++i) {
    ASSERT_EQ(tensor.at(i), fill(i)) << what << ", element " << i;
  }
}

inline std::vector<Memory> memories(const std::vector<Tensor>& tensors) {
  std::vector<Memory> list;
  list.reserve(tensors.size());
  for (const Tensor& tensor : tensors) list.push_back(Memory::of(tensor));
  return list;
}

inline Tensor zeros(ProcessGroup& group, DType dtype, std::int64_t n) {
  return Tensor::zeros(group.runtime(), {n}, dtype);
}

constexpr DType kNumbers[] = {DType::kF32,
                              DType::kF64,
                              DType::kF16,
                              DType::kBF16,
                              DType::kI8,
                              DType::kU8,
                              DType::kI32,
                              DType::kI64};

constexpr ReduceOp kOps[] = {ReduceOp::kSum,
                             ReduceOp::kAvg,
                             ReduceOp::kProduct,
                             ReduceOp::kMin,
                             ReduceOp::kMax,
                             ReduceOp::kPremulSum,
                             ReduceOp::kBand,
                             ReduceOp::kBor,
                             ReduceOp::kBxor};

/// Small enough for the narrowest type: sums, and products of up to eight ranks, are exact.
inline double operand(std::int32_t rank, std::int64_t i) {
  return static_cast<double>(1 + (rank + i) % 2 + (rank == 0 ? i % 3 : 0));
}

/// What the group's library has: Gloo neither averages nor scales, NCCL has no bitwise operations.
inline bool offers(ProcessGroup& group, ReduceOp op, DType dtype) {
  if (op == ReduceOp::kBand || op == ReduceOp::kBor || op == ReduceOp::kBxor) {
    return !is_floating(dtype) && group.backend() != "nccl";
  }
  return op != ReduceOp::kPremulSum || is_floating(dtype);
}

/// Element i of the reduction of the operands of all ranks; kAvg: their sum.
inline double reduced(ReduceOp op, std::int32_t n_ranks, std::int64_t i) {
  std::vector<double> values;
  for (std::int32_t r = 0; r < n_ranks; ++r) values.push_back(operand(r, i));
  double result = values[0];
  for (std::size_t r = 1; r < values.size(); ++r) {
    const auto a = static_cast<std::int64_t>(result);
    const auto b = static_cast<std::int64_t>(values[r]);
    if (op == ReduceOp::kSum || op == ReduceOp::kAvg || op == ReduceOp::kPremulSum) {
      result += values[r];
    }
    if (op == ReduceOp::kProduct) result *= values[r];
    if (op == ReduceOp::kMin) result = std::min(result, values[r]);
    if (op == ReduceOp::kMax) result = std::max(result, values[r]);
    if (op == ReduceOp::kBand) result = static_cast<double>(a & b);
    if (op == ReduceOp::kBor) result = static_cast<double>(a | b);
    if (op == ReduceOp::kBxor) result = static_cast<double>(a ^ b);
  }
  return op == ReduceOp::kPremulSum ? 0.5 * result : result;
}

}  // namespace lockstep::conformance
