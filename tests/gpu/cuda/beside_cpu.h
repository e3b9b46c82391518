// One operation on the processor and as functors of gpu/cuda, and what differs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/gpu/cuda/accelerator.h"

#include "tests/support/test_runtime.h"

namespace lockstep::testing {

/// A separate runtime: the processor's, or one with an accelerator.
class Machine {
 public:
  Machine() : cpu_(make_cpu_kernels()), runtime_(pool_, *cpu_, host_) {}

  explicit Machine(std::unique_ptr<Accelerator> device)
      : device_(std::move(device)), runtime_(pool_, device_->kernels(), host_, device_.get()) {}

  /// The accelerator's memory with other kernels. Requires: they outlive the machine.
  Machine(std::unique_ptr<Accelerator> device, Kernels& kernels)
      : device_(std::move(device)), runtime_(pool_, kernels, host_, device_.get()) {}

  Runtime& runtime() { return runtime_; }

 private:
  Pool pool_;
  TestHost host_;
  std::unique_ptr<Kernels> cpu_;
  std::unique_ptr<Accelerator> device_;
  Runtime runtime_;
};

/// What numbers a case is fed.
enum class Feed : std::uint8_t {
  kRounding,  ///< Of all magnitudes near one: sums and products round.
  kSpecial,   ///< Zeros of both signs, subnormals, infinities, NaN among them.
};

/// Makes the same inputs on every machine and runs one operation on them.
class Bench {
 public:
  Bench(Runtime& runtime, DType dtype, Feed feed)
      : runtime_(&runtime), dtype_(dtype), feed_(feed) {}

  Kernels& kernels() const { return runtime_->kernels(); }

  Runtime& runtime() const { return *runtime_; }

  DType dtype() const { return dtype_; }

  Feed feed() const { return feed_; }

  /// Memory for a result, filled with a value that no kernel leaves by chance.
  Tensor out(const Shape& shape) { return out(shape, dtype_); }

  Tensor out(const Shape& shape, DType dtype);
  /// Numbers of the feed, others at each call.
  Tensor in(const Shape& shape);
  /// As `in`, always finite and in [low, high].
  Tensor between(const Shape& shape, double low, double high);
  Tensor in(const Shape& shape, DType dtype);
  /// Whole numbers in [0, limit).
  Tensor indices(std::int64_t n, std::int64_t limit);
  /// A number as a tensor, so that it is compared.
  Tensor number(double value);
  Tensor bits(std::uint64_t value);

 private:
  double next(DType dtype);

  Runtime* runtime_;
  DType dtype_;
  Feed feed_;
  std::uint64_t state_ = 1;
};

/// One operation in one shape. Returns everything it has written.
struct Case {
  std::string name;
  std::function<std::vector<Tensor>(Bench&)> run;
  /// How far the device may be from the processor, in units of the last place of the larger of the
  /// result and `scale`; 0: the same bits. The host's executors always have the same bits.
  double ulps = 0.0;
  double scale = 0.0;
  std::vector<DType> dtypes = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16};
  bool special = true;  ///< Also with Feed::kSpecial.
};

/// What the machine does otherwise than the processor, or "" when nothing. Every NaN is the same
/// NaN: which one an operation gives differs between processors.
std::string difference(const Case& tried, Machine& machine, bool exactly);

/// Runs tests on each place where functors run. On a machine without a GPU those of the device say
/// that they did not run.
class BesideCpu : public ::testing::TestWithParam<cuda::ExecutionTarget> {
 protected:
  void SetUp() override;  // NOLINT(readability-identifier-naming): GoogleTest's name.

  void expect_same(const std::vector<Case>& cases,
                   cuda::Arithmetic arithmetic = {.cublas = false, .functions = true});

  /// Without `arithmetic` every operation is a functor of ours.
  std::unique_ptr<Accelerator> accelerator(cuda::Arithmetic arithmetic = {
                                               .cublas = false, .functions = true}) const {
    return cuda::make_accelerator(GetParam(), arithmetic);
  }
};

std::string name_of_place(const ::testing::TestParamInfo<cuda::ExecutionTarget>& info);

#define LOCKSTEP_ON_EVERY_PLACE(suite)                                         \
  INSTANTIATE_TEST_SUITE_P(On,                                                 \
                           suite,                                              \
                           ::testing::Values(cuda::ExecutionTarget::kHost,     \
                                             cuda::ExecutionTarget::kHostLate, \
                                             cuda::ExecutionTarget::kDevice),  \
                           name_of_place)

}  // namespace lockstep::testing
