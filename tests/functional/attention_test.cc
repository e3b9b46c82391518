// Attention: values by hand, gradients against differences, masks.
#include "lockstep/functional/attention.h"

#include <gtest/gtest.h>

#include "tests/functional/gradient_check.h"

namespace lockstep {
namespace {

using testing::Arithmetic;
using testing::PlainRuntime;
using testing::values_of;

class AttentionTest : public ::testing::Test {
 protected:
  Variable leaf(const Shape& shape, double factor, double offset = 0.0) {
    const Tensor values = Tensor::empty(plain_, shape, DType::kF64);
    for (std::int64_t i = 0; i < values.n_elems(); ++i) {
      values.data<double>()[i] = factor * (static_cast<double>(i * 7 % 11) - 5.0) + offset;
    }
    return Variable(values, true);
  }

  Variable weighted(const Variable& y) { return sum(mul(y, leaf(y.shape(), 0.25, 0.1).detach())); }

  PlainRuntime plain_;
};

// Scores far apart: each weight is 0 or 1 and nothing rounds. With D = 4 the scale is one half.
TEST_F(AttentionTest, PicksTheValueOfTheKeyThatFits) {
  const Variable q(plain_.tensor({1, 2, 4}, {0, 4096, 0, 0, 4096, 0, 0, 0}));
  const Variable k(plain_.tensor({1, 2, 4}, {1, 0, 0, 0, 0, 1, 0, 0}));
  const Variable v(plain_.tensor({1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}));

  const Variable open = attention(q, k, v, {.causal = false});
  const Variable causal = attention(q, k, v);

  EXPECT_EQ(values_of(open.data()), (std::vector<double>{5, 6, 7, 8, 1, 2, 3, 4}));
  EXPECT_EQ(values_of(causal.data()), (std::vector<double>{1, 2, 3, 4, 1, 2, 3, 4}));
}

// Equal scores: the mean of what is visible. g = (1, 1): dv spreads it by the weights, d_scores are
// w * (g v - mean) = 1/2 * (2 - 3), 1/2 * (4 - 3) for the second row.
TEST_F(AttentionTest, EqualScoresGiveTheMeanAndItsGradient) {
  PlainRuntime exact(Arithmetic::kExact);
  const Variable q(exact.tensor({1, 2, 1}, {0, 0}), true);
  const Variable k(exact.tensor({1, 2, 1}, {3, 5}), true);
  const Variable v(exact.tensor({1, 2, 1}, {2, 4}), true);

  const Variable y = attention(q, k, v);
  sum(y).backward();

  EXPECT_EQ(values_of(y.data()), (std::vector<double>{2, 3}));
  EXPECT_EQ(values_of(v.grad()), (std::vector<double>{1.5, 0.5}));
  EXPECT_EQ(values_of(q.grad()), (std::vector<double>{0, 1}));
  EXPECT_EQ(values_of(k.grad()), (std::vector<double>{0, 0}));
}

TEST_F(AttentionTest, HasTheGradientOfDifferences) {
  for (const bool causal : {true, false}) {
    const auto f = [&](const auto& in) {
      return weighted(attention(in[0], in[1], in[2], {.causal = causal}));
    };
    const std::vector inputs{
        leaf({2, 3, 2}, 0.3), leaf({2, 3, 2}, -0.2, 0.1), leaf({2, 3, 2}, 0.5)};
    EXPECT_EQ(testing::compare_gradients(f, inputs, testing::Tolerance::kSmooth, 200), "");
  }
}

TEST_F(AttentionTest, AMaskOfDropoutHasTheGradientOfDifferences) {
  const Tensor mask = plain_.tensor({1, 2, 3}, {0, 2, 2, 2, 0, 2});
  const auto f = [&](const auto& in) {
    return weighted(attention(in[0], in[1], in[2], {.causal = false, .dropout_mask = mask}));
  };
  const std::vector inputs{leaf({1, 2, 2}, 0.3), leaf({1, 3, 2}, 0.2), leaf({1, 3, 2}, 0.5)};
  EXPECT_EQ(testing::compare_gradients(f, inputs, testing::Tolerance::kSmooth, 200), "");
}

// The packed form reads the same heads: B = 2, T = 3, 2 heads of D = 2.
TEST_F(AttentionTest, ThePackedFormEqualsTheSeparateOne) {
  const Variable qkv = leaf({6, 12}, 0.25);
  std::vector<Variable> parts;
  for (std::int64_t kind = 0; kind < 3; ++kind) {
    const Tensor part = Tensor::empty(plain_, {4, 3, 2}, DType::kF64);
    for (std::int64_t i = 0; i < part.n_elems(); ++i) {
      const std::int64_t head = i / 6;
      const std::int64_t row = head / 2 * 3 + i / 2 % 3;
      part.data<double>()[i] = qkv.data().at(row * 12 + kind * 4 + head % 2 * 2 + i % 2);
    }
    parts.emplace_back(part, true);
  }

  const Variable packed = self_attention(qkv, {.batch = 2, .heads = 2});
  const Variable separate = attention(parts[0], parts[1], parts[2]);

  for (std::int64_t i = 0; i < 24; ++i) {
    const std::int64_t row = i / 4;
    const std::int64_t head = row / 3 * 2 + i % 4 / 2;
    EXPECT_EQ(packed.data().at(i), separate.data().at(head * 6 + row % 3 * 2 + i % 2)) << i;
  }
}

TEST_F(AttentionTest, ThePackedFormHasTheGradientOfDifferences) {
  const auto f = [&](const auto& in) {
    return weighted(self_attention(in[0], {.batch = 2, .heads = 2}));
  };
  EXPECT_EQ(testing::compare_gradients(f, {leaf({6, 12}, 0.25)}, testing::Tolerance::kSmooth, 200),
            "");
}

TEST_F(AttentionTest, ShapesThatDoNotFitAreRefused) {
  const Variable q = leaf({1, 2, 4}, 1);
  EXPECT_THROW(attention(q, leaf({1, 3, 4}, 1), leaf({1, 3, 4}, 1)), ContractViolation);
  EXPECT_THROW(attention(q, leaf({1, 2, 3}, 1), leaf({1, 2, 3}, 1)), ContractViolation);
  EXPECT_THROW(self_attention(leaf({4, 8}, 1), {.batch = 2, .heads = 1}), ContractViolation);
  EXPECT_THROW(self_attention(leaf({4, 6}, 1), {.batch = 3, .heads = 1}), ContractViolation);
}

TEST_F(AttentionTest, AWarmStepAsksTheSystemForNothing) {
  const Variable qkv = leaf({6, 12}, 0.25);
  const auto step = [&] {
    sum(self_attention(qkv, {.batch = 2, .heads = 2})).backward();
    qkv.set_grad({});
  };
  step();
  const std::int64_t before = plain_.pool().system_allocations();

  for (int i = 0; i < 100; ++i) step();

  EXPECT_EQ(plain_.pool().system_allocations(), before);
}

}  // namespace
}  // namespace lockstep
