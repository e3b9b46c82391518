// Tensors of a runtime with an accelerator: whose memory they take, and who waits for whom.
#include "lockstep/tensor/accelerator.h"

#include <gtest/gtest.h>

#include "tests/support/counting_accelerator.h"
#include "tests/support/test_runtime.h"

namespace lockstep {
namespace {

class AcceleratorTest : public ::testing::Test {
 protected:
  Pool pool_;
  testing::CountingAccelerator device_;
  testing::TestHost host_;
  Runtime runtime_{pool_, device_.kernels(), host_, &device_};
};

TEST_F(AcceleratorTest, ElementsLiveInItsMemoryAndGoBackToIt) {
  {
    const Tensor tensor = Tensor::empty(runtime_, {3, 5}, DType::kF32);
    ASSERT_EQ(device_.blocks.size(), 1U);
    EXPECT_EQ(device_.blocks.begin()->first, tensor.raw());
    EXPECT_EQ(device_.blocks.begin()->second, 60U);
    const Tensor view = tensor.rows(1, 2);
    EXPECT_EQ(device_.blocks.size(), 1U);
  }
  EXPECT_EQ(device_.blocks.size(), 0U);
  EXPECT_EQ(device_.n_wrong_releases, 0);
  EXPECT_EQ(pool_.bytes_in_use(), 0);
}

TEST_F(AcceleratorTest, EmptyTensorsNeedNoneOfIt) {
  const Tensor tensor = Tensor::zeros(runtime_, {0, 4}, DType::kF64);

  EXPECT_TRUE(device_.blocks.empty());
  EXPECT_EQ(tensor.n_bytes(), 0);
}

TEST_F(AcceleratorTest, HostReadsWaitForWhatIsQueuedAndOnlyThen) {
  const Tensor tensor = Tensor::full(runtime_, {4}, DType::kF32, 2.0);
  static_cast<void>(tensor.data<float>());
  EXPECT_EQ(device_.n_waits, 0) << "nothing is queued";

  device_.queue_something();
  EXPECT_EQ(tensor.at(3), 2.0);
  EXPECT_EQ(device_.n_waits, 1);
  EXPECT_EQ(tensor.span<float>()[0], 2.0F);
  EXPECT_EQ(device_.n_waits, 1) << "nothing has been queued since";

  device_.queue_something();
  static_cast<void>(tensor.device_raw());
  EXPECT_EQ(device_.n_waits, 1) << "the device's own kernels run in order";
  runtime_.settle();
  EXPECT_EQ(device_.n_waits, 2);
}

}  // namespace
}  // namespace lockstep
