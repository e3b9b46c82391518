// Softmax, GELU, layer norm and embedding: gradients against differences, values by hand.
#include "lockstep/functional/layer_functions.h"

#include <gtest/gtest.h>

#include "tests/functional/gradient_check.h"

namespace lockstep {
namespace {

using testing::Arithmetic;
using testing::compare_gradients;
using testing::PlainRuntime;
using testing::ScalarFunction;
using testing::Tolerance;

class LayerFunctionsTest : public ::testing::Test {
 protected:
  Variable leaf(const Shape& shape, std::initializer_list<double> values) {
    return Variable(plain_.tensor(shape, values), true);
  }

  Variable square() { return leaf({3, 3}, {0.3, -1.2, 2.0, 0.1, 0.2, -0.4, 1.0, -0.7, 0.6}); }

  // The sum of y, each element with a different weight: no error can cancel.
  Variable weighted(const Variable& y) {
    const Tensor weights = Tensor::empty(plain_, y.shape(), DType::kF64);
    for (std::int64_t i = 0; i < weights.n_elems(); ++i) {
      weights.data<double>()[i] = static_cast<double>(i * i % 7) - 2.5;
    }
    return sum(mul(y, Variable(weights)));
  }

  static void expect_smooth(const ScalarFunction& f, const std::vector<Variable>& inputs) {
    EXPECT_EQ(compare_gradients(f, inputs, Tolerance::kSmooth, 64), "");
  }

  PlainRuntime plain_;
};

TEST_F(LayerFunctionsTest, SoftmaxAndItsLogarithmHaveTheGradientOfDifferences) {
  expect_smooth([&](const auto& in) { return weighted(softmax(in[0])); }, {square()});
  expect_smooth([&](const auto& in) { return weighted(softmax(in[0], {.causal = true})); },
                {square()});
  expect_smooth([&](const auto& in) { return weighted(log_softmax(in[0])); }, {square()});
}

TEST_F(LayerFunctionsTest, BothFormsOfGeluHaveTheGradientOfDifferences) {
  expect_smooth([&](const auto& in) { return weighted(gelu(in[0])); }, {square()});
  expect_smooth([&](const auto& in) { return weighted(gelu(in[0], Kernels::Gelu::kTanh)); },
                {square()});
}

TEST_F(LayerFunctionsTest, LayerNormHasTheGradientOfDifferences) {
  expect_smooth([&](const auto& in) { return weighted(layer_norm(in[0], in[1], in[2])); },
                {square(), leaf({3}, {1.5, -0.5, 2.0}), leaf({3}, {0.25, 3.0, -1.0})});
}

TEST_F(LayerFunctionsTest, AGradientOfTheOtherGeluIsNoticed) {
  const Variable x = leaf({1}, {1.5});
  gelu(x, Kernels::Gelu::kErf).backward();
  const double erf_slope = x.grad().item();
  x.set_grad({});

  gelu(x, Kernels::Gelu::kTanh).backward();

  EXPECT_NE(x.grad().item(), erf_slope);
}

TEST_F(LayerFunctionsTest, ACausalRowSeesNothingOfItsFuture) {
  const Variable before = softmax(square(), {.causal = true});
  const Variable future = leaf({3, 3}, {0.3, 9, 9, 0.1, 0.2, 9, 1.0, -0.7, 0.6});
  const Variable after = softmax(future, {.causal = true});

  for (std::int64_t i = 0; i < 9; ++i) EXPECT_EQ(before.data().at(i), after.data().at(i));
  EXPECT_EQ(before.data().at(0), 1.0);
  EXPECT_EQ(before.data().at(1), 0.0);
  EXPECT_NE(softmax(future).data().at(0), 1.0);  // Without the mask it does see it.
}

TEST_F(LayerFunctionsTest, EmbeddingAddsTheGradientsOfARowUsedTwiceAndSkipsPadding) {
  PlainRuntime exact(Arithmetic::kExact);
  const Variable table(exact.tensor({3, 2}, {1, 2, 3, 4, 5, 6}), true);
  const Tensor indices = exact.tensor({4}, {2, 0, 2, 1}, DType::kI64);
  const Variable weights(exact.tensor({4, 2}, {1, 10, 2, 20, 4, 40, 8, 80}));

  const Variable y = embedding(table, indices, 1);
  sum(mul(y, weights)).backward();

  EXPECT_EQ(testing::values_of(y.data()), (std::vector<double>{5, 6, 1, 2, 5, 6, 3, 4}));
  EXPECT_EQ(testing::values_of(table.grad()), (std::vector<double>{2, 20, 0, 0, 5, 50}));
}

TEST_F(LayerFunctionsTest, AnIndexOutsideTheTableIsRefused) {
  const Variable table = leaf({2, 1}, {1, 2});
  EXPECT_THROW(embedding(table, plain_.tensor({1}, {2}, DType::kI64)), ContractViolation);
  EXPECT_THROW(embedding(table, plain_.tensor({1}, {-1}, DType::kI64)), ContractViolation);
}

TEST_F(LayerFunctionsTest, AWarmStepAsksTheSystemForNothing) {
  const Variable table = square();
  const Variable weight = leaf({3}, {1.5, -0.5, 2.0});
  const Variable bias = leaf({3}, {0.25, 3.0, -1.0});
  const Tensor indices = plain_.tensor({3}, {2, 0, 2}, DType::kI64);
  const auto step = [&] {
    const Variable h = gelu(layer_norm(embedding(table, indices), weight, bias));
    sum(softmax(h, {.causal = true})).backward();
    for (const Variable* leaf : {&table, &weight, &bias}) leaf->set_grad({});
  };
  step();
  const std::int64_t before = plain_.pool().system_allocations();

  for (int i = 0; i < 100; ++i) step();

  EXPECT_EQ(plain_.pool().system_allocations(), before);
}

}  // namespace
}  // namespace lockstep
