// Parameters in 16 bits, and ordinary layers under mixed_precision.
#include <algorithm>

#include <gtest/gtest.h>

#include "lockstep/functional/cast.h"

#include "tests/ddp/tiny_model.h"
#include "tests/support/mini_world.h"

namespace lockstep {
namespace {

using testing::collectives_of;
using testing::grad_of;
using testing::MiniRank;
using testing::MiniResult;
using testing::run_mini_world;
using testing::TinyModel;
using Values = std::vector<double>;

/// One row of weights per dtype, each in a linear layer.
struct NarrowLayers : TinyModel {
  NarrowLayers(Runtime& rt, const std::vector<DType>& dtypes, std::size_t width) : TinyModel(rt) {
    const Values zeros(width, 0.0);
    for (const DType dtype : dtypes) {
      weights.push_back(parameter("net." + std::string(name_of(dtype)), zeros, dtype));
    }
  }

  std::vector<NamedVariable> named_parameters() { return parameters; }

  std::vector<NamedVariable> named_buffers() { return buffers; }

  static bool is_training() { return true; }

  /// Each layer's output, added up in f32. The gradient of each weight is x in its dtype.
  Variable forward(const Variable& x) {
    Variable total;
    for (const Variable& weight : weights) {
      const Variable row = reshape(weight, {1, weight.shape()[0]});
      const Variable input = cast(x, weight.data().dtype());
      const Variable out = sum(cast(linear(input, row, Variable()), DType::kF32));
      total = total.defined() ? add(total, out) : out;
    }
    return total;
  }

  std::vector<Variable> weights;
};

using Wrapped = DistributedDataParallel<NarrowLayers>;

Variable row_of(Runtime& runtime, const Values& values) {
  const Shape shape{1, static_cast<std::int64_t>(values.size())};
  return Variable(Tensor::of(runtime, shape, DType::kF32, values));
}

Values input_of(std::int64_t rank) {
  const auto s = static_cast<double>(std::int64_t{1} << rank);
  return {s, s * 1.5, s * 1.25, s + 3, 7 - s};
}

// What PyTorch 2.15 leaves in .grad of Linear(5, 1) with these inputs on three gloo processes.
const Values kBFloatGrad{2.328125, 3.5, 2.90625, 5.3125, 4.65625};
const Values kHalfGrad{2.333984375, 3.5, 2.91796875, 5.3359375, 4.66796875};

void step(MiniRank& rank, Values& brain, Values& half) {
  NarrowLayers model(rank.runtime, {DType::kBF16, DType::kF16}, 5);
  Wrapped ddp(model, rank.group);
  ddp(row_of(rank.runtime, input_of(rank.rank))).backward();
  brain = grad_of(model.weights[0]);
  half = grad_of(model.weights[1]);
}

TEST(DdpNarrowTest, BucketsOfEachTypeAreAveragedWithTheRoundingsOfPyTorchOnGloo) {
  for (const auto order : {ReductionOrder::kGlooRing, ReductionOrder::kRank}) {
    std::vector<Values> brain(3);
    std::vector<Values> half(3);
    const MiniResult result = run_mini_world({.n_ranks = 3, .order = order}, [&](MiniRank& rank) {
      const auto r = static_cast<std::size_t>(rank.rank);
      step(rank, brain[r], half[r]);
    });
    ASSERT_TRUE(result.ok()) << result.error(0);
    const auto calls = collectives_of(*result.trace, 0);
    EXPECT_EQ(std::count(calls.begin(), calls.end(), "AR bf16[5]"), 1);
    EXPECT_EQ(std::count(calls.begin(), calls.end(), "AR f16[5]"), 1);
    for (std::size_t r = 0; r < 3; ++r) {
      if (order == ReductionOrder::kGlooRing) {
        EXPECT_EQ(brain[r], kBFloatGrad);
        EXPECT_EQ(half[r], kHalfGrad);
      } else {
        EXPECT_NE(brain[r],
                  kBFloatGrad);  // (1/3 + 2/3) + 4/3 is a tie in bf16, 1/3 + (2/3 + 4/3) none.
      }
    }
  }
}

// 2049 is no f16: the layer sees 2048.
TEST(DdpNarrowTest, AnOrdinaryLayerComputesInTheParameterTypeOfMixedPrecision) {
  for (const bool mixed : {true, false}) {
    const MiniResult result = run_mini_world({}, [mixed](MiniRank& rank) {
      NarrowLayers model(rank.runtime, {DType::kF32}, 2);
      DdpOptions options;
      if (mixed) options.mixed_precision = MixedPrecision{};
      Wrapped ddp(model, rank.group, options);
      const Values x = rank.rank == 0 ? Values{2049, 1} : Values{4, 3};
      ddp(row_of(rank.runtime, x)).backward();
      EXPECT_EQ(grad_of(model.weights[0]), (mixed ? Values{1026, 2} : Values{1026.5, 2}));
      EXPECT_EQ(model.weights[0].grad().dtype(), DType::kF32);
    });
    ASSERT_TRUE(result.ok()) << result.error(0);
    EXPECT_EQ(collectives_of(*result.trace, 0).back(), mixed ? "AR f16[2]" : "AR f32[2]");
  }
}

}  // namespace
}  // namespace lockstep
