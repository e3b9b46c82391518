// Kernels that move elements: values by hand, and the adjoint of unfold.
#include <gtest/gtest.h>

#include "lockstep/base/check.h"

#include "tests/support/plain_runtime.h"

namespace lockstep {
namespace {

using testing::Arithmetic;
using testing::PlainRuntime;
using testing::values_of;
using Values = std::vector<double>;

class MovementsTest : public ::testing::Test {
 protected:
  Tensor empty(const Shape& shape, DType dtype = DType::kF64) {
    return Tensor::empty(rt_, shape, dtype);
  }

  Tensor counting(const Shape& shape) {
    const Tensor tensor = empty(shape);
    for (std::int64_t i = 0; i < tensor.n_elems(); ++i) {
      tensor.data<double>()[i] = static_cast<double>(i + 1);
    }
    return tensor;
  }

  PlainRuntime rt_{Arithmetic::kExact};  // Nothing here may round.
};

TEST_F(MovementsTest, SwapMiddleTransposesTheTwoMiddleAxes) {
  const Tensor out = empty({1, 3, 2, 2});
  rt_.kernels().swap_middle(out, counting({1, 2, 3, 2}));
  EXPECT_EQ(values_of(out), (Values{1, 2, 7, 8, 3, 4, 9, 10, 5, 6, 11, 12}));

  const Tensor back = empty({1, 2, 3, 2});
  rt_.kernels().swap_middle(back, out);
  EXPECT_EQ(values_of(back), values_of(counting({1, 2, 3, 2})));
}

TEST_F(MovementsTest, UnfoldListsEachWindowAsAColumn) {
  const Tensor out = empty({4, 4});
  rt_.kernels().unfold(out, counting({1, 3, 3}), {.height = 2, .width = 2});
  EXPECT_EQ(values_of(out), (Values{1, 2, 4, 5, 2, 3, 5, 6, 4, 5, 7, 8, 5, 6, 8, 9}));
}

TEST_F(MovementsTest, UnfoldReadsZerosInThePadding) {
  const Tensor out = empty({1, 4});
  rt_.kernels().unfold(out, counting({1, 2, 2}), {.stride = 3, .padding = 2});
  EXPECT_EQ(values_of(out), (Values{0, 0, 0, 4}));
}

TEST_F(MovementsTest, FoldIsTheAdjointOfUnfold) {
  const Kernels::Window window{.height = 3, .width = 2, .stride = 2, .padding = 1};
  const Tensor image = counting({2, 5, 4});
  const Tensor columns = counting({12, 9});
  const Tensor unfolded = empty({12, 9});
  const Tensor folded = empty({2, 5, 4});

  rt_.kernels().unfold(unfolded, image, window);
  rt_.kernels().fold(folded, columns, window);

  double left = 0.0;
  double right = 0.0;
  for (std::int64_t i = 0; i < 108; ++i) left += unfolded.at(i) * columns.at(i);
  for (std::int64_t i = 0; i < 40; ++i) right += image.at(i) * folded.at(i);
  EXPECT_EQ(left, right);
  EXPECT_NE(left, 0.0);
}

TEST_F(MovementsTest, MaxPoolTakesTheFirstOfTheLargestAndSendsTheGradientThere) {
  const Tensor in = rt_.tensor({1, 1, 2, 4}, {3, 1, -5, -7, 3, 2, -6, -5});
  const Tensor out = empty({1, 1, 1, 2});
  const Tensor positions = empty({1, 1, 1, 2}, DType::kI64);
  rt_.kernels().max_pool(out, positions, in, {.height = 2, .width = 2, .stride = 2});
  EXPECT_EQ(values_of(out), (Values{3, -5}));
  EXPECT_EQ(values_of(positions), (Values{0, 2}));

  const Tensor grad = empty({1, 1, 2, 4});
  rt_.kernels().max_pool_backward(grad, rt_.tensor({1, 1, 1, 2}, {10, 20}), positions);
  EXPECT_EQ(values_of(grad), (Values{10, 0, 20, 0, 0, 0, 0, 0}));
}

TEST_F(MovementsTest, ImpossibleWindowsAreRefused) {
  const Tensor out = empty({1, 1});
  EXPECT_THROW(rt_.kernels().unfold(out, counting({1, 2, 2}), {.height = 3}), ContractViolation);
  EXPECT_THROW(rt_.kernels().unfold(out, counting({1, 2, 2}), {.stride = 0}), ContractViolation);
}

TEST_F(MovementsTest, ASumThatRoundsIsNoticedInExactArithmetic) {
  const Tensor table = rt_.tensor({1, 1}, {1.0});
  const Tensor tiny = rt_.tensor({1, 1}, {1e-30});
  const Tensor index = rt_.tensor({1}, {0}, DType::kI64);
  EXPECT_THROW(rt_.kernels().scatter_add_rows(table, tiny, index, -1), InexactOperation);
}

}  // namespace
}  // namespace lockstep
