// From tensors to what functors take.
#pragma once

#include "lockstep/base/check.h"
#include "lockstep/gpu/cuda/detail/cuda_kernels.h"
#include "lockstep/gpu/cuda/detail/launch.cuh"
#include "lockstep/gpu/cuda/ops/math.cuh"
#include "lockstep/kernels/detail/elements.h"
#include "lockstep/tensor/detail/dispatch.h"

namespace lockstep::cuda {

using detail::agreed_elems;
using detail::for_any;
using detail::for_float;

inline std::byte* CudaKernels::bytes(const Tensor& tensor) const {
  void* const data = tensor.device_raw();
  LOCKSTEP_CHECK(memory_ == nullptr || tensor.n_elems() == 0 ||
                     memory_->owns(data, static_cast<std::size_t>(tensor.n_bytes())),
                 "operands of the device's kernels live in its memory");
  return static_cast<std::byte*>(data);
}

template <typename T>
T* CudaKernels::at(const Tensor& tensor) const {
  LOCKSTEP_CHECK(tensor.dtype() == DTypeOf<T>::kValue,
                 "the element type asked for is not the tensor's");
  return reinterpret_cast<T*>(bytes(tensor));
}

template <typename T>
T* CudaKernels::at_or_null(std::span<const Tensor> tensors, std::size_t i) const {
  return i < tensors.size() && tensors[i].defined() ? at<T>(tensors[i]) : nullptr;
}

/// Calls f(T{}) with the element type of a floating dtype, 16-bit ones included.
template <typename F>
void for_real(DType dtype, F f) {
  if (dtype == DType::kF16) return f(detail::Half{});
  if (dtype == DType::kBF16) return f(detail::BFloat{});
  for_float(dtype, f);
}

}  // namespace lockstep::cuda
