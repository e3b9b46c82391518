#include <cfenv>

#include <gtest/gtest.h>

#include "tests/kernels/operation_cases.h"
#include "tests/support/test_runtime.h"

namespace lockstep {
namespace {

using testing::ExactTestRuntime;
using testing::values_of;

Tensor vector_of(Runtime& runtime, const std::vector<double>& values, DType dtype = DType::kF32) {
  return Tensor::of(runtime, {static_cast<std::int64_t>(values.size())}, dtype, values);
}

template <typename F>
std::string complaint(F run) {
  try {
    run();
  } catch (const InexactOperation& error) {
    return error.what();
  }
  return "";
}

/// Makes every operation one that rounds, as far as the processor's flag goes.
class Rounding final : public KernelObserver {
 public:
  void around(const KernelCall& /*call*/, KernelRun run) override {
    run();
    std::feraiseexcept(FE_INEXACT);
  }
};

TEST(ExactObserverTest, EveryOperationMustLeaveTheFlagAloneButTwo) {
  testing::TestRuntime test;
  ExactObserver exact;
  Rounding rounding;
  NestedObservers both(exact, rounding);
  for (const testing::OperationCase& c : testing::operation_cases()) {
    const testing::OperandList list = make_operands(test.runtime, c, testing::kNone);
    test.kernels->observe(&both);
    const std::string said = complaint([&] { (void)c.run(*test.kernels, list); });
    test.kernels->observe(nullptr);
    // The declared rounding, and an average, which is compared by value: these numbers have halves.
    const bool may = c.op == kernel_op("round_to_grid") || c.op == kernel_op("average_into_bucket");
    const std::string name(name_of(c.op));
    EXPECT_EQ(said, may ? "" : "operation '" + name + "' rounded; exact mode promises it does not");
  }
}

TEST(ExactObserverTest, DyadicArithmeticPasses) {
  ExactTestRuntime test;
  const Tensor a = vector_of(test.runtime, {0.5, -0.25, 3});
  const Tensor b = vector_of(test.runtime, {4, 2, 0.125});
  const Tensor out = Tensor::empty(test.runtime, {3}, DType::kF32);

  test.kernels->mul(out, a, b);

  EXPECT_EQ(values_of(out), (std::vector<double>{2, -0.5, 0.375}));
}

TEST(ExactObserverTest, ARoundedProductIsNamed) {
  ExactTestRuntime test;
  const Tensor a = vector_of(test.runtime, {0.1});

  EXPECT_EQ(complaint([&] { test.kernels->mul(a, a, a); }),
            "operation 'mul' rounded; exact mode promises it does not");
}

TEST(ExactObserverTest, OneRoundingAmongManyElementsIsSeen) {
  ExactTestRuntime test;
  std::vector<double> values(1000, 0.5);
  values[777] = 0.1;
  const Tensor a = vector_of(test.runtime, values, DType::kF64);

  EXPECT_NE(complaint([&] { test.kernels->mul(a, a, a); }), "");
}

TEST(ExactObserverTest, AnEarlierRoundingIsNotBlamedOnTheNextOperation) {
  ExactTestRuntime test;
  const Tensor rounded = vector_of(test.runtime, {0.1});
  const Tensor exact = vector_of(test.runtime, {2});

  EXPECT_NE(complaint([&] { test.kernels->mul(rounded, rounded, rounded); }), "");
  EXPECT_EQ(complaint([&] { test.kernels->mul(exact, exact, exact); }), "");
}

// 16-bit floats are rounded by integer arithmetic: f32 holds each of these results.
TEST(ExactObserverTest, ARoundingTo16BitsIsNamedWhereF32HoldsTheResult) {
  ExactTestRuntime test;
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    const double last = dtype == DType::kF16 ? 0x1p-10 : 0x1p-7;  // Of 1.
    const Tensor one = vector_of(test.runtime, {1, 1}, dtype);
    const Tensor least = vector_of(test.runtime, {0.5, last}, dtype);
    const Tensor half = vector_of(test.runtime, {0.5, last / 2}, dtype);
    const Tensor out = Tensor::empty(test.runtime, {2}, dtype);
    const Tensor total = Tensor::empty(test.runtime, {1}, dtype);

    EXPECT_EQ(complaint([&] { test.kernels->add(out, one, least); }), "");
    EXPECT_EQ(values_of(out), (std::vector<double>{1.5, 1 + last}));
    EXPECT_EQ(complaint([&] { test.kernels->add(out, one, half); }),
              "operation 'add' rounded; exact mode promises it does not");
    EXPECT_EQ(complaint([&] { test.kernels->sum_all(total, least); }), "");
    EXPECT_EQ(complaint([&] { test.kernels->sum_all(total, out); }), "");
    test.kernels->copy(out, vector_of(test.runtime, {1, last / 2}, dtype));
    EXPECT_EQ(complaint([&] { test.kernels->sum_all(total, out); }),
              "operation 'sum_all' rounded; exact mode promises it does not");
  }
}

TEST(ExactObserverTest, SumsOf16BitProductsRoundAtTheirEndAlone) {
  ExactTestRuntime test;
  const double wide = 1 + 0x1p-7;  // Its square, 1 + 2^-6 + 2^-14, is not a bf16.
  const auto b_of = [&](double last) {
    return Tensor::of(test.runtime, {2, 1}, DType::kBF16, std::vector{wide, last});
  };
  const Tensor a = Tensor::of(test.runtime, {1, 2}, DType::kBF16, std::vector{wide, 1.0});
  const Tensor out = Tensor::empty(test.runtime, {1, 1}, DType::kBF16);

  EXPECT_EQ(complaint([&] { test.kernels->gemm(out, a, b_of(-1 - 0x1p-6), {}); }), "");
  EXPECT_EQ(out.at(0), 0x1p-14);
  EXPECT_EQ(complaint([&] { test.kernels->gemm(out, a, b_of(-1), {}); }),
            "operation 'gemm' rounded; exact mode promises it does not");
}

TEST(ExactObserverTest, AScalarThatIsNotDyadicIsARounding) {
  ExactTestRuntime test;
  const Tensor a = vector_of(test.runtime, {0});
  const Tensor grad = vector_of(test.runtime, {0});

  EXPECT_NE(complaint([&] { test.kernels->scale(a, a, 0.1); }), "");
  EXPECT_NE(complaint([&] { test.kernels->sgd(a, grad, Tensor(), {.lr = 0.1}); }), "");
  EXPECT_EQ(complaint([&] { test.kernels->sgd(a, grad, Tensor(), {.lr = 0.125}); }), "");
}

TEST(ExactObserverTest, TanhRounds) {
  ExactTestRuntime test;
  const Tensor a = vector_of(test.runtime, {0.5});

  EXPECT_EQ(complaint([&] { test.kernels->tanh(a, a); }),
            "operation 'tanh' rounded; exact mode promises it does not");
}

TEST(ExactObserverTest, TheGridIsTheDeclaredRounding) {
  ExactTestRuntime test;
  const Tensor a = vector_of(test.runtime, {0.1, 0.3125, -9});

  test.kernels->round_to_grid(a, a, 2, 8.0);

  EXPECT_EQ(values_of(a), (std::vector<double>{0, 0.25, -8}));
}

TEST(ExactObserverTest, AThirdOfAMultipleOfThreeIsExact) {
  ExactTestRuntime test;
  const Tensor grad = vector_of(test.runtime, {3, -6, 0.375});
  const Tensor out = Tensor::empty(test.runtime, {3}, DType::kF32);

  test.kernels->average_into_bucket(out, grad, 3.0);

  EXPECT_EQ(values_of(out), (std::vector<double>{1, -2, 0.125}));
}

TEST(ExactObserverTest, AThirdOfOneIsARounding) {
  ExactTestRuntime test;
  const Tensor grad = vector_of(test.runtime, {3, 1});

  EXPECT_NE(complaint([&] { test.kernels->average_into_bucket(grad, grad, 3.0); }), "");
}

TEST(ExactObserverTest, SixteenBitRoundingIsSeenByValue) {
  ExactTestRuntime test;
  const Tensor wide = vector_of(test.runtime, {1.0 + 0x1p-12});
  const Tensor fits = vector_of(test.runtime, {1.5});

  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    EXPECT_NE(complaint([&] { wide.to(dtype); }), "") << name_of(dtype);
    EXPECT_EQ(complaint([&] { fits.to(dtype); }), "") << name_of(dtype);
    EXPECT_NE(complaint([&] { Tensor::full(test.runtime, {2}, dtype, 0.1); }), "");
  }
}

