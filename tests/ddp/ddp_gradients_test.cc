// What a synchronising backward leaves in .grad, bit for bit.
#include <bit>

#include <gtest/gtest.h>

#include "tests/ddp/recorded_inputs.h"
#include "tests/ddp/tiny_model.h"
#include "tests/support/mini_world.h"

namespace lockstep {
namespace {

using testing::collectives_of;
using testing::data_of;
using testing::forward_backward;
using testing::grad_of;
using testing::MiniOptions;
using testing::MiniRank;
using testing::MiniResult;
using testing::run_mini_world;
using testing::term;
using testing::TinyModel;
using testing::total;
using Texts = std::vector<std::string>;
using Values = std::vector<double>;

std::vector<std::uint32_t> bits_of(const Tensor& tensor) {
  std::vector<std::uint32_t> bits;
  for (const float value : tensor.span<float>())
    bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

void descend(const Variable& w) {
  const std::span<float> data = w.data().span<float>();
  const std::span<float> grad = w.grad().span<float>();
  for (std::size_t i = 0; i < data.size(); ++i) data[i] -= grad[i];
  w.set_grad(Tensor());
}

// (w - 1)^2 has the gradient 2 (w - 1): from rank 0's weight 2, gradients 2 and 2, then -2 and -2.
TEST(DdpGradientsTest, WeightsTwoAndTwoHundredTrainFromRankZero) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable w = model.parameter("w", {rank.rank == 0 ? 2.0 : 200.0});
    Ddp ddp(model.state(), rank.group, {});
    const Tensor one = Tensor::full(rank.runtime, {1}, DType::kF32, 1.0);
    const auto loss = [&] { return mse_loss(w, one); };

    forward_backward(ddp, loss);
    EXPECT_EQ(grad_of(w), (Values{2}));
    descend(w);
    EXPECT_EQ(data_of(w), (Values{0}));
    forward_backward(ddp, loss);
    EXPECT_EQ(grad_of(w), (Values{-2}));
    descend(w);
    EXPECT_EQ(data_of(w), (Values{2}));
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
}

// The negative twin: writing rank 1's weight after wrapping keeps replicas apart, and only the
// average (2 + 398) / 2 = 200 is common.
TEST(DdpGradientsTest, AWeightWrittenAfterWrappingStaysDifferent) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable w = model.parameter("w", {2});
    Ddp ddp(model.state(), rank.group, {});
    if (rank.rank == 1) w.data().span<float>()[0] = 200.0F;
    const Tensor one = Tensor::full(rank.runtime, {1}, DType::kF32, 1.0);
    forward_backward(ddp, [&] { return mse_loss(w, one); });
    EXPECT_EQ(grad_of(w), (Values{200}));
    descend(w);
    EXPECT_EQ(data_of(w), (Values{rank.rank == 0 ? -198.0 : 0.0}));
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
}

// ---- the three ways to divide

constexpr float kGradients[3] = {0.1F, 0.2F, 0.9F};
const float kThird = static_cast<float>(1.0 / 3.0);

float copied_mean() {
  return (kGradients[0] * kThird + kGradients[1] * kThird) + kGradients[2] * kThird;
}

float divided_mean() {
  return (kGradients[0] / 3.0F + kGradients[1] / 3.0F) + kGradients[2] / 3.0F;
}

float mean_of_sum() { return ((kGradients[0] + kGradients[1]) + kGradients[2]) / 3.0F; }

std::vector<float> gradients_of_two_steps(bool as_view, bool set_to_none) {
  std::vector<float> grads;
  const MiniResult result = run_mini_world({.n_ranks = 3}, [&](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable w = model.parameter("w", {1});
    Ddp ddp(model.state(), rank.group, {.gradient_as_bucket_view = as_view});
    for (int step = 0; step < 2; ++step) {
      forward_backward(ddp, [&] { return term(w, {kGradients[rank.rank]}); });
      if (rank.rank == 2) grads.push_back(w.grad().span<float>()[0]);
      if (set_to_none) {
        w.set_grad(Tensor());
      } else {
        w.grad().span<float>()[0] = 0.0F;
      }
    }
  });
  EXPECT_TRUE(result.ok()) << result.error(0);
  return grads;
}

TEST(DdpGradientsTest, TheThreeMeansDiffer) {
  ASSERT_NE(copied_mean(), divided_mean());
  ASSERT_NE(copied_mean(), mean_of_sum());
  ASSERT_NE(divided_mean(), mean_of_sum());
}

TEST(DdpGradientsTest, TheCopyMultipliesByTheReciprocal) {
  EXPECT_EQ(gradients_of_two_steps(false, false),
            (std::vector<float>{copied_mean(), copied_mean()}));
  EXPECT_EQ(gradients_of_two_steps(false, true),
            (std::vector<float>{copied_mean(), copied_mean()}));
}

TEST(DdpGradientsTest, AViewIsDividedInPlaceFromTheSecondTimeOn) {
  EXPECT_EQ(gradients_of_two_steps(true, false),
            (std::vector<float>{copied_mean(), divided_mean()}));
}

TEST(DdpGradientsTest, AGradientSetToNoneIsCopiedIntoTheViewAgain) {
  EXPECT_EQ(gradients_of_two_steps(true, true), (std::vector<float>{copied_mean(), copied_mean()}));
}

// Recorded from PyTorch 1.13 on gloo with three ranks, which hold the first three kRecordedInputs.
const std::vector<std::uint32_t> kCopied = {0xbf4a0912,
                                            0x3eb89ac8,
                                            0xbf3ab0c0,
                                            0x3e4abefe,
                                            0x3d600054,
                                            0xbe56c51e,
                                            0xbe304d84,
                                            0xbf088580,
                                            0xbef03938,
                                            0xbeb7fea5};
const std::vector<std::uint32_t> kDivided = {0xbf4a0910,
                                             0x3eb89ac8,
                                             0xbf3ab0bf,
                                             0x3e4abefe,
                                             0x3d600058,
                                             0xbe56c51e,
                                             0xbe304d82,
                                             0xbf088580,
                                             0xbef03938,
                                             0xbeb7fea4};

void expect_recorded_gradients(bool as_view) {
  const MiniOptions options{.n_ranks = 3, .order = ReductionOrder::kGlooRing};
  const MiniResult result = run_mini_world(options, [as_view](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable w = model.parameter("w", Values(10));
    Ddp ddp(model.state(), rank.group, {.gradient_as_bucket_view = as_view});
    Values input;
    for (const std::uint32_t word : testing::kRecordedInputs[static_cast<std::size_t>(rank.rank)]) {
      input.push_back(std::bit_cast<float>(word));
    }
    for (int step = 0; step < 3; ++step) {
      forward_backward(ddp, [&] { return term(w, input); });
      EXPECT_EQ(bits_of(w.grad()), as_view && step > 0 ? kDivided : kCopied);
      for (float& value : w.grad().span<float>()) value = 0.0F;
    }
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
}

TEST(DdpGradientsTest, MatchesPyTorchOnGlooBitForBit) {
  for (const bool as_view : {false, true}) expect_recorded_gradients(as_view);
}

// ---- accumulation

void expect_accumulation(bool as_view) {
  const MiniResult result = run_mini_world({}, [as_view](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable w = model.parameter("w", {0});
    Ddp ddp(model.state(), rank.group, {.gradient_as_bucket_view = as_view});
    const double mine = rank.rank == 0 ? 1.0 : 5.0;
    {
      const NoSync no_sync(ddp);
      EXPECT_FALSE(ddp.require_sync());
      forward_backward(ddp, [&] { return term(w, {mine}); });
      forward_backward(ddp, [&] { return term(w, {mine}); });
      EXPECT_EQ(grad_of(w), (Values{2 * mine}));
    }
    EXPECT_TRUE(ddp.require_sync());
    forward_backward(ddp, [&] { return term(w, {mine}); });
    EXPECT_EQ(grad_of(w), (Values{(3.0 + 15.0) / 2}));
    forward_backward(ddp, [&] { return term(w, {mine}); });  // Not zeroed: history is averaged too.
    EXPECT_EQ(grad_of(w), (Values{9.0 + 3.0}));
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
}

TEST(DdpGradientsTest, NoSyncAccumulatesLocallyAndTheNextSyncAveragesItAll) {
  for (const bool as_view : {false, true}) expect_accumulation(as_view);
}

TEST(DdpGradientsTest, NoSyncCountsInTheForwardNotInTheBackward) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable w = model.parameter("w", {0});
    Ddp ddp(model.state(), rank.group, {});
    const double mine = rank.rank == 0 ? 1.0 : 5.0;

    ddp.before_forward(true);
    const Variable synced = ddp.after_forward(term(w, {mine}));
    {
      const NoSync no_sync(ddp);
      synced.backward();
    }
    EXPECT_EQ(grad_of(w), (Values{3}));
    w.set_grad(Tensor());

    Variable local;
    {
      const NoSync no_sync(ddp);
      ddp.before_forward(true);
      local = ddp.after_forward(term(w, {mine}));
    }
    local.backward();
    EXPECT_EQ(grad_of(w), (Values{mine}));
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
}

TEST(DdpGradientsTest, NoSyncRestoresTheFlagWhenNestedOrLeftByAnException) {
  const MiniResult result = run_mini_world({.n_ranks = 1}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    model.parameter("w", {0});
    Ddp ddp(model.state(), rank.group, {});
    try {
      const NoSync outer(ddp);
      { const NoSync inner(ddp); }
      EXPECT_FALSE(ddp.require_sync());
      throw std::runtime_error("user code");
    } catch (const std::runtime_error&) {
      EXPECT_TRUE(ddp.require_sync());
    }
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
}

// A second backward through the same graph is not listened to: replicas diverge without an error.
TEST(DdpGradientsTest, OnlyTheFirstBackwardAfterAForwardIsReduced) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable w = model.parameter("w", {0});
    Ddp ddp(model.state(), rank.group, {});
    const double mine = rank.rank == 0 ? 1.0 : 5.0;
    ddp.before_forward(true);
    const Variable loss = ddp.after_forward(term(w, {mine}));
    loss.backward(true);
    EXPECT_EQ(grad_of(w), (Values{3}));
    loss.backward();
    EXPECT_EQ(grad_of(w), (Values{3 + mine}));
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
  const Texts expected = {"AG i64[1]", "B i64[2]", "B f32[1]", "AR f32[1]"};
  EXPECT_EQ(collectives_of(*result.trace, 0), expected);
}

// Two losses over disjoint parameters: the second backward completes the one reduction.
TEST(DdpGradientsTest, TwoBackwardsOverDisjointParametersMakeOneReduction) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable a = model.parameter("a", {0});
    const Variable b = model.parameter("b", {0});
    Ddp ddp(model.state(), rank.group, {});
    const double mine = rank.rank == 0 ? 1.0 : 5.0;
    for (int step = 0; step < 2; ++step) {
      ddp.before_forward(true);
      const Variable first = term(a, {mine});
      const Variable second = ddp.after_forward(term(b, {2 * mine}));
      first.backward();
      EXPECT_EQ(grad_of(a), (Values{mine}));
      second.backward();
      EXPECT_EQ(grad_of(a), (Values{3}));
      EXPECT_EQ(grad_of(b), (Values{6}));
      a.set_grad(Tensor());
      b.set_grad(Tensor());
    }
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
}

// The inner model called directly: gradients stay local until a wrapped step averages everything.
TEST(DdpGradientsTest, ABackwardThatWentAroundTheWrapperStaysLocal) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable w = model.parameter("w", {0});
    Ddp ddp(model.state(), rank.group, {});
    const double mine = rank.rank == 0 ? 1.0 : 5.0;
    term(w, {mine}).backward();
    EXPECT_EQ(grad_of(w), (Values{mine}));
    forward_backward(ddp, [&] { return term(w, {mine}); });
    EXPECT_EQ(grad_of(w), (Values{6}));
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
}

TEST(DdpGradientsTest, AParameterWithoutElementsTrains) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable empty = model.parameter("empty", Values{});
    const Variable w = model.parameter("w", {0});
    Ddp ddp(model.state(), rank.group, {});
    forward_backward(ddp, [&] {
      return total({term(empty, Values{}), term(w, {2.0 * rank.rank})});
    });
    EXPECT_EQ(grad_of(w), (Values{1}));
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
}

TEST(DdpGradientsTest, AWarmStepAllocatesNothing) {
  const MiniResult result = run_mini_world({.n_ranks = 1}, [](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable a = model.parameter("a", Values(16));
    const Variable b = model.parameter("b", Values(16));
    model.buffer("c", {1});
    model.buffer("d", {1});
    Ddp ddp(model.state(), rank.group, {});
    const auto step = [&] {
      forward_backward(ddp, [&] {
        return total({testing::flat_term(a, 1), testing::flat_term(b, 2)});
      });
      a.set_grad(Tensor());
      b.set_grad(Tensor());
    };
    for (int i = 0; i < 3; ++i) step();
    const std::int64_t before = rank.runtime.pool().system_allocations();
    for (int i = 0; i < 20; ++i) step();
    EXPECT_EQ(rank.runtime.pool().system_allocations(), before);
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
}

}  // namespace
}  // namespace lockstep
