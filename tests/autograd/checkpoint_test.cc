// Nested backward passes and checkpointed segments.
#include "lockstep/autograd/checkpoint.h"

#include <gtest/gtest.h>

#include "lockstep/autograd/engine.h"
#include "lockstep/autograd/functions.h"

#include "tests/support/test_runtime.h"

namespace lockstep {
namespace {

using testing::TestRuntime;

Variable number(TestRuntime& test, double value, bool requires_grad = true) {
  return Variable(Tensor::full(test.runtime, {1}, DType::kF32, value), requires_grad);
}

TEST(CheckpointTest, GradientsAreThoseOfTheRecordedSegment) {
  TestRuntime test;
  const Variable x = number(test, 2);
  const Variable w = number(test, 3);
  int n_calls = 0;

  const Variable out = checkpoint(
      [&](std::span<const Variable> in) {
        ++n_calls;
        return mul(mul(in[0], w), in[0]);
      },
      {x});
  EXPECT_EQ(n_calls, 1);
  sum(scale(out, 10)).backward();

  EXPECT_EQ(n_calls, 2);
  EXPECT_EQ(x.grad().at(0), 120);  // 10 * 2 * x * w
  EXPECT_EQ(w.grad().at(0), 40);   // 10 * x * x
}

// The parameter is used inside and outside: what the outer pass has collected for it must survive
// the inner pass, which visits the same accumulator.
TEST(CheckpointTest, ALeafSharedWithTheOuterGraphGetsBoth) {
  TestRuntime test;
  const Variable x = number(test, 2);
  const Variable w = number(test, 3);

  const Variable early = mul(x, w);
  const Variable middle =
      checkpoint([&](std::span<const Variable> in) { return mul(in[0], w); }, {early});
  sum(add(mul(middle, w), early)).backward();  // x w^3 + x w

  EXPECT_EQ(w.grad().at(0), 2 * (3 * 9 + 1));
  EXPECT_EQ(x.grad().at(0), 27 + 3);
}

TEST(CheckpointTest, CheckpointsNest) {
  TestRuntime test;
  const Variable x = number(test, 2);
  const Variable w = number(test, 3);

  const Variable out = checkpoint(
      [&](std::span<const Variable> in) {
        const Variable inner =
            checkpoint([&](std::span<const Variable> deep) { return mul(deep[0], w); }, {in[0]});
        return mul(inner, w);
      },
      {x});
  sum(out).backward();

  EXPECT_EQ(x.grad().at(0), 9);
  EXPECT_EQ(w.grad().at(0), 12);
}

TEST(CheckpointTest, WithoutAnInputThatNeedsAGradientNothingIsRecorded) {
  TestRuntime test;
  const Variable x = number(test, 2, false);
  const Variable w = number(test, 3);

  const Variable out = checkpoint([&](std::span<const Variable> in) { return mul(in[0], w); }, {x});

  EXPECT_FALSE(out.requires_grad());
}

TEST(CheckpointTest, ASecondBackwardThroughItFails) {
  TestRuntime test;
  const Variable x = number(test, 2);
  const Variable out =
      sum(checkpoint([](std::span<const Variable> in) { return scale(in[0], 2); }, {x}));
  out.backward();

  EXPECT_THROW(out.backward(), ContractViolation);
}

// Writes down when callbacks run, relative to the outer graph's gradients.
class Journal final : public GradHook, public BackwardCallback {
 public:
  explicit Journal(Runtime& runtime) : runtime_(&runtime) {}

  void on_grad_ready(std::size_t index) override {
    text += index == 0 ? "x" : "w";
    if (index == 1) {
      queue_callback(*runtime_, *this);
      queue_outer_callback(*runtime_, *this);
    }
  }

  void on_backward_end() override { text += is_nested_backward(*runtime_) ? "(inner)" : "(outer)"; }

  std::string text;

 private:
  Runtime* runtime_;
};

TEST(CheckpointTest, CallbacksBelongToTheInnermostPassUnlessAskedOtherwise) {
  TestRuntime test;
  const Variable x = number(test, 2);
  const Variable w = number(test, 3);
  Journal journal(test.runtime);
  x.add_hook(journal, 0);
  w.add_hook(journal, 1);

  sum(checkpoint([&](std::span<const Variable> in) { return mul(in[0], w); }, {x})).backward();

  EXPECT_EQ(journal.text, "w(inner)x(outer)");
  x.remove_hook(journal);
  w.remove_hook(journal);
}

}  // namespace
}  // namespace lockstep
