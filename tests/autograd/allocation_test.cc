// A warm training step takes all its memory from the pool's free lists.
#include <gtest/gtest.h>

#include "lockstep/functional/functions.h"

#include "tests/support/count_allocations.h"
#include "tests/support/plain_runtime.h"

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
      rt_.kernels().sgd(param.data(), param.grad(), Tensor(), {.lr = 0.01});
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
  const std::int64_t before = testing::n_allocations();

  for (int i = 0; i < 100; ++i) step();

  EXPECT_EQ(testing::n_allocations(), before);
  EXPECT_EQ(rt_.pool().system_allocations(), before_pool);
}

TEST_F(AllocationTest, CountsEveryCall) {
  const std::int64_t before = testing::n_allocations();
  const auto something = std::make_unique<double>(1.0);
  EXPECT_EQ(testing::n_allocations(), before + 1);
}

}  // namespace
}  // namespace lockstep
