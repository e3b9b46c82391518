// Activation checkpointing under DDP: backward passes inside a backward pass.
#include <gtest/gtest.h>

#include "lockstep/autograd/checkpoint.h"

#include "tests/ddp/tiny_model.h"
#include "tests/support/mini_world.h"

namespace lockstep {
namespace {

using testing::flat_term;
using testing::grad_of;
using testing::MiniRank;
using testing::MiniResult;
using testing::run_mini_world;
using testing::TinyModel;
using Values = std::vector<double>;

// x * p, computed again in the backward. x has to require a gradient.
Variable times(const Variable& x, const Variable& p) {
  return checkpoint([p](std::span<const Variable> in) { return mul(in[0], p); }, {x});
}

Variable input(MiniRank& rank, double value) {
  return Variable(Tensor::full(rank.runtime, {1}, DType::kF32, value), true);
}

// y = x * a * b with x = 2 or 4: gradients x * b and x * a.
TEST(DdpCheckpointTest, LayersCheckpointedOnceAreAveraged) {
  for (const bool static_graph : {false, true}) {
    const MiniResult result = run_mini_world({}, [static_graph](MiniRank& rank) {
      TinyModel model(rank.runtime);
      const Variable a = model.parameter("a", {3});
      const Variable b = model.parameter("b", {5});
      Ddp ddp(model.state(), rank.group, {.static_graph = static_graph});
      for (int step = 0; step < 3; ++step) {
        a.set_grad(Tensor());
        b.set_grad(Tensor());
        ddp.before_forward(true);
        const Variable x = input(rank, 2.0 + 2 * rank.rank);
        const Variable out = ddp.after_forward(times(times(x, a), b));
        sum(out).backward();
        EXPECT_EQ(grad_of(a), (Values{15})) << step;
        EXPECT_EQ(grad_of(b), (Values{9})) << step;
        EXPECT_EQ(grad_of(x), (Values{15})) << step;
      }
    });
    ASSERT_TRUE(result.ok()) << result.error(0);
  }
}

// The search sees the outer graph alone, where nothing leads to the parameters.
TEST(DdpCheckpointTest, TheSearchForUnusedParametersDoesNotSeeInside) {
  const MiniResult result = run_mini_world({.n_ranks = 1}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable a = model.parameter("a", {3});
    Ddp ddp(model.state(), rank.group, {.find_unused_parameters = true});
    ddp.before_forward(true);
    sum(ddp.after_forward(times(input(rank, 2), a))).backward();
  });
  EXPECT_EQ(result.error(0).find("Expected to mark a variable ready only once."), 0U)
      << result.error(0);
}

// One layer, checkpointed twice: it fires twice.
TEST(DdpCheckpointTest, ALayerCheckpointedTwiceIsReadyTwice) {
  const MiniResult result = run_mini_world({.n_ranks = 1}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable a = model.parameter("a", {3});
    const Variable b = model.parameter("b", {5});
    Ddp ddp(model.state(), rank.group, {});
    ddp.before_forward(true);
    sum(ddp.after_forward(times(times(mul(input(rank, 2), b), a), a))).backward();
  });
  EXPECT_EQ(result.error(0).find("Expected to mark a variable ready only once."), 0U)
      << result.error(0);
}

TEST(DdpCheckpointTest, AStaticGraphCountsBothFirings) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable a = model.parameter("a", {3});
    const Variable b = model.parameter("b", {5});
    Ddp ddp(model.state(), rank.group, {.static_graph = true});
    for (int step = 0; step < 3; ++step) {
      a.set_grad(Tensor());
      b.set_grad(Tensor());
      ddp.before_forward(true);
      const Variable x = input(rank, 2.0 + 2 * rank.rank);
      sum(ddp.after_forward(times(times(mul(x, b), a), a))).backward();
      EXPECT_EQ(grad_of(a), (Values{90})) << step;  // mean(x) * b * 2a
      EXPECT_EQ(grad_of(b), (Values{27})) << step;  // mean(x) * a * a
    }
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
}

// A single shared parameter: the inner pass that fires first completes all buckets, so gradients
// are published at its end and the second firing is local. No error, and ranks differ.
TEST(DdpCheckpointTest, AnInnerPassThatCompletesTheBucketsFinishesTheReduction) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable a = model.parameter("a", {3});
    Ddp ddp(model.state(), rank.group, {});
    ddp.before_forward(true);
    const double mine = 2.0 + 2 * rank.rank;
    sum(ddp.after_forward(times(times(input(rank, mine), a), a))).backward();
    // The last layer first: mean(x * a) = 9, then this rank's own x * a = 6 or 12.
    EXPECT_EQ(grad_of(a), (Values{9 + 3 * mine}));
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
}

// Without reentrance the outer graph is whole: the search sees inside, and a layer that is
// checkpointed twice is ready once, with the sum of both uses.
TEST(DdpCheckpointTest, WithoutReentranceNothingIsSpecial) {
  for (const bool find_unused : {false, true}) {
    const MiniResult result = run_mini_world({}, [find_unused](MiniRank& rank) {
      TinyModel model(rank.runtime);
      const Variable a = model.parameter("a", {3});
      const Variable b = model.parameter("b", {5});
      const auto segment = [a](std::span<const Variable> in) { return mul(in[0], a); };
      const CheckpointOptions recorded{.use_reentrant = false};
      Ddp ddp(model.state(), rank.group, {.find_unused_parameters = find_unused});
      for (int step = 0; step < 3; ++step) {
        a.set_grad(Tensor());
        b.set_grad(Tensor());
        ddp.before_forward(true);
        Variable y = mul(input(rank, 2.0 + 2 * rank.rank), b);
        y = checkpoint(segment, {checkpoint(segment, {y}, recorded)}, recorded);
        sum(ddp.after_forward(y)).backward();
        EXPECT_EQ(grad_of(a), (Values{90})) << step;  // mean(x) * b * 2a
        EXPECT_EQ(grad_of(b), (Values{27})) << step;  // mean(x) * a * a
      }
    });
    ASSERT_TRUE(result.ok()) << result.error(0);
  }
}

}  // namespace
}  // namespace lockstep
