#include "lockstep/kernels/cpu_kernels.h"

#include "lockstep/kernels/detail/cpu.h"
#include "lockstep/kernels/detail/products.h"
#include "lockstep/tensor/digest.h"

namespace lockstep {

namespace detail {

std::uint64_t CpuKernels::digest(const Tensor& in, std::uint64_t base) {
  return sm64(in.read_raw(), in.n_elems(), in.dtype(), base);
}

Sketch CpuKernels::sketch(const Tensor& in) {
  return sketch_of(in.read_raw(), in.n_elems(), in.dtype(), signs_.get());
}

TensorFingerprint CpuKernels::fingerprint(const Tensor& in) {
  return fingerprint_of(in.read_raw(), in.n_elems(), in.dtype(), signs_.get());
}

}  // namespace detail

std::unique_ptr<Kernels> make_cpu_kernels() {
  detail::pin_cache_sizes();
  return std::make_unique<Kernels>(std::make_unique<detail::CpuKernels>());
}

}  // namespace lockstep
