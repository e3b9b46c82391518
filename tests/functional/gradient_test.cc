// Every function's gradient against central differences.
#include <array>

#include <gtest/gtest.h>

#include "lockstep/autograd/node.h"
#include "lockstep/functional/functions.h"

#include "tests/functional/gradient_check.h"

namespace lockstep {
namespace {

using testing::Arithmetic;
using testing::compare_gradients;
using testing::PlainRuntime;
using testing::ScalarFunction;
using testing::Tolerance;

class GradientTest : public ::testing::Test {
 protected:
  Variable leaf(const Shape& shape, std::initializer_list<double> values) {
    return Variable(exact_.tensor(shape, values), true);
  }

  Variable smooth_leaf(const Shape& shape, std::initializer_list<double> values) {
    return Variable(plain_.tensor(shape, values), true);
  }

  static void expect_exact(const ScalarFunction& f, const std::vector<Variable>& inputs) {
    EXPECT_EQ(compare_gradients(f, inputs, Tolerance::kExact), "");
  }

  static void expect_smooth(const ScalarFunction& f,
                            const std::vector<Variable>& inputs,
                            double n_ops) {
    EXPECT_EQ(compare_gradients(f, inputs, Tolerance::kSmooth, n_ops), "");
  }

  PlainRuntime exact_{Arithmetic::kExact};  // A rounding operation throws.
  PlainRuntime plain_;
};

TEST_F(GradientTest, ElementWiseArithmeticHasTheGradientOfDifferences) {
  const std::vector inputs{leaf({2, 2}, {1, -2, 3, 0.5}), leaf({2, 2}, {-1, 4, 0.25, 2})};
  const auto weights = Variable(exact_.tensor({2, 2}, {1, 2, -3, 5}));

  for (const auto& op : {&add, &sub, &mul}) {
    expect_exact([&](const auto& in) { return sum(mul(op(in[0], in[1]), weights)); }, inputs);
  }
}

TEST_F(GradientTest, AValueUsedTwiceHasTheGradientOfDifferences) {
  expect_exact([](const auto& in) { return sum(mul(in[0], in[0])); }, {leaf({3}, {1, -2, 3})});
}

TEST_F(GradientTest, ScaleReshapeAndSumHaveTheGradientOfDifferences) {
  const auto weights = Variable(exact_.tensor({3, 2}, {1, 2, -3, 5, 0.5, -1}));

  expect_exact(
      [&](const auto& in) {
        return sum(mul(reshape(scale(in[0], -0.75), {3, 2}), weights));
      },
      {leaf({2, 3}, {1, 2, 3, 4, 5, 6})});
}

TEST_F(GradientTest, LinearHasTheGradientOfDifferences) {
  const auto weights = Variable(exact_.tensor({2, 2}, {1, 2, -3, 5}));

  expect_exact(
      [&](const auto& in) { return sum(mul(linear(in[0], in[1], in[2]), weights)); },
      {leaf({2, 3}, {1, 2, 3, 4, 5, 6}), leaf({2, 3}, {1, -1, 2, 0.5, 3, -2}), leaf({2}, {1, -4})});
}

TEST_F(GradientTest, LinearWithoutBiasHasTheGradientOfDifferences) {
  expect_exact([](const auto& in) { return sum(linear(in[0], in[1], Variable())); },
               {leaf({2, 3}, {1, 2, 3, 4, 5, 6}), leaf({2, 3}, {1, -1, 2, 0.5, 3, -2})});
}

TEST_F(GradientTest, ReluHasTheGradientOfDifferencesAwayFromItsKink) {
  const auto weights = Variable(exact_.tensor({4}, {1, 2, -3, 5}));

  expect_exact([&](const auto& in) { return sum(mul(relu(in[0]), weights)); },
               {leaf({4}, {1, -2, 0.5, -0.25})});
}

TEST_F(GradientTest, MeanAndSummedSquaredErrorHaveTheGradientOfDifferences) {
  const Tensor target = exact_.tensor({2, 2}, {1, 2, 3, 4});
  const std::vector inputs{leaf({2, 2}, {3, -1, 0.5, 4})};

  expect_exact([&](const auto& in) { return mse_loss(in[0], target); }, inputs);
  expect_exact([&](const auto& in) { return mse_loss(in[0], target, 1.0); }, inputs);
  expect_exact([&](const auto& in) { return mse_loss(in[0], target, 32.0); }, inputs);
}

TEST_F(GradientTest, AbsoluteErrorHasTheGradientOfDifferencesAwayFromItsKink) {
  const Tensor target = exact_.tensor({2, 2}, {1, 2, 3, 4});
  const std::vector inputs{leaf({2, 2}, {3, -1, 0.5, 4.25})};

  expect_exact([&](const auto& in) { return l1_loss(in[0], target); }, inputs);
  expect_exact([&](const auto& in) { return l1_loss(in[0], target, 2.0); }, inputs);
}

TEST_F(GradientTest, TanhHasTheGradientOfDifferences) {
  expect_smooth([](const auto& in) { return sum(tanh(in[0])); },
                {smooth_leaf({4}, {0.0, -0.7, 1.3, 3.0})},
                16);
}

TEST_F(GradientTest, CrossEntropyHasTheGradientOfDifferences) {
  Tensor labels = plain_.tensor({2}, {2, 0}, DType::kI64);
  const std::vector inputs{smooth_leaf({2, 3}, {0.3, -1.2, 2.0, 0.1, 0.2, -0.4})};

  expect_smooth([&](const auto& in) { return cross_entropy(in[0], labels); }, inputs, 32);
  expect_smooth([&](const auto& in) { return cross_entropy(in[0], labels, 8.0); }, inputs, 32);
}

class BatchNormGradientTest : public GradientTest {
 protected:
  // Buffers are made again: a training forward changes them.
  ScalarFunction weighted_batch_norm(bool training) {
    return [this, training](const std::vector<Variable>& in) {
      const BatchNormBuffers buffers{.running_mean = plain_.tensor({2}, {0.5, -1.0}),
                                     .running_var = plain_.tensor({2}, {2.0, 0.25})};
      const auto weights = Variable(plain_.tensor({3, 2}, {1, 2, -3, 5, 0.5, -1}));
      const Variable y = batch_norm(in[0], in[1], in[2], buffers, {.training = training});
      return sum(mul(y, weights));
    };
  }

