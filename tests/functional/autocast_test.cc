// Autocast's rules for one rank; bits of single operations are compared with PyTorch's in
// tests/live/autocast.py. What is expected here, PyTorch 2.15 answers too, unless it is said why not.
#include "lockstep/autograd/autocast.h"

#include <gtest/gtest.h>

#include "lockstep/autograd/checkpoint.h"
#include "lockstep/functional/cast.h"
#include "lockstep/functional/functions.h"
#include "lockstep/functional/layer_functions.h"
#include "lockstep/tensor/kernels.h"

#include "tests/support/plain_runtime.h"

namespace lockstep {
namespace {

using testing::PlainRuntime;
using testing::values_of;

constexpr AutocastOptions kBf16{.dtype = DType::kBF16};
constexpr double kOneAndABit = 1.0 + 0x1p-9;  ///< An f32 that bf16 rounds to 1.

class AutocastTest : public ::testing::Test {
 protected:
  Variable number(double value, DType dtype = DType::kF32, bool requires_grad = false) {
    return Variable(plain_.tensor({1, 1}, {value}, dtype), requires_grad);
  }

  Variable parameter(double value) { return number(value, DType::kF32, true); }

  static void write(const Variable& parameter, double value) {
    parameter.runtime().kernels().fill(parameter.data(), value);
    parameter.data().storage()->bump_version();
  }

