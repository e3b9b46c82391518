// Pools as modules, by hand.
#include "lockstep/nn/pooling.h"

#include <gtest/gtest.h>

#include "tests/support/plain_runtime.h"

namespace lockstep::nn {
namespace {

using lockstep::testing::PlainRuntime;
using lockstep::testing::values_of;

Variable ramp(Runtime& runtime) {
  const std::vector<double> values = {0, 1, 2, 3, 4, 5, 6, 7};
  return Variable(Tensor::of(runtime, {1, 1, 2, 4}, DType::kF32, values));
}

TEST(PoolingTest, AveragesEachWindow) {
  PlainRuntime rt;
  AvgPool2d pool(rt, tile(2));

  const Tensor y = pool(ramp(rt)).data();

  EXPECT_EQ(y.shape(), Shape({1, 1, 1, 2}));
  EXPECT_EQ(values_of(y), (std::vector<double>{2.5, 4.5}));
}

TEST(PoolingTest, CountsPaddingAsZeros) {
  PlainRuntime rt;
  AvgPool2d pool(rt, {.height = 2, .width = 2, .stride = 2, .padding = 1});

  // Windows of one element, or of a column's two neighbours, and zeros around them.
  EXPECT_EQ(values_of(pool(ramp(rt)).data()), (std::vector<double>{0, 0.75, 0.75, 1, 2.75, 1.75}));
}

TEST(PoolingTest, AveragesWholeChannels) {
  PlainRuntime rt;
  GlobalAvgPool2d pool(rt);

  const Tensor y = pool(ramp(rt)).data();

  EXPECT_EQ(y.shape(), Shape({1, 1, 1, 1}));
  EXPECT_EQ(values_of(y), (std::vector<double>{3.5}));
}

}  // namespace
}  // namespace lockstep::nn
