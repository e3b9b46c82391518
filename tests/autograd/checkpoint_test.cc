// Nested backward passes and checkpointed segments.
#include "lockstep/autograd/checkpoint.h"

#include <string>

#include <gtest/gtest.h>

#include "lockstep/autograd/engine.h"
#include "lockstep/functional/functions.h"

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

// ---- without reentrance: the graph is recorded, the values it saves are not kept

constexpr bool kPlain = false;

TEST(SavedSegmentTest, GradientsAreThoseOfAPlainForward) {
  TestRuntime test;
  const Variable x = number(test, 2, false);
  const Variable w = number(test, 3);
  int n_calls = 0;

  const Variable out = checkpoint(
      [&](std::span<const Variable> in) {
        ++n_calls;
        return mul(mul(in[0], w), w);
      },
      {x},
      {.use_reentrant = kPlain});
  EXPECT_EQ(n_calls, 1);
  sum(out).backward();

  EXPECT_EQ(n_calls, 2);
  EXPECT_EQ(w.grad().at(0), 12);  // 2 x w, although x requires no gradient.
}

TEST(SavedSegmentTest, WhatTheBackwardNeedsIsNotKept) {
  TestRuntime test;
  const Variable x = number(test, 2);
  for (const bool use_reentrant : {true, false}) {
    Tensor square;
    const Variable out = checkpoint(
        [&](std::span<const Variable> in) {
          const Variable inner = mul(in[0], in[0]);
          if (!square.defined()) square = inner.data();
          return mul(inner, in[0]);
        },
        {x},
        {.use_reentrant = use_reentrant});
    EXPECT_EQ(square.storage()->use_count(), 1) << use_reentrant;
  }
  Variable inner = mul(x, x);
  const Tensor square = inner.data();
  const Variable out = mul(inner, x);
  inner = Variable();
  EXPECT_EQ(square.storage()->use_count(), 2);  // A plain forward keeps it.
}

TEST(SavedSegmentTest, SegmentsNest) {
  TestRuntime test;
  const Variable x = number(test, 2);
  const Variable w = number(test, 3);

  const Variable out = checkpoint(
      [&](std::span<const Variable> in) {
        const Variable inner = checkpoint(
            [&](std::span<const Variable> deep) { return mul(mul(deep[0], w), deep[0]); },
            {in[0]},
            {.use_reentrant = kPlain});
        return mul(inner, w);
      },
      {x},
      {.use_reentrant = kPlain});
  sum(out).backward();  // x^2 w^2

  EXPECT_EQ(x.grad().at(0), 36);
  EXPECT_EQ(w.grad().at(0), 24);
}

TEST(SavedSegmentTest, AnotherSecondRunIsRefused) {
  TestRuntime test;
  const Variable x = number(test, 2);
  int n_calls = 0;
  const Variable out = checkpoint(
      [&](std::span<const Variable> in) {
        const Variable once = mul(in[0], in[0]);
        return ++n_calls == 1 ? mul(once, in[0]) : once;
      },
      {x},
      {.use_reentrant = kPlain});
  try {
    sum(out).backward();
    FAIL();
  } catch (const ContractViolation& violation) {
    EXPECT_NE(std::string(violation.what())
                  .find("Number of tensors saved during forward: 4\nNumber of tensors saved during "
                        "recomputation: 2."),
              std::string::npos)
        << violation.what();
  }
}

// What the segment multiplies by is drawn: 1, 2, 3, ...
double gradient_with_draws(bool use_reentrant, bool kept, int& draws) {
  TestRuntime test;
  const Variable x = number(test, 2);
  CheckpointOptions options{.use_reentrant = use_reentrant};
  if (kept) {
    options.keep_state = [&draws] { return [&draws, copy = draws] { draws = copy; }; };
  }
  const Variable out = checkpoint(
      [&](std::span<const Variable> in) { return mul(in[0], number(test, ++draws, false)); },
      {x},
      options);
  ++draws;  // Another draw in between.
  sum(out).backward();
  return x.grad().at(0);
}

TEST(SavedSegmentTest, KeptStateComesBackForTheSecondRunAndContinuesAfterwards) {
  for (const bool use_reentrant : {true, false}) {
    int draws = 0;
    EXPECT_EQ(gradient_with_draws(use_reentrant, true, draws), 1);
    EXPECT_EQ(draws, 2);
    draws = 0;
    EXPECT_EQ(gradient_with_draws(use_reentrant, false, draws), 3);
  }
}

}  // namespace
}  // namespace lockstep
