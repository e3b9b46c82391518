// Joining and taking apart, by hand; their gradients by differences; and that gradients become ready in
// PyTorch's order.
#include "lockstep/functional/pieces.h"

#include <gmock/gmock.h>

#include <gtest/gtest.h>

#include "tests/functional/gradient_check.h"

namespace lockstep {
namespace {

using testing::Arithmetic;
using testing::compare_gradients;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::PlainRuntime;
using testing::ScalarFunction;
using testing::Tolerance;
using testing::values_of;

class PiecesTest : public ::testing::Test {
 protected:
  Variable leaf(const Shape& shape, std::initializer_list<double> values) {
    return Variable(exact_.tensor(shape, values), true);
  }

  Variable constant(const Shape& shape, std::initializer_list<double> values) {
    return Variable(exact_.tensor(shape, values));
  }

  template <typename Act>
  static std::string refusal(Act act) {
    try {
      act();
    } catch (const ContractViolation& refused) {
      return refused.what();
    }
    return "";
  }

  PlainRuntime exact_{Arithmetic::kExact};
};

TEST_F(PiecesTest, CatPutsRowsUnderRowsAndColumnsBesideColumns) {
  const Variable a = leaf({2, 2}, {1, 2, 3, 4});
  const Variable b = leaf({1, 2}, {5, 6});
  const Variable c = leaf({2, 1}, {7, 8});

  EXPECT_EQ(cat({a, b}).shape(), Shape({3, 2}));
  EXPECT_THAT(values_of(cat({a, b}).data()), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(cat({a, c}, 1).shape(), Shape({2, 3}));
  EXPECT_THAT(values_of(cat({a, c}, 1).data()), ElementsAre(1, 2, 7, 3, 4, 8));
  EXPECT_THAT(values_of(cat({a}).data()), ElementsAre(1, 2, 3, 4));
}

TEST_F(PiecesTest, StackMakesADimension) {
  const Variable a = leaf({2}, {1, 2});
  const Variable b = leaf({2}, {3, 4});

  EXPECT_EQ(stack({a, b, a}).shape(), Shape({3, 2}));
  EXPECT_THAT(values_of(stack({a, b}).data()), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(values_of(stack({a, b}, 1).data()), ElementsAre(1, 3, 2, 4));
}

TEST_F(PiecesTest, SliceTakesRowsAndColumns) {
  const Variable x = leaf({3, 2}, {1, 2, 3, 4, 5, 6});

  EXPECT_THAT(values_of(slice(x, 0, 1, 2).data()), ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(values_of(slice(x, 1, 1, 1).data()), ElementsAre(2, 4, 6));
  EXPECT_EQ(slice(x, 0, 3, 0).shape(), Shape({0, 2}));
}

TEST_F(PiecesTest, RowsShareMemoryAndAllElseDoesNot) {
  const Variable x = leaf({3, 2}, {1, 2, 3, 4, 5, 6});

  EXPECT_TRUE(slice(x, 0, 1, 2).data().shares_memory_with(x.data()));
  EXPECT_FALSE(slice(x, 1, 0, 1).data().shares_memory_with(x.data()));
  EXPECT_FALSE(clone(x).data().shares_memory_with(x.data()));
  EXPECT_FALSE(cat({x}).data().shares_memory_with(x.data()));
}

TEST_F(PiecesTest, PartsUsedTwiceUnderOtherWeightsHaveTheGradientOfDifferences) {
  const auto weights = constant({2, 5}, {1, 2, -3, 5, 0.5, -1, 4, 0.25, -2, 3});
  const ScalarFunction joined = [&](const auto& in) {
    return sum(mul(cat({in[0], in[1], in[2], in[0]}, 1), weights));
  };
  EXPECT_EQ(
      compare_gradients(joined,
                        {leaf({2, 1}, {1, 2}), leaf({2, 2}, {3, 4, 5, 6}), leaf({2, 1}, {7, 8})},
                        Tolerance::kExact),
      "");

  const auto rows = constant({5, 2}, {1, 2, -3, 5, 0.5, -1, 4, 0.25, -2, 3});
  const ScalarFunction stacked = [&](const auto& in) {
    return sum(mul(stack({in[0], in[1], in[2], in[1], in[0]}), rows));
  };
  EXPECT_EQ(
      compare_gradients(
          stacked, {leaf({2}, {1, 2}), leaf({2}, {3, 4}), leaf({2}, {5, 6})}, Tolerance::kExact),
      "");

  const ScalarFunction taken = [](const auto& in) {
    const Variable left = slice(in[0], 1, 0, 2);
    const Variable lower = slice(in[0], 0, 1, 1);
    return add(sum(mul(left, left)), sum(clone(mul(lower, lower))));
  };
  EXPECT_EQ(compare_gradients(taken, {leaf({2, 3}, {1, 2, 3, 4, 5, 6})}, Tolerance::kExact), "");
}

TEST_F(PiecesTest, PartsThatNeedNoGradientGetNone) {
  const Variable trained = leaf({1}, {1});
  const Variable fixed = constant({1}, {2});

  sum(cat({fixed, fixed, fixed, trained, fixed})).backward();

  EXPECT_EQ(trained.grad().item(), 1.0);
  EXPECT_FALSE(fixed.has_grad());
  EXPECT_FALSE(cat({fixed, fixed, fixed}).requires_grad());
  const NoGradGuard no_grad(exact_);
  EXPECT_FALSE(cat({trained, trained, trained}).requires_grad());
}

/// Notes which leaf became ready when.
class Order final : public GradHook {
 public:
  void on_grad_ready(std::size_t index) override { seen.push_back(index); }

  std::vector<std::size_t> seen;
};

// torch.cat is one node: its leaves in their order, then what was computed, the last first.
TEST_F(PiecesTest, GradientsBecomeReadyInTorchsOrder) {
  std::vector<Variable> leaves;
  Order order;
  for (std::size_t i = 0; i < 7; ++i) {
    leaves.push_back(leaf({1}, {1}));
    leaves.back().add_hook(order, i);
  }
  std::vector<Variable> parts = leaves;
  parts[1] = scale(leaves[1], 2.0);
  parts[4] = scale(leaves[4], 2.0);

  sum(cat(parts)).backward();

  EXPECT_THAT(order.seen, ElementsAre(0, 2, 3, 5, 6, 4, 1));
}

TEST_F(PiecesTest, SeveralFloatingTypesAreJoinedInTheWidest) {
  const Variable wide = leaf({1}, {1});
  const Variable narrow(exact_.tensor({1}, {2}, DType::kF32), true);

  const Variable joined = cat({narrow, wide});
  sum(joined).backward();

  EXPECT_EQ(joined.data().dtype(), DType::kF64);
  EXPECT_EQ(narrow.grad().dtype(), DType::kF32);
}

TEST_F(PiecesTest, WhatDoesNotFitIsRefusedWithItsShapes) {
  const Variable a = leaf({2, 2}, {1, 2, 3, 4});
  const Variable b = leaf({1, 3}, {5, 6, 7});
  const Variable whole(Tensor::zeros(exact_, {1, 2}, DType::kI64));

  EXPECT_THAT(refusal([&] { cat({}); }), HasSubstr("at least one"));
  EXPECT_THAT(refusal([&] { cat({a, b}); }), HasSubstr("not [2, 2], [1, 3]"));
  EXPECT_THAT(refusal([&] { cat({a, leaf({2}, {1, 2})}); }), HasSubstr("not [2, 2], [2]"));
  EXPECT_THAT(refusal([&] { cat({a, a}, 2); }), HasSubstr("along dimension 2 of [2, 2]"));
  EXPECT_THAT(refusal([&] { cat({a, whole}); }), HasSubstr("not f64 and i64"));
  EXPECT_THAT(refusal([&] { stack({a, a}, 3); }), HasSubstr("along dimension 3 of [2, 2]"));
  EXPECT_THAT(refusal([&] { stack({a, leaf({2}, {1, 2})}); }), HasSubstr("differ there alone"));
  EXPECT_THAT(refusal([&] { slice(a, 0, 1, 2); }), HasSubstr("2 positions from 1 on"));
  EXPECT_THAT(refusal([&] { slice(a, 0, -1, 1); }), HasSubstr("from -1 on"));
  EXPECT_THAT(refusal([&] { slice(a, 2, 0, 1); }), HasSubstr("along dimension 2"));
}

}  // namespace
}  // namespace lockstep
