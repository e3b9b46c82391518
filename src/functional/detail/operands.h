// The dtypes in which an operation takes its operands: autocast's lists, and mixed operands.
#pragma once

#include "lockstep/autograd/autocast.h"
#include "lockstep/functional/cast.h"
#include "lockstep/functional/detail/wide.h"

namespace lockstep::detail {

/// Whether operations have to ask in which dtype they compute.
inline bool autocasts(const Variable& x) {
  const AutocastRegion* const region = x.runtime().autocast();
  return region != nullptr && region->options().enabled;
}

/// An operand of an operation in lower precision, which autocast converts unless it is f64; an
/// undefined one stays so.
///
/// PyTorch's wheels convert the last operand of an operation first. That decides whose gradient is
/// ready first, and so the order of DDP's buckets: callers do the same.
///
/// Requires: autocasts() of the operation's first operand.
Variable lowered(const Variable& x);

/// An operand of an operation that computes in f32.
Variable raised(const Variable& x);

/// The dtype of a constant operand of an operation that computes in f32.
DType raised_dtype(const Tensor& constant);

/// PyTorch's promotion of two floating dtypes: f16 and bf16 meet in f32.
constexpr DType promoted(DType a, DType b) {
  if (a == b) return a;
  return a == DType::kF64 || b == DType::kF64 ? DType::kF64 : DType::kF32;
}

/// Whether 16-bit rows meet f32 parameters, which norms accept: they compute in f32 and round once.
inline bool is_mixed(const Variable& rows, const Tensor& parameter) {
  return parameter.defined() && is_narrow(rows.data().dtype()) && parameter.dtype() == DType::kF32;
}

inline bool is_mixed(const Variable& rows, const Variable& parameter) {
  return parameter.defined() && is_mixed(rows, parameter.data());
}

/// Refuses parameters of a norm that go neither with the rows' dtype nor with 16-bit rows.
void check_norm_dtypes(const Variable& rows, const Tensor& parameter);

}  // namespace lockstep::detail
