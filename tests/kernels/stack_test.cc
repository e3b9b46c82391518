// How much of a rank's small stack operations take.
#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <ucontext.h>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/test_runtime.h"

namespace lockstep {
namespace {

using testing::TestRuntime;

/// Runs `work` on a stack of its own. Returns: the bytes of it that were written.
///
/// It has run before: what the loader needs to find a function of another library is not its own.
std::size_t stack_bytes_of(const std::function<void()>& work) {
  work();
  constexpr std::byte kUntouched{0xa5};
  static const std::function<void()>* current = nullptr;
  std::vector<std::byte> stack(std::size_t{256} << 10U, kUntouched);
  ucontext_t here{};
  ucontext_t there{};
  getcontext(&there);
  there.uc_stack.ss_sp = stack.data();
  there.uc_stack.ss_size = stack.size();
  there.uc_link = &here;
  current = &work;
  makecontext(
      &there, [] { (*current)(); }, 0);
  swapcontext(&here, &there);
  std::size_t n_untouched = 0;
  while (n_untouched < stack.size() && stack[n_untouched] == kUntouched) ++n_untouched;
  return stack.size() - n_untouched;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
constexpr bool kFramesAreLarger = true;
#else
constexpr bool kFramesAreLarger = false;
#endif

// Less than a block of intermediate values, 256 floats.
constexpr std::size_t kLeast = 1024;

TEST(StackTest, ABlockOfIntermediateValuesWouldBeSeen) {
  const std::size_t bytes = stack_bytes_of([] {
    std::array<volatile float, 256> block;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    for (volatile float& value : block) value = 1.0F;
  });
  EXPECT_GT(bytes, kLeast);
}

TEST(StackTest, OperationsOfAStepKeepTheirIntermediateValuesElsewhere) {
  if (kFramesAreLarger) {
    GTEST_SKIP() << "NOT RUN: this build has a sanitizer or no optimisation, either of which makes "
                    "every frame larger";
  }
  TestRuntime test;
  Kernels& kernels = *test.kernels;
  const auto make = [&](const Shape& shape) {
    return Tensor::full(test.runtime, shape, DType::kF32, 0.5);
  };
  const Tensor a = make({16, 16});
  const Tensor b = make({16, 16});
  const Tensor out = make({16, 16});
  const Tensor row = make({16});
  const std::vector<Tensor> moments = {make({16, 16}), make({16, 16})};

  EXPECT_LT(stack_bytes_of([&] { kernels.gemm(out, a, b, {.transpose_b = true}); }), kLeast);
  EXPECT_LT(stack_bytes_of([&] { kernels.add_row(out, a, row); }), kLeast);
  EXPECT_LT(stack_bytes_of([&] { kernels.sum_rows(row, a); }), kLeast);
  EXPECT_LT(stack_bytes_of(
                [&] { kernels.sgd(a, b, out, {.lr = 0.1, .momentum = 0.9, .first_step = true}); }),
            kLeast);
  EXPECT_LT(stack_bytes_of([&] { kernels.adam(a, b, moments, {.lr = 0.1}); }), kLeast);
  const std::array<void*, 1> outputs = {out.raw()};
  const std::array<const void*, 2> inputs = {a.raw(), b.raw()};
  EXPECT_LT(
      stack_bytes_of([&] { kernels.reduce(outputs, inputs, 256, DType::kF32, ReduceOp::kSum); }),
      kLeast);
}

}  // namespace
}  // namespace lockstep
