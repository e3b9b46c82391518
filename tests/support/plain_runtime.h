// The runtime of test_runtime.h in one type, plain or exact, with a short way to write tensors.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>

#include "tests/support/test_runtime.h"

namespace lockstep::testing {

/// `kExact`: an operation that rounds throws.
enum class Arithmetic : std::uint8_t { kPlain, kExact };

/// What a test needs to make tensors: `PlainRuntime rt; rt.tensor({2}, {1, 2})`.
class PlainRuntime {
 public:
  explicit PlainRuntime(Arithmetic arithmetic = Arithmetic::kPlain)
      : cpu_(make_cpu_kernels()), runtime_(pool_, *cpu_, host_) {
    if (arithmetic == Arithmetic::kExact) cpu_->observe(&exact_);
  }

  Runtime& runtime() { return runtime_; }

  operator Runtime&() { return runtime_; }  // NOLINT(google-explicit-constructor)

  Pool& pool() { return pool_; }

  Kernels& kernels() { return runtime_.kernels(); }

  Tensor tensor(const Shape& shape, std::span<const double> values, DType dtype = DType::kF64) {
    return Tensor::of(runtime_, shape, dtype, values);
  }

  Tensor tensor(const Shape& shape,
                std::initializer_list<double> values,
                DType dtype = DType::kF64) {
    return tensor(shape, std::span(values.begin(), values.size()), dtype);
  }

 private:
  Pool pool_;
  TestHost host_;
  std::unique_ptr<Kernels> cpu_;
  ExactObserver exact_;
  Runtime runtime_;
};

}  // namespace lockstep::testing
