// Kernels against the CPU, bit for bit, in sizes around the warp, the block and beyond one grid.
// Without a device each test says loudly that it did not run; launch shapes are checked anywhere.
#include <cstdint>
#include <iostream>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/check.h"
#include "lockstep/gpu/cuda/buffer.h"
#include "lockstep/gpu/cuda/device.h"
#include "lockstep/gpu/cuda/kernels/digest.h"
#include "lockstep/gpu/cuda/kernels/launch.h"
#include "lockstep/gpu/cuda/kernels/scale.h"

namespace lockstep::cuda {
namespace {

constexpr std::int64_t kSizes[] = {
    0, 1, 31, 32, 33, kBlockThreads - 1, kBlockThreads + 1, 1'000'003};

class KernelsTest : public ::testing::Test {
 protected:
  void SetUp() override {  // NOLINT(readability-identifier-naming): GoogleTest's name.
    const DeviceCount devices = device_count();
    ASSERT_FALSE(devices.broken) << devices.reason;
    if (devices.count == 0) GTEST_SKIP() << "not run on a GPU: " << devices.reason;
    const DeviceInfo info = device_info(0);
    std::cout << "device: " << info.name << ", CUDA " << cuda_version_text(runtime_version())
              << ", driver for " << cuda_version_text(driver_version()) << "\n";
  }
};

// Values whose products round: i/3 has no finite binary expansion.
template <typename T>
std::vector<T> thirds(std::int64_t n) {
  std::vector<T> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(i) / T{3};
  return values;
}

template <typename T>
void expect_scale_as_on_the_cpu(T factor) {
  const Stream stream;
  for (const std::int64_t n : kSizes) {
    const std::vector<T> in = thirds<T>(n);
    DeviceBuffer<T> buffer(in.size());
    std::vector<T> out(in.size());

    buffer.write(in, stream);
    scale(buffer.data(), buffer.data(), factor, n, stream);
    buffer.read(out, stream);
    stream.synchronize();

    for (std::size_t i = 0; i < in.size(); ++i) {
      const T product = factor * in[i];
      ASSERT_EQ(out[i], product) << "element " << i << " of " << n;
    }
  }
}

TEST_F(KernelsTest, ScaleHasTheBitsOfTheCpu) {
  expect_scale_as_on_the_cpu<float>(0.1F);
  expect_scale_as_on_the_cpu<double>(0.1);
}

template <typename T>
std::uint64_t device_digest(const std::vector<T>& values, std::uint64_t base) {
  const Stream stream;
  DeviceBuffer<T> data(values.size());
  DeviceBuffer<std::uint64_t> sum(1);
  std::vector<std::uint64_t> answer = {0};
  data.write(values, stream);
  sum.write(answer, stream);
  add_digest(sum.data(),
             {.data = data.data(),
              .n_elems = static_cast<std::int64_t>(values.size()),
              .elem_bytes = static_cast<std::int32_t>(sizeof(T)),
              .base = base},
             stream);
  sum.read(answer, stream);
  stream.synchronize();
  return answer[0];
}

// The published vectors of the digest (docs/trace_format.md), computed with numpy and torch.
TEST_F(KernelsTest, DigestGivesThePublishedVectors) {
  EXPECT_EQ(device_digest<float>({}, 0), 0U);
  EXPECT_EQ(device_digest<float>({0.0F}, 0), 0xe220a8397b1dcdafULL);
  EXPECT_EQ(device_digest<float>({1.0F, 2.0F, 3.0F}, 0), 0x06eeadf07b8738b2ULL);
  EXPECT_EQ(device_digest<float>({1.0F, 2.0F, 3.0F}, 5), 0x8335bc1684693220ULL);
  EXPECT_EQ(device_digest<double>({1.0, 2.0, 3.0}, 0), 0xc12e61feb0bf9e3aULL);
  EXPECT_EQ(device_digest<std::uint16_t>({0x3C00, 0xC000}, 0), 0x2ed75ead652a3db7ULL);
  EXPECT_EQ(device_digest<std::uint8_t>({255, 0, 1}, 0), 0x9a9891cae313fb06ULL);
}

TEST_F(KernelsTest, DigestOfAMillionElementsGivesThePublishedVector) {
  std::vector<float> values(1'000'003);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  EXPECT_EQ(device_digest<float>(values, 0), 0x82b7e51caa23bbc2ULL);
}

TEST(LaunchTest, CoversEverySizeAndStaysInBounds) {
  EXPECT_EQ(grid_blocks(1), 1);
  EXPECT_EQ(grid_blocks(kBlockThreads), 1);
  EXPECT_EQ(grid_blocks(kBlockThreads + 1), 2);
  EXPECT_EQ(grid_blocks(std::int64_t{1} << 40), 1024);
}

}  // namespace
}  // namespace lockstep::cuda
