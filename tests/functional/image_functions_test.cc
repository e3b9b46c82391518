// Convolution, pools, sigmoid, dropout masks and batch norm of images: gradients against
// differences, values by hand.
#include "lockstep/functional/image_functions.h"

#include <stdexcept>

#include <gtest/gtest.h>

#include "lockstep/functional/layer_functions.h"

#include "tests/functional/gradient_check.h"

namespace lockstep {
namespace {

using testing::Arithmetic;
using testing::compare_gradients;
using testing::PlainRuntime;
using testing::ScalarFunction;
using testing::Tolerance;
using testing::values_of;

class ImageFunctionsTest : public ::testing::Test {
 protected:
  /// Different small integers over four, in an order that is not monotone. Exact in every product
  /// here.
  static Tensor filled(Runtime& runtime, const Shape& shape, std::int64_t seed) {
    const Tensor tensor = Tensor::empty(runtime, shape, DType::kF64);
    for (std::int64_t i = 0; i < tensor.n_elems(); ++i) {
      const std::int64_t mixed = (i * 37 + seed * 11) % 101;
      tensor.data<double>()[i] = static_cast<double>(mixed - 50) / 4.0;
    }
    return tensor;
  }

  Variable leaf(const Shape& shape, std::int64_t seed) {
    return Variable(filled(exact_, shape, seed), true);
  }

  Variable smooth_leaf(const Shape& shape, std::int64_t seed) {
    const Tensor tensor = filled(plain_, shape, seed);
    plain_.kernels().scale(tensor, tensor, 0.07);
    return Variable(tensor, true);
  }

  /// The sum of y, each element with a different weight: no error can cancel.
  static Variable weighted(const Variable& y) {
    return sum(mul(y, Variable(filled(y.runtime(), y.shape(), 5))));
  }

  static void expect_exact(const ScalarFunction& f, const std::vector<Variable>& inputs) {
    EXPECT_EQ(compare_gradients(f, inputs, Tolerance::kExact), "");
  }

  static void expect_smooth(const ScalarFunction& f, const std::vector<Variable>& inputs) {
    EXPECT_EQ(compare_gradients(f, inputs, Tolerance::kSmooth, 128), "");
  }

