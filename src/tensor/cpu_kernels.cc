#include "lockstep/tensor/cpu_kernels.h"

#include "lockstep/tensor/detail/cpu.h"
#include "lockstep/tensor/detail/products.h"
#include "lockstep/tensor/digest.h"

namespace lockstep {

namespace detail {

std::uint64_t CpuKernels::digest(const Tensor& in, std::uint64_t base) {
  return sm64(in.read_raw(), in.n_elems(), in.dtype(), base);
}

Sketch CpuKernels::sketch(const Tensor& in) {
  return sketch_of(in.read_raw(), in.n_elems(), in.dtype(), signs_.get());
}

Imprint CpuKernels::imprint(const Tensor& in) {
  return imprint_of(in.read_raw(), in.n_elems(), in.dtype(), signs_.get());
}

}  // namespace detail

std::unique_ptr<Kernels> make_cpu_kernels() {
  detail::pin_cache_sizes();
  return std::make_unique<detail::CpuKernels>();
}

}  // namespace lockstep
