// A warm training step takes all its memory from the pool's free lists.
#include <cstdlib>
#include <new>

#include <gtest/gtest.h>

#include "lockstep/autograd/functions.h"

#include "tests/support/plain_runtime.h"

// Counts every allocation of the program from outside the library: the one place where a mutable
// global is the only seam the language offers.
static int g_n_allocations = 0;

void* operator new(std::size_t bytes) {
  ++g_n_allocations;
  if (void* block = std::malloc(bytes)) return block;  // NOLINT(cppcoreguidelines-no-malloc)
  throw std::bad_alloc();
}

void operator delete(void* block) noexcept {
  std::free(block);
}  // NOLINT(cppcoreguidelines-no-malloc)

void operator delete(void* block, std::size_t /*bytes*/) noexcept {
  std::free(block);  // NOLINT(cppcoreguidelines-no-malloc)
}

namespace lockstep {
namespace {

using testing::PlainRuntime;

class ReadyHook final : public GradHook {
 public:
  void on_grad_ready(std::size_t /*index*/) override {}
};

class AllocationTest : public ::testing::Test {
 protected:
  AllocationTest() {
    for (std::size_t i = 0; i < params_.size(); ++i) params_[i].add_hook(hook_, i);
  }

  void step() {
    const Variable h = relu(linear(Variable(x_), params_[0], params_[1]));
    const Variable loss = mse_loss(linear(h, params_[2], params_[3]), target_);
    loss.backward();
    for (const Variable& param : params_) {
      rt_.kernels().sgd(param.data(), param.grad(), {}, {.lr = 0.01});
      param.data().storage()->bump_version();
      param.set_grad({});
    }
  }

  Tensor full(const Shape& shape) { return Tensor::full(rt_, shape, DType::kF32, 0.5); }

  PlainRuntime rt_;
  ReadyHook hook_;
  Tensor x_ = full({8, 16});
  Tensor target_ = full({8, 1});
  std::array<Variable, 4> params_{Variable(full({16, 16}), true),
                                  Variable(full({16}), true),
                                  Variable(full({1, 16}), true),
                                  Variable(full({1}), true)};
};

TEST_F(AllocationTest, AWarmTrainingStepAsksTheSystemForNothing) {
  step();
  const std::int64_t before_pool = rt_.pool().system_allocations();
  const int before = g_n_allocations;

  for (int i = 0; i < 100; ++i) step();

  EXPECT_EQ(g_n_allocations, before);
  EXPECT_EQ(rt_.pool().system_allocations(), before_pool);
}

TEST_F(AllocationTest, TheCounterCounts) {
  const int before = g_n_allocations;
  const auto something = std::make_unique<double>(1.0);
  EXPECT_EQ(g_n_allocations, before + 1);
}

}  // namespace
}  // namespace lockstep