  PlainRuntime exact_{Arithmetic::kExact};  // A rounding operation throws.
  PlainRuntime plain_;
};

TEST_F(ImageFunctionsTest, ConvolutionHasTheGradientOfDifferences) {
  for (const Convolution options : {Convolution{1, 0}, Convolution{2, 1}, Convolution{1, 2}}) {
    expect_exact([&](const auto& in) { return weighted(conv2d(in[0], in[1], in[2], options)); },
                 {leaf({2, 2, 4, 3}, 1), leaf({3, 2, 2, 3}, 2), leaf({3}, 3)});
  }
}

TEST_F(ImageFunctionsTest, ConvolutionWithoutBiasHasTheGradientOfDifferences) {
  expect_exact(
      [](const auto& in) {
        return weighted(conv2d(in[0], in[1], Variable(), {2, 0}));
      },
      {leaf({1, 2, 5, 4}, 1), leaf({2, 2, 3, 2}, 2)});
}

TEST_F(ImageFunctionsTest, PoolsHaveTheGradientOfDifferences) {
  const Kernels::Window overlapping{.height = 2, .width = 2, .stride = 1, .padding = 1};
  const Kernels::Window wide{.height = 1, .width = 4, .stride = 2, .padding = 0};
  for (const Kernels::Window& window : {overlapping, wide}) {
    expect_exact([&](const auto& in) { return weighted(max_pool2d(in[0], window)); },
                 {leaf({2, 2, 3, 5}, 1)});
    expect_exact([&](const auto& in) { return weighted(avg_pool2d(in[0], window)); },
                 {leaf({2, 2, 3, 5}, 1)});
  }
}

TEST_F(ImageFunctionsTest, AConvolutionEqualsTheOneComputedByHand) {
  const Variable x(exact_.tensor({1, 1, 2, 3}, {1, 2, 3, 4, 5, 6}), true);
  const Variable weight(exact_.tensor({1, 1, 2, 2}, {1, 10, 100, 1000}), true);
  const Variable bias(exact_.tensor({1}, {0.5}), true);

  const Variable y = conv2d(x, weight, bias);
  sum(y).backward();

  EXPECT_EQ(y.shape(), Shape({1, 1, 1, 2}));
  EXPECT_EQ(values_of(y.data()), (std::vector<double>{5421.5, 6532.5}));  // Not flipped.
  EXPECT_EQ(values_of(x.grad()), (std::vector<double>{1, 11, 10, 100, 1100, 1000}));
  EXPECT_EQ(values_of(weight.grad()), (std::vector<double>{3, 5, 9, 11}));
  EXPECT_EQ(values_of(bias.grad()), (std::vector<double>{2}));
}

TEST_F(ImageFunctionsTest, PoolsEqualThoseComputedByHand) {
  const Variable x(exact_.tensor({1, 1, 2, 4}, {1, 7, 3, 3, 5, 2, 3, 3}), true);
  const Kernels::Window window{.height = 2, .width = 2, .stride = 2, .padding = 0};

  EXPECT_EQ(values_of(max_pool2d(x, window).data()), (std::vector<double>{7, 3}));
  EXPECT_EQ(values_of(avg_pool2d(x, window).data()), (std::vector<double>{3.75, 3}));
}

TEST_F(ImageFunctionsTest, SigmoidHasTheGradientOfDifferences) {
  expect_smooth([](const auto& in) { return weighted(sigmoid(in[0])); }, {smooth_leaf({3, 4}, 1)});
}

TEST_F(ImageFunctionsTest, AGivenDropoutMaskIsAFactor) {
  const Variable mask(exact_.tensor({2, 2}, {2, 0, 0, 2}));

  expect_exact([&](const auto& in) { return weighted(mul(in[0], mask)); }, {leaf({2, 2}, 1)});
}

TEST_F(ImageFunctionsTest, EmbeddingHasTheGradientOfDifferences) {
  const Tensor indices = exact_.tensor({4}, {2, 0, 2, 1}, DType::kI64);

  expect_exact([&](const auto& in) { return weighted(embedding(in[0], indices)); },
               {leaf({3, 2}, 1)});
}

class ImageBatchNormTest : public ImageFunctionsTest {
 protected:
  ScalarFunction batch_norm_of(bool training) {
    return [this, training](const std::vector<Variable>& in) {
      const BatchNormBuffers buffers{.running_mean = plain_.tensor({2}, {0.5, -1.0}),
                                     .running_var = plain_.tensor({2}, {2.0, 0.25})};
      const Variable none;
      const bool affine = in.size() == 3;
      return weighted(batch_norm(
          in[0], affine ? in[1] : none, affine ? in[2] : none, buffers, {.training = training}));
    };
  }
};

TEST_F(ImageBatchNormTest, HasTheGradientOfDifferences) {
  for (const bool training : {true, false}) {
    expect_smooth(batch_norm_of(training),
                  {smooth_leaf({2, 2, 3, 2}, 1), smooth_leaf({2}, 2), smooth_leaf({2}, 3)});
  }
}

TEST_F(ImageBatchNormTest, HasTheGradientOfDifferencesWithoutWeights) {
  for (const bool training : {true, false}) {
    expect_smooth(batch_norm_of(training), {smooth_leaf({2, 2, 3, 2}, 1)});
    expect_smooth(batch_norm_of(training), {smooth_leaf({5, 2}, 1)});
  }
}

TEST_F(ImageBatchNormTest, NormalisesChannelsAsTheColumnsOfAllTheirPositions) {
  const Variable image = smooth_leaf({2, 3, 2, 2}, 1);
  const Variable columns = smooth_leaf({8, 3}, 1);
  for (std::int64_t n = 0; n < 2; ++n) {
    for (std::int64_t c = 0; c < 3; ++c) {
      for (std::int64_t i = 0; i < 4; ++i) {
        columns.data().data<double>()[(n * 4 + i) * 3 + c] = image.data().at((n * 3 + c) * 4 + i);
      }
    }
  }

  const Variable y = batch_norm(image, {}, {}, {}, {});
  const Variable rows = batch_norm(columns, {}, {}, {}, {});

  for (std::int64_t i = 0; i < 24; ++i) {
    const std::int64_t n = i / 12;
    const std::int64_t c = i / 4 % 3;
    EXPECT_EQ(y.data().at(i), rows.data().at((n * 4 + i % 4) * 3 + c));
  }
}

// -- refusals and negative twins

TEST_F(ImageFunctionsTest, ShapesThatDoNotFitAreRefused) {
  const Variable image = leaf({1, 2, 3, 3}, 1);

  EXPECT_THROW(conv2d(image, leaf({1, 3, 2, 2}, 1), {}), ContractViolation);
  EXPECT_THROW(conv2d(image, leaf({1, 2, 4, 4}, 1), {}), ContractViolation);
  EXPECT_THROW(conv2d(image, leaf({2, 2, 2, 2}, 1), leaf({3}, 1)), ContractViolation);
  EXPECT_THROW(conv2d(image, leaf({2, 2, 2, 2}, 1), {}, {.stride = 0}), ContractViolation);
  EXPECT_THROW(max_pool2d(image, {.height = 4, .width = 1}), ContractViolation);
  EXPECT_THROW(avg_pool2d(image, {.height = 2, .width = 2, .padding = 2}), ContractViolation);
  EXPECT_THROW(batch_norm(leaf({1, 2}, 1), {}, {}, {}, {}), std::invalid_argument);
  EXPECT_THROW(batch_norm(image, {}, {}, {}, {.training = false}), ContractViolation);
}

TEST_F(ImageFunctionsTest, AFilterSlidOverTheWrongPlaceIsNoticed) {
  const Variable x = leaf({1, 1, 4, 4}, 1);
  const Variable weight = leaf({1, 1, 2, 2}, 2);
  sum(conv2d(x, weight, {}, {.stride = 2, .padding = 1})).backward();
  const std::vector<double> right = values_of(weight.grad());
  weight.set_grad({});

  sum(conv2d(x, weight, {}, {.stride = 1, .padding = 0})).backward();

  EXPECT_NE(values_of(weight.grad()), right);
}

TEST_F(ImageFunctionsTest, AWarmStepAsksTheSystemForNothing) {
  const Variable x = smooth_leaf({2, 2, 6, 6}, 1);
  const Variable weight = smooth_leaf({3, 2, 3, 3}, 2);
  const Variable bias = smooth_leaf({3}, 3);
  const Kernels::Window window{.height = 2, .width = 2, .stride = 2, .padding = 0};
  const auto step = [&] {
    const Variable y = relu(batch_norm(conv2d(x, weight, bias), {}, {}, {}, {}));
    sum(avg_pool2d(max_pool2d(y, window), window)).backward();
    for (const Variable* leaf : {&x, &weight, &bias}) leaf->set_grad({});
  };
  step();
  const std::int64_t before = plain_.pool().system_allocations();

  for (int i = 0; i < 100; ++i) step();

  EXPECT_EQ(plain_.pool().system_allocations(), before);
}

}  // namespace
}  // namespace lockstep
