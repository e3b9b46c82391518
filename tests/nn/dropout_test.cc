// Dropout against a real PyTorch (tests/golden/layers_init.txt) and by its definition.
#include "lockstep/nn/dropout.h"

#include <bit>

#include <gtest/gtest.h>

#include "lockstep/functional/functions.h"

#include "tests/golden/golden_file.h"
#include "tests/support/plain_runtime.h"

namespace lockstep::nn {
namespace {

using lockstep::testing::PlainRuntime;
using lockstep::testing::values_of;

TEST(DropoutTest, KeepsWhatTorchKeepsAndScalesItAsTorchDoes) {
  PlainRuntime rt;
  int n_cases = 0;
  for (const golden::Case& one : golden::read("layers_init.txt")) {
    if (one.kind != "dropout") continue;
    Generator generator(42);
    Dropout layer(rt, parse_double(one.arguments[0]).value(), generator);
    const Tensor ones = Tensor::full(rt, {30}, DType::kF32, 1.0);

    const Tensor y = layer(Variable(ones)).data();

    std::vector<std::int64_t> words;
    for (const float value : y.span<float>()) words.push_back(std::bit_cast<std::int32_t>(value));
    EXPECT_EQ(golden::listed(words), one.values) << one.text();
    ++n_cases;
  }
  EXPECT_EQ(n_cases, 3);
}

TEST(DropoutTest, TheGradientGoesThroughTheSameMask) {
  PlainRuntime rt(lockstep::testing::Arithmetic::kExact);
  Generator generator(1);
  Dropout layer(rt, 0.5, generator);
  const Variable x(Tensor::full(rt, {64}, DType::kF64, 1.0), true);

  const Variable y = layer(x);
  sum(y).backward();

  EXPECT_EQ(values_of(x.grad()), values_of(y.data()));
  EXPECT_NE(values_of(y.data()), values_of(layer(x).data()));  // A new call, a new mask.
}

TEST(DropoutTest, EvaluationAndZeroProbabilityAreTheIdentityAndDrawNothing) {
  PlainRuntime rt;
  Generator generator(1);
  Generator untouched(1);
  const Variable x(rt.tensor({3}, {1, 2, 3}));
  Dropout never(rt, 0.0, generator);
  Dropout resting(rt, 0.5, generator);
  resting.eval();

  EXPECT_EQ(never(x), x);
  EXPECT_EQ(resting(x), x);
  EXPECT_EQ(generator.random(), untouched.random());
}

TEST(DropoutTest, CertainDropoutLeavesNothingAndDrawsNothing) {
  PlainRuntime rt;
  Generator generator(1);
  Generator untouched(1);
  Dropout layer(rt, 1.0, generator);

  EXPECT_EQ(values_of(layer(Variable(rt.tensor({2}, {1, 2}))).data()), (std::vector<double>{0, 0}));
  EXPECT_EQ(generator.random(), untouched.random());
}

}  // namespace
}  // namespace lockstep::nn
