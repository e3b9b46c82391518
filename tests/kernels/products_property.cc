#include <cmath>
#include <cstring>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/support/test_runtime.h"

namespace lockstep {
namespace {

using testing::TestRuntime;

struct Case {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  Kernels::Gemm options;
  DType dtype;
};

Case any_case(std::int64_t largest) {
  const auto size =
      rc::gen::resize(rc::kNominalSize, rc::gen::inRange<std::int64_t>(1, largest + 1));
  Case result{};
  result.m = *size;
  result.n = *size;
  result.k = *size;
  result.options.transpose_a = *rc::gen::arbitrary<bool>();
  result.options.transpose_b = *rc::gen::arbitrary<bool>();
  result.options.accumulate = *rc::gen::arbitrary<bool>();
  result.dtype = *rc::gen::element(DType::kF32, DType::kF64);
  return result;
}

/// Values in [-1, 1): multiples of 1/8 when `exact`, so that no sum of products below rounds.
Tensor any_matrix(Runtime& runtime, const Shape& shape, const Case& one, bool exact) {
  std::uint64_t state = *rc::gen::arbitrary<std::uint64_t>();
  std::vector<double> values;
  for (std::int64_t i = 0; i < shape.n_elems(); ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    const double unit = static_cast<double>(state >> 11U) * 0x1p-53;
    values.push_back(exact ? std::floor(unit * 16) / 8 - 1 : unit * 2 - 1);
  }
  return Tensor::of(runtime, shape, one.dtype, values);
}

struct Operands {
  Tensor a;
  Tensor b;
  Tensor out;
};

Operands any_operands(Runtime& runtime, const Case& one, bool exact) {
  const Shape a = one.options.transpose_a ? Shape{one.k, one.m} : Shape{one.m, one.k};
  const Shape b = one.options.transpose_b ? Shape{one.n, one.k} : Shape{one.k, one.n};
  return {any_matrix(runtime, a, one, exact),
          any_matrix(runtime, b, one, exact),
          any_matrix(runtime, {one.m, one.n}, one, exact)};
}

double a_at(const Operands& x, const Case& one, std::int64_t i, std::int64_t k) {
  return x.a.at(one.options.transpose_a ? k * one.m + i : i * one.k + k);
}

double b_at(const Operands& x, const Case& one, std::int64_t k, std::int64_t j) {
  return x.b.at(one.options.transpose_b ? j * one.k + k : k * one.n + j);
}

// Multiples of 1/64 below 2^14: nothing rounds in f32, whatever the order.
void expect_exact(const Case& one) {
  TestRuntime test;
  const Operands x = any_operands(test.runtime, one, true);
  const Tensor before = x.out.clone();

  test.kernels->gemm(x.out, x.a, x.b, one.options);

  for (std::int64_t i = 0; i < one.m; ++i) {
    for (std::int64_t j = 0; j < one.n; ++j) {
      double sum = one.options.accumulate ? before.at(i * one.n + j) : 0.0;
      for (std::int64_t k = 0; k < one.k; ++k) sum += a_at(x, one, i, k) * b_at(x, one, k, j);
      RC_ASSERT(x.out.at(i * one.n + j) == sum);
    }
  }
}

RC_GTEST_PROP(ProductsProperty, SmallProductsOfSmallIntegersAreExact, ()) {
  expect_exact(any_case(20));
}

RC_GTEST_PROP(ProductsProperty, LargeProductsOfSmallIntegersAreExact, ()) {
  Case one = any_case(8);
  one.m += 60;
  one.n += 64;
  one.k += 68;
  expect_exact(one);
}

template <typename T>
T chain(const Operands& x, const Case& one, std::int64_t i, std::int64_t j) {
  T sum{0};
  for (std::int64_t k = 0; k < one.k; ++k) {
    sum = std::fma(static_cast<T>(a_at(x, one, i, k)), static_cast<T>(b_at(x, one, k, j)), sum);
  }
  return sum;
}

// The documented order, to the bit, on numbers that do round.
RC_GTEST_PROP(ProductsProperty, SmallProductsAreOneChainOfFmaOverK, ()) {
  TestRuntime test;
  Case one = any_case(24);
  one.options.accumulate = false;
  const Operands x = any_operands(test.runtime, one, false);

  test.kernels->gemm(x.out, x.a, x.b, one.options);

  for (std::int64_t i = 0; i < one.m; ++i) {
    for (std::int64_t j = 0; j < one.n; ++j) {
      const double expected = one.dtype == DType::kF32
                                  ? static_cast<double>(chain<float>(x, one, i, j))
                                  : chain<double>(x, one, i, j);
      RC_ASSERT(x.out.at(i * one.n + j) == expected);
    }
  }
}

// What is added to zeros is computed as a whole, whatever it takes from memory.
RC_GTEST_PROP(ProductsProperty, LargeProductsOfFewFactorsAreTheSameInPartsAsInOnePiece, ()) {
  TestRuntime test;
  Case one = any_case(60);
  one.m += 130;   // Three parts or more, of which the last may have rows beyond groups of four,
  one.n += 1000;  // and columns beyond whole vectors.
  one.options.accumulate = false;
  const Operands x = any_operands(test.runtime, one, false);
  const Tensor whole = Tensor::zeros(test.runtime, x.out.shape(), one.dtype);

  test.kernels->gemm(x.out, x.a, x.b, one.options);
  one.options.accumulate = true;
  test.kernels->gemm(whole, x.a, x.b, one.options);

  RC_ASSERT(std::memcmp(x.out.raw(), whole.raw(), static_cast<std::size_t>(whole.n_bytes())) == 0);
}

// Any order of k products, each fused or not, errs by at most 2k * u * sum |a * b| (k * u < 0.01).
RC_GTEST_PROP(ProductsProperty, LargeProductsStayWithinTheBoundOfAnyOrder, ()) {
  TestRuntime test;
  Case one = any_case(8);
  one.m += 64;
  one.n += 64;
  one.k += 64;
  one.options.accumulate = false;
  const Operands x = any_operands(test.runtime, one, false);

  test.kernels->gemm(x.out, x.a, x.b, one.options);

  const double unit = one.dtype == DType::kF32 ? 0x1p-24 : 0x1p-53;
  for (std::int64_t i = 0; i < one.m; i += 7) {
    for (std::int64_t j = 0; j < one.n; j += 5) {
      long double sum = 0;
      double magnitude = 0;
      for (std::int64_t k = 0; k < one.k; ++k) {
        const double product = a_at(x, one, i, k) * b_at(x, one, k, j);
        sum += product;
        magnitude += std::fabs(product);
      }
      const double error = std::fabs(x.out.at(i * one.n + j) - static_cast<double>(sum));
      RC_ASSERT(error <= 2.0 * static_cast<double>(one.k) * unit * magnitude);
    }
  }
}

}  // namespace
}  // namespace lockstep
