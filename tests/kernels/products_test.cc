// Products that have nothing to add up, or nothing to write.
#include <gtest/gtest.h>

#include "lockstep/kernels/cpu_kernels.h"
#include "lockstep/tensor/tensor.h"

#include "tests/support/test_runtime.h"

namespace lockstep {
namespace {

TEST(ProductsTest, EmptyNarrowProductsAreEmptyOrZero) {
  testing::TestRuntime test;
  Kernels& kernels = test.runtime.kernels();
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    const Tensor sum = Tensor::full(test.runtime, {2, 3}, dtype, 5.0);
    kernels.gemm(sum,
                 Tensor::zeros(test.runtime, {2, 0}, dtype),
                 Tensor::zeros(test.runtime, {0, 3}, dtype),
                 {});
    for (std::int64_t i = 0; i < sum.n_elems(); ++i) EXPECT_EQ(sum.at(i), 0.0) << name_of(dtype);
    const Tensor none = Tensor::zeros(test.runtime, {0, 3}, dtype);
    kernels.gemm(none,
                 Tensor::zeros(test.runtime, {0, 4}, dtype),
                 Tensor::full(test.runtime, {4, 3}, dtype, 1.0),
                 {});
    EXPECT_EQ(none.n_elems(), 0);
  }
}

}  // namespace
}  // namespace lockstep