  PlainRuntime plain_;
};

TEST_F(AutocastTest, LayersComputeIn16BitsAndTheirParametersHaveF32Gradients) {
  const Variable weight = parameter(1.0);
  Variable y;
  {
    const AutocastGuard autocast(plain_, kBf16);
    y = linear(number(kOneAndABit), weight, {});
  }
  sum(y).backward();

  EXPECT_EQ(y.data().dtype(), DType::kBF16);
  EXPECT_EQ(y.item(), 1.0);
  EXPECT_EQ(weight.grad().dtype(), DType::kF32);
  EXPECT_EQ(weight.grad().item(), 1.0);
}

TEST_F(AutocastTest, LossesComputeInF32WhateverTheyAreGiven) {
  const AutocastGuard autocast(plain_, kBf16);

  const Variable loss = mse_loss(number(3.0, DType::kBF16), number(3.0 + 0x1p-10).data());

  EXPECT_EQ(loss.data().dtype(), DType::kF32);
  EXPECT_EQ(loss.item(), 0x1p-20);
}

TEST_F(AutocastTest, OtherOperationsTakeWhatTheyAreGivenAndTheWiderOfTwo) {
  const AutocastGuard autocast(plain_, kBf16);
  const Variable narrow = number(1.0, DType::kBF16);

  EXPECT_EQ(relu(number(1.0)).data().dtype(), DType::kF32);
  EXPECT_EQ(softmax(narrow).data().dtype(), DType::kBF16);
  EXPECT_EQ(sum(narrow).data().dtype(), DType::kBF16);
  EXPECT_EQ(add(narrow, number(1.0)).data().dtype(), DType::kF32);
  EXPECT_EQ(mul(narrow, number(1.0, DType::kF16)).data().dtype(), DType::kF32);
}

TEST_F(AutocastTest, LeavesDoublePrecisionAlone) {
  const AutocastGuard autocast(plain_, kBf16);
  const Variable x = number(kOneAndABit, DType::kF64);

  EXPECT_EQ(linear(x, x, {}).data().dtype(), DType::kF64);
  EXPECT_EQ(mse_loss(x, x.data()).data().dtype(), DType::kF64);
}

TEST_F(AutocastTest, EndsWithItsRegion) {
  const Variable weight = parameter(1.0);
  { const AutocastGuard autocast(plain_, kBf16); }

  EXPECT_EQ(linear(number(1.0), weight, {}).data().dtype(), DType::kF32);
}

TEST_F(AutocastTest, ADisabledRegionInsideOfAnotherOneComputesAsGiven) {
  const Variable weight = parameter(1.0);
  const AutocastGuard autocast(plain_, kBf16);
  {
    const AutocastGuard off(plain_, {.enabled = false});

    EXPECT_EQ(linear(number(1.0), weight, {}).data().dtype(), DType::kF32);
    EXPECT_THROW(linear(number(1.0, DType::kBF16), weight, {}), ContractViolation);
  }

  EXPECT_EQ(linear(number(1.0), weight, {}).data().dtype(), DType::kBF16);
}

TEST_F(AutocastTest, ConvertsAParameterOnceUntilTheOutermostRegionEnds) {
  const Variable weight = parameter(1.0);
  {
    const AutocastGuard autocast(plain_, kBf16);
    linear(number(1.0), weight, {});
    write(weight, 2.0);
    { const AutocastGuard inner(plain_, kBf16); }

    EXPECT_EQ(linear(number(1.0), weight, {}).item(), 1.0);
  }
  const AutocastGuard autocast(plain_, kBf16);
  EXPECT_EQ(linear(number(1.0), weight, {}).item(), 2.0);
}

TEST_F(AutocastTest, WithoutTheCacheConvertsAParameterForEachUse) {
  const Variable weight = parameter(1.0);
  const AutocastGuard autocast(plain_, {.dtype = DType::kBF16, .cache_enabled = false});
  linear(number(1.0), weight, {});
  write(weight, 2.0);

  EXPECT_EQ(linear(number(1.0), weight, {}).item(), 2.0);
}

// 256 + 1 is not a bf16: it rounds to 256.
TEST_F(AutocastTest, UsesOfAConvertedParameterAddTheirGradientsUpIn16Bits) {
  const auto gradient = [&](bool cache_enabled) {
    const Variable weight = parameter(1.0);
    Variable total;
    {
      const AutocastGuard autocast(plain_, {.dtype = DType::kBF16, .cache_enabled = cache_enabled});
      total = add(linear(number(256.0), weight, {}), linear(number(1.0), weight, {}));
    }
    sum(total).backward();
    return weight.grad().item();
  };

  EXPECT_EQ(gradient(true), 256.0);
  EXPECT_EQ(gradient(false), 257.0);
}

TEST_F(AutocastTest, AParameterThatWasConvertedWithoutGradientsHasOneLater) {
  const Variable weight = parameter(1.0);
  const AutocastGuard autocast(plain_, kBf16);
  {
    const NoGradGuard no_grad(plain_);
    EXPECT_FALSE(linear(number(3.0), weight, {}).requires_grad());
  }

  sum(linear(number(3.0), weight, {})).backward();
  EXPECT_EQ(weight.grad().item(), 3.0);
}

TEST_F(AutocastTest, TwoBackwardsMayUseOneConversion) {
  const Variable weight = parameter(1.0);
  const AutocastGuard autocast(plain_, kBf16);

  sum(linear(number(3.0), weight, {})).backward();
  sum(linear(number(4.0), weight, {})).backward();

  EXPECT_EQ(weight.grad().item(), 7.0);
}

TEST_F(AutocastTest, ARegionOfTheOther16BitsFindsAConvertedParameterAndIsRefused) {
  const Variable weight = parameter(1.0);
  const AutocastGuard autocast(plain_, kBf16);
  linear(number(1.0), weight, {});
  const AutocastGuard other(plain_, {.dtype = DType::kF16});

  EXPECT_THROW(linear(number(1.0), weight, {}), ContractViolation);
}

// PyTorch warns and computes as given.
TEST_F(AutocastTest, RefusesToComputeInOtherTypes) {
  EXPECT_THROW(AutocastGuard(plain_, {.dtype = DType::kF32}), ContractViolation);
  EXPECT_NO_THROW(AutocastGuard(plain_, {.dtype = DType::kF32, .enabled = false}));
}

TEST_F(AutocastTest, WhatACheckpointComputesAgainIsComputedIn16BitsAgain) {
  for (const bool reentrant : {true, false}) {
    const Variable weight = parameter(1.0);
    const Variable x = parameter(kOneAndABit);
    const auto layer = [&](std::span<const Variable> in) { return linear(in[0], weight, {}); };
    Variable y;
    {
      const AutocastGuard autocast(plain_, kBf16);
      y = checkpoint(layer, {x}, {.use_reentrant = reentrant});
    }
    sum(y).backward();

    EXPECT_EQ(weight.grad().item(), 1.0) << "reentrant " << reentrant;
  }
}

TEST_F(AutocastTest, BelongsToOneRank) {
  PlainRuntime other;
  const Variable weight(other.tensor({1, 1}, {1.0}, DType::kF32));
  const AutocastGuard autocast(plain_, kBf16);

  EXPECT_EQ(linear(weight, weight, {}).data().dtype(), DType::kF32);
}

TEST_F(AutocastTest, NormsTake16BitRowsBesideF32Parameters) {
  const Variable rows(plain_.tensor({2, 2}, {1, 3, 2, 6}, DType::kBF16), true);
  const Variable weight(plain_.tensor({2}, {1, 1}, DType::kF32), true);
  const Variable bias(plain_.tensor({2}, {0, 0}, DType::kF32), true);

  const Variable y = layer_norm(rows, weight, bias, 0.0);
  sum(y).backward();

  EXPECT_EQ(y.data().dtype(), DType::kBF16);
  EXPECT_EQ(values_of(y.data()), (std::vector<double>{-1, 1, -1, 1}));
  EXPECT_EQ(values_of(bias.grad()), (std::vector<double>{2, 2}));
  EXPECT_EQ(weight.grad().dtype(), DType::kF32);
}

TEST_F(AutocastTest, NormsRefuse16BitParametersBesideF32Rows) {
  const Variable rows(plain_.tensor({2, 2}, {1, 3, 2, 6}, DType::kF32));
  const Variable narrow(plain_.tensor({2}, {1, 1}, DType::kBF16));

  EXPECT_THROW(layer_norm(rows, narrow, narrow), ContractViolation);
  EXPECT_THROW(batch_norm(rows, narrow, narrow, {}, {}), ContractViolation);
}

}  // namespace
}  // namespace lockstep
