// What can be said about devices on any machine, with and without one.
#include "lockstep/gpu/cuda/device.h"

#include <gmock/gmock.h>

#include <gtest/gtest.h>

#include "lockstep/gpu/cuda/check.h"

namespace lockstep::cuda {
namespace {

using ::testing::HasSubstr;

TEST(DeviceTest, AMachineWithoutADeviceSaysWhy) {
  const DeviceCount answer = device_count();

  EXPECT_FALSE(answer.broken) << answer.reason;
  EXPECT_EQ(answer.count == 0, !answer.reason.empty());
}

TEST(DeviceTest, ACountOfZeroIsAHealthyMachineWithoutADevice) {
  const DeviceCount answer = read_device_count(cudaSuccess, 0);

  EXPECT_EQ(answer.count, 0);
  EXPECT_EQ(answer.reason, "the driver sees no CUDA device");
  EXPECT_FALSE(answer.broken);
}

TEST(DeviceTest, DevicesNeedNoReason) {
  const DeviceCount answer = read_device_count(cudaSuccess, 2);

  EXPECT_EQ(answer.count, 2);
  EXPECT_EQ(answer.reason, "");
}

TEST(DeviceTest, NoDeviceAndStubAreHealthyAnswers) {
  EXPECT_FALSE(read_device_count(cudaErrorNoDevice, 0).broken);
  EXPECT_FALSE(read_device_count(cudaErrorInsufficientDriver, 0).broken);
  EXPECT_THAT(read_device_count(cudaErrorStubLibrary, 0).reason, HasSubstr("stub"));
}

TEST(DeviceTest, AnyOtherAnswerIsABrokenMachineAndKeepsCudasName) {
  const DeviceCount answer = read_device_count(cudaErrorECCUncorrectable, 0);

  EXPECT_TRUE(answer.broken);
  EXPECT_THAT(answer.reason, HasSubstr("cudaErrorECCUncorrectable"));
}

TEST(DeviceTest, VersionsAreWrittenAsPeopleWriteThem) {
  EXPECT_EQ(cuda_version_text(13000), "13.0");
  EXPECT_EQ(cuda_version_text(12040), "12.4");
  EXPECT_EQ(cuda_version_text(0), "none");
}

TEST(DeviceErrorTest, NamesTheCallTheReasonAndThePlace) {
  try {
    check(cudaErrorMemoryAllocation, "cudaMalloc", {.file = "a.cc", .line = 7, .scope = ""});
    FAIL() << "an error must throw";
  } catch (const DeviceError& error) {
    EXPECT_STREQ(error.what(),
                 "cudaMalloc: out of memory (cudaErrorMemoryAllocation, 2) at a.cc:7");
    EXPECT_EQ(error.call(), "cudaMalloc");
  }
}

TEST(DeviceErrorTest, OnlySuccessIsSilent) {
  EXPECT_NO_THROW(check(cudaSuccess, "cudaMalloc"));
  for (const cudaError_t failed : {cudaErrorInvalidValue, cudaErrorNoDevice, cudaErrorNotReady}) {
    EXPECT_THROW(check(failed, "cudaMalloc"), DeviceError) << failed;
  }
}

}  // namespace
}  // namespace lockstep::cuda
