// Memory and queue of an accelerator, on the host.
#include <cstdint>
#include <cstring>

#include <gtest/gtest.h>

#include "lockstep/base/check.h"
#include "lockstep/gpu/cuda/accelerator.h"
#include "lockstep/gpu/cuda/check.h"
#include "lockstep/gpu/cuda/device.h"
#include "lockstep/gpu/cuda/memory_pool.h"
#include "lockstep/tensor/kernels.h"

#include "tests/gpu/cuda/beside_cpu.h"

namespace lockstep::cuda {
namespace {

TEST(MemoryPoolTest, BlocksAreAlignedAndApart) {
  MemoryPool pool(MemoryKind::kHost);
  std::vector<std::pair<std::byte*, std::size_t>> blocks;
  for (const std::size_t bytes : {1U, 64U, 255U, 257U, 4096U, 1U << 20U, 40U << 20U}) {
    blocks.emplace_back(static_cast<std::byte*>(pool.allocate(bytes)), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(blocks.back().first) % 256, 0U) << bytes;
    std::memset(blocks.back().first, 1, bytes);
  }
  for (const auto& [one, n_one] : blocks) {
    for (const auto& [other, n_other] : blocks) {
      EXPECT_TRUE(one == other || one + n_one <= other || other + n_other <= one);
    }
  }
}

TEST(MemoryPoolTest, AReleasedBlockIsTheNextOfItsSizeAndKeepsItsContents) {
  MemoryPool pool(MemoryKind::kHost);
  auto* const block = static_cast<std::byte*>(pool.allocate(1'000));
  std::memset(block, 7, 1'000);
  pool.release(block, 1'000);

  for (std::size_t i = 0; i < 1'000; ++i) ASSERT_EQ(block[i], std::byte{7}) << "work may read it";
  EXPECT_NE(pool.allocate(5'000), block);
  EXPECT_EQ(pool.allocate(1'000), block);
  EXPECT_NE(pool.allocate(1'000), block);
  EXPECT_EQ(pool.system_allocations(), 1);
}

TEST(MemoryPoolTest, KnowsItsOwnMemoryToTheLastByte) {
  MemoryPool pool(MemoryKind::kHost);
  constexpr std::size_t kOwnSlab = std::size_t{64} << 20U;
  auto* const block = static_cast<std::byte*>(pool.allocate(kOwnSlab));
  const std::byte other{};

  EXPECT_TRUE(pool.owns(block, kOwnSlab));
  EXPECT_TRUE(pool.owns(block + kOwnSlab - 1, 1));
  EXPECT_FALSE(pool.owns(block + kOwnSlab - 1, 2));
  EXPECT_FALSE(pool.owns(block - 1, 1));
  EXPECT_FALSE(pool.owns(&other, 1));
}

TEST(MemoryPoolTest, WhatDidNotComeFromItIsRefused) {
  MemoryPool pool(MemoryKind::kHost);
  std::byte other{};

  EXPECT_THROW(static_cast<void>(pool.allocate(0)), ContractViolation);
  EXPECT_THROW(pool.release(&other, 1), ContractViolation);
}

TEST(MemoryPoolTest, NoMoreIsTakenThanWasFree) {
  constexpr std::size_t kMiB = std::size_t{1} << 20U;
  MemoryPool pool(MemoryKind::kHost, 100 * kMiB);
  void* const block = pool.allocate(64 * kMiB);
  try {
    static_cast<void>(pool.allocate(65 * kMiB));
    FAIL() << "129 MiB are more than 100";
  } catch (const DeviceError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("MiB, and 100 MiB were free"), std::string::npos) << text;
  }
  pool.release(block, 64 * kMiB);
  EXPECT_EQ(pool.allocate(64 * kMiB), block) << "what was released is not taken again";
  EXPECT_NE(pool.allocate(8 * kMiB), nullptr) << "there is room for a slab of 32 MiB";
}

TEST(AcceleratorTest, LateKernelsRunInOrderAtTheNextWait) {
  testing::Machine machine(make_accelerator(ExecutionTarget::kHostLate, kStrict));
  Runtime& runtime = machine.runtime();
  const Tensor tensor = Tensor::full(runtime, {1}, DType::kF32, 1.0);
  const auto* const value = static_cast<const float*>(tensor.raw());
  ASSERT_EQ(*value, 1.0F);

  runtime.kernels().scale(tensor, tensor, 3.0);
  runtime.kernels().add(tensor, tensor, tensor);
  EXPECT_EQ(*value, 1.0F) << "nothing has waited";
  runtime.settle();
  EXPECT_EQ(*value, 6.0F);
}

TEST(AcceleratorTest, AMachineWithoutADeviceSaysSo) {
  const auto opened = open_accelerator(0, kStrict);
  const DeviceCount devices = device_count();

  EXPECT_EQ(opened.ok(), devices.count > 0);
  if (!opened.ok()) {
    EXPECT_EQ(opened.error().message, "no CUDA device was found (" + devices.reason + ")");
  }
}

}  // namespace
}  // namespace lockstep::cuda