  std::vector<Variable> inputs() {
    return {smooth_leaf({3, 2}, {0.3, -1.2, 2.0, 0.1, 0.2, -0.4}),
            smooth_leaf({2}, {1.5, -0.5}),
            smooth_leaf({2}, {0.25, 3.0})};
  }
};

TEST_F(BatchNormGradientTest, TrainingHasTheGradientOfDifferences) {
  expect_smooth(weighted_batch_norm(true), inputs(), 64);
}

TEST_F(BatchNormGradientTest, EvaluationHasTheGradientOfDifferences) {
  expect_smooth(weighted_batch_norm(false), inputs(), 64);
}

// Negative twins: a wrong gradient is detected, however the right answer is approached.
class WrongNode final : public Node {
 public:
  explicit WrongNode(double factor) : factor_(factor) {}

  void run(Tensor&& grad) override {
    Tensor out = writable_like(grad);
    kernels().scale(out, grad, factor_);
    send(0, std::move(out));
  }

 private:
  double factor_;
};

Variable identity_with_slope(const Variable& x, double slope) {
  const auto node = Node::make<WrongNode>(x.runtime(), slope);
  node->connect(0, x);
  return Node::attach(x.data().clone(), node);
}

TEST_F(GradientTest, AFactorThatIsWrongByOneUlpIsNoticedByTheExactCheck) {
  const double slope = 1.0 + std::numeric_limits<double>::epsilon();
  const std::vector inputs{smooth_leaf({2}, {1, 2})};

  const auto wrong = [&](const auto& in) { return sum(identity_with_slope(in[0], slope)); };
  const auto right = [&](const auto& in) { return sum(identity_with_slope(in[0], 1.0)); };

  EXPECT_NE(compare_gradients(wrong, inputs, Tolerance::kExact), "");
  EXPECT_EQ(compare_gradients(right, inputs, Tolerance::kExact), "");
}

TEST_F(GradientTest, AFactorThatIsWrongByAMillionthIsNoticedByTheSmoothCheck) {
  const std::vector inputs{smooth_leaf({2}, {0.5, -2})};

  const auto wrong = [](const auto& in) {
    return sum(tanh(identity_with_slope(in[0], 1.0 + 1e-6)));
  };

  EXPECT_NE(compare_gradients(wrong, inputs, Tolerance::kSmooth, 16), "");
}

}  // namespace
}  // namespace lockstep