TEST(ExactObserverTest, SixteenBitSumsAreSeenByValue) {
  ExactTestRuntime test;
  const Tensor large = vector_of(test.runtime, {2048}, DType::kF16);
  const Tensor one = vector_of(test.runtime, {1}, DType::kF16);
  const Tensor two = vector_of(test.runtime, {2}, DType::kF16);
  const Tensor out = Tensor::empty(test.runtime, {1}, DType::kF16);
  const std::array<void*, 1> outputs = {out.raw()};
  const auto sum = [&](const Tensor& a, const Tensor& b) {
    const std::array<const void*, 2> inputs = {a.raw(), b.raw()};
    test.kernels->reduce(outputs, inputs, 1, DType::kF16, ReduceOp::kSum);
  };

  EXPECT_NE(complaint([&] { sum(large, one); }), "");  // 2049 needs twelve bits.
  EXPECT_EQ(complaint([&] { sum(large, two); }), "");
  EXPECT_EQ(out.item(), 2050.0);
}

TEST(ExactObserverTest, ProductsAndLossesOfSmallDyadicNumbersPass) {
  ExactTestRuntime test;
  const Tensor a = Tensor::full(test.runtime, {70, 70}, DType::kF32, 0.25);
  const Tensor out = Tensor::empty(test.runtime, {70, 70}, DType::kF32);
  const Tensor loss = Tensor::empty(test.runtime, {}, DType::kF32);

  test.kernels->gemm(out, a, a, {});
  test.kernels->mse(loss, out.rows(0, 1), a.rows(0, 1), 64.0);

  EXPECT_EQ(out.at(0), 70 * 0.0625);
  EXPECT_NE(complaint([&] { test.kernels->mse(loss, out, a, 13.0); }), "");
}

TEST(ExactObserverTest, DigestsAndSketchesOnlyObserve) {
  ExactTestRuntime test;
  const Tensor a = vector_of(test.runtime, {0.1, 1e20, -0.7}, DType::kF64);

  EXPECT_EQ(complaint([&] { test.kernels->sketch(a); }), "");
  EXPECT_EQ(test.kernels->digest(a, 3), make_cpu_kernels()->digest(a, 3));
}

}  // namespace
}  // namespace lockstep
