#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tests/support/test_runtime.h"

namespace lockstep {
namespace {

using testing::TestRuntime;
using testing::values_of;
using Values = std::vector<double>;

class ElementwiseTest : public ::testing::TestWithParam<DType> {
 protected:
  Tensor make(const Values& values) {
    return Tensor::of(
        test_.runtime, {static_cast<std::int64_t>(values.size())}, GetParam(), values);
  }

  Tensor like(const Tensor& tensor) {
    return Tensor::empty(test_.runtime, tensor.shape(), tensor.dtype());
  }

  Kernels& kernels() { return *test_.kernels; }

  TestRuntime test_;
};

TEST_P(ElementwiseTest, ArithmeticOfTwoTensorsIsExactOnSmallNumbers) {
  const Tensor a = make({6, -3, 1});
  const Tensor b = make({2, 4, -8});
  const Tensor out = like(a);

  kernels().add(out, a, b);
  EXPECT_EQ(values_of(out), (Values{8, 1, -7}));
  kernels().sub(out, a, b);
  EXPECT_EQ(values_of(out), (Values{4, -7, 9}));
  kernels().mul(out, a, b);
  EXPECT_EQ(values_of(out), (Values{12, -12, -8}));
  kernels().div(out, a, b);
  EXPECT_EQ(values_of(out), (Values{3, -0.75, -0.125}));
  kernels().add_scaled(out, a, b, 0.5);
  EXPECT_EQ(values_of(out), (Values{7, -1, -3}));
}

TEST_P(ElementwiseTest, AnOutputMayBeAnInput) {
  Values values(100);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  const Tensor a = make(values);

  kernels().add(a, a, a);
  kernels().mul(a, a, a);

  for (std::int64_t i = 0; i < 100; ++i) EXPECT_EQ(a.at(i), static_cast<double>(4 * i * i));
}

TEST_P(ElementwiseTest, AScalarMultipliesOrDividesEachElement) {
  const Tensor a = make({3, -6});
  const Tensor out = like(a);

  kernels().scale(out, a, 0.5);
  EXPECT_EQ(values_of(out), (Values{1.5, -3}));
  kernels().div_scalar(out, a, 3.0);
  EXPECT_EQ(values_of(out), (Values{1, -2}));
}

TEST_P(ElementwiseTest, DividingIsNotMultiplyingByTheReciprocal) {
  Values values;
  for (int i = 1; i <= 50; ++i) values.push_back(i);
  const Tensor a = make(values);
  const Tensor divided = like(a);
  const Tensor averaged = like(a);

  kernels().div_scalar(divided, a, 49.0);
  kernels().average_into_bucket(averaged, a, 49.0);

  EXPECT_EQ(divided.at(48), 1.0);
  EXPECT_NE(values_of(divided), values_of(averaged));
}

TEST_P(ElementwiseTest, ARowIsAddedToEachRow) {
  const Tensor a = make({1, 2, 3, 4, 5, 6}).reshape({2, 3});
  const Tensor row = make({10, 20, 30});
  const Tensor out = like(a);

  kernels().add_row(out, a, row);

  EXPECT_EQ(values_of(out), (Values{11, 22, 33, 14, 25, 36}));
}

TEST_P(ElementwiseTest, ARowOfOneElementIsAddedToEachRow) {
  const Tensor a = make({1, 2, 3, 4, 5, 6, 7, 8, 9}).reshape({9, 1});

  kernels().add_row(a, a, make({10}));

  EXPECT_EQ(values_of(a), (Values{11, 12, 13, 14, 15, 16, 17, 18, 19}));
}

TEST_P(ElementwiseTest, ReluPassesNanAndCutsNegatives) {
  const Tensor a = make({-1, 0, 2, std::nan("")});
  const Tensor out = like(a);

  kernels().relu(out, a);

  EXPECT_EQ(out.at(0), 0.0);
  EXPECT_EQ(out.at(1), 0.0);
  EXPECT_EQ(out.at(2), 2.0);
  EXPECT_TRUE(std::isnan(out.at(3)));
}

TEST_P(ElementwiseTest, ReluLetsGradientsThroughPositiveResultsOnly) {
  const Tensor grad = make({5, 5, 5});
  const Tensor y = make({0, 2, 0.5});
  const Tensor out = like(grad);

  kernels().relu_backward(out, grad, y);

  EXPECT_EQ(values_of(out), (Values{0, 5, 5}));
}

// |computed - tanh| <= 2 ulp (glibc's documented bound for tanh); the reference is long double.
TEST_P(ElementwiseTest, TanhIsWithinTheLibrarysBound) {
  Values values;
  for (int i = -40; i <= 40; ++i) values.push_back(i / 8.0);
  const Tensor a = make(values);
  const Tensor out = like(a);

  kernels().tanh(out, a);

  const double unit = GetParam() == DType::kF32 ? 0x1p-24 : 0x1p-53;
  for (std::int64_t i = 0; i < a.n_elems(); ++i) {
    const auto exact = static_cast<double>(std::tanh(static_cast<long double>(a.at(i))));
    EXPECT_LE(std::fabs(out.at(i) - exact), 4 * unit * std::fabs(exact)) << a.at(i);
  }
}

TEST_P(ElementwiseTest, TheGridRoundsHalfToEvenAndClamps) {
  const Tensor a = make({0.125, 0.375, -0.125, 0.3, 100, -100});
  const Tensor out = like(a);

  kernels().round_to_grid(out, a, 2, 1.5);  // Steps of 1/4.

  EXPECT_EQ(values_of(out), (Values{0, 0.5, 0, 0.25, 1.5, -1.5}));
}

TEST_P(ElementwiseTest, OperandsMustAgree) {
  const Tensor two = make({1, 2});
  const Tensor three = make({1, 2, 3});

  EXPECT_THROW(kernels().add(two, two, three), ContractViolation);
  EXPECT_THROW(kernels().relu(three, two), ContractViolation);
  EXPECT_THROW(kernels().add(two, two, two.to(DType::kI32)), ContractViolation);
}

TEST_P(ElementwiseTest, SumsGoByIndex) {
  const Tensor a = make({1, 2, 3, 4, 5, 6}).reshape({3, 2});
  const Tensor rows = Tensor::empty(test_.runtime, {2}, GetParam());
  const Tensor all = Tensor::empty(test_.runtime, {}, GetParam());

  kernels().sum_rows(rows, a);
  kernels().sum_all(all, a);

  EXPECT_EQ(values_of(rows), (Values{9, 12}));
  EXPECT_EQ(all.item(), 21.0);
}

// In index order the small number is lost in the large one before the large one cancels.
TEST_P(ElementwiseTest, TheOrderOfSumsIsTheIndexOrder) {
  const Tensor a = make({1e20, 1, -1e20, 1, 1e20, 1, -1e20, 1});
  const Tensor all = Tensor::empty(test_.runtime, {}, GetParam());
  const Tensor column = Tensor::empty(test_.runtime, {1}, GetParam());

  kernels().sum_all(all, a);
  kernels().sum_rows(column, a.reshape({8, 1}));

  EXPECT_EQ(all.item(), 1.0);
  EXPECT_EQ(column.item(), 1.0);
}

INSTANTIATE_TEST_SUITE_P(Floats,
                         ElementwiseTest,
                         ::testing::Values(DType::kF32, DType::kF64),
                         [](const auto& suite) { return std::string(name_of(suite.param)); });

}  // namespace
}  // namespace lockstep
