#include "lockstep/tensor/pool.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <gmock/gmock.h>
#include <memory_resource>
#include <stdexcept>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/check.h"
#include "lockstep/memory/placed.h"

#include "tests/support/test_runtime.h"

namespace lockstep {
namespace {

using testing::TestRuntime;

std::uintptr_t address(const void* block) { return reinterpret_cast<std::uintptr_t>(block); }

TEST(PoolTest, BlocksStartOnACacheLine) {
  Pool pool;

  for (const std::size_t bytes : {1U, 63U, 64U, 65U, 100U, 640U, 4097U, 100000U, 5000000U}) {
    EXPECT_EQ(address(pool.allocate(bytes)) % 64, 0U) << bytes;
  }
}

TEST(PoolTest, TheBlockFreedLastIsHandedOutFirst) {
  Pool pool;
  void* const first = pool.allocate(200);
  void* const second = pool.allocate(200);
  pool.release(first, 200);
  pool.release(second, 200);

  EXPECT_EQ(pool.allocate(200), second);
  EXPECT_EQ(pool.allocate(193), first);  // Another size of the same class.
}

TEST(PoolTest, ARepeatedPatternNeverAsksTheSystemAgain) {
  TestRuntime test;
  const auto step = [&] {
    const Tensor a = Tensor::zeros(test.runtime, {64, 64}, DType::kF32);
    const Tensor b = a.clone();
    const Tensor out = Tensor::empty(test.runtime, {64, 64}, DType::kF32);
    test.kernels->gemm(out.rows(0, 32), a.rows(0, 32), b, {.transpose_b = true});
    const Tensor big = Tensor::zeros(test.runtime, {1 << 20}, DType::kF64);
  };

  step();
  const std::int64_t after_first = test.pool.system_allocations();
  for (int i = 0; i < 20; ++i) step();

  EXPECT_EQ(test.pool.system_allocations(), after_first);
  EXPECT_EQ(test.pool.bytes_in_use(), 0);
}

TEST(PoolTest, ListsAndObjectsGiveBackWhatTheyTook) {
  struct Holder {
    explicit Holder(std::pmr::vector<std::int32_t> given) : list(std::move(given)) {}

    std::pmr::vector<std::int32_t> list;
  };

  Pool pool;
  const auto use = [&pool] {
    std::pmr::vector<std::int32_t> list(&pool);
    for (std::int32_t i = 0; i < 100; ++i) list.push_back(i);
    const Placed<Holder> object = make_placed<Holder>(pool, std::move(list));
    EXPECT_EQ(object->list.back(), 99);
    EXPECT_GT(pool.bytes_in_use(), 400);
  };
  use();
  const std::int64_t after_first = pool.system_allocations();
  use();

  EXPECT_EQ(pool.system_allocations(), after_first);
  EXPECT_EQ(pool.bytes_in_use(), 0);
}

// The constructor's exception leaves; its memory does not.
TEST(PoolTest, AnObjectThatWasNotMadeKeepsNoMemory) {
  struct Refused {
    Refused() { throw std::runtime_error("no"); }
  };

  Pool pool;
  EXPECT_THROW(static_cast<void>(make_placed<Refused>(pool)), std::runtime_error);
  EXPECT_EQ(pool.bytes_in_use(), 0);
}

TEST(PoolTest, GrowingDemandIsNoticed) {
  Pool pool;
  pool.allocate(1000);
  const std::int64_t before = pool.system_allocations();

  for (int i = 0; i < 1000; ++i) pool.allocate(1000);

  EXPECT_GT(pool.system_allocations(), before);
  EXPECT_LT(pool.system_allocations(), 10);  // Slabs double, so few requests serve a megabyte.
}

TEST(PoolTest, CountsBytesInClasses) {
  Pool pool;
  void* const block = pool.allocate(257);

  EXPECT_EQ(pool.bytes_in_use(), 320);  // 256, 320, 384, 448, 512: four classes a power of two.
  pool.release(block, 257);
  EXPECT_EQ(pool.bytes_in_use(), 0);
  EXPECT_EQ(pool.bytes_peak(), 320);
}

TEST(PoolTest, ShiftedAddressesAreOtherAddressesForSmallAndLargeBlocks) {
  Pool pool;
  void* const small = pool.allocate(64);
  void* const large = pool.allocate(8U << 20U);
  pool.release(small, 64);
  pool.release(large, 8U << 20U);

  pool.shift_addresses(192);

  EXPECT_NE(pool.allocate(64), small);
  EXPECT_NE(pool.allocate(8U << 20U), large);
  EXPECT_EQ(address(pool.allocate(64)) % 64, 0U);
}

TEST(PoolTest, LargeBlocksAreLargeBlocksOfTheSystem) {
  Pool pool;
  EXPECT_EQ(address(pool.allocate(4 * kHugePage)) % kHugePage, 0U);
}

TEST(PoolTest, RefusesEmptyBlocksAndCrookedShifts) {
  Pool pool;

  EXPECT_THROW(pool.allocate(0), ContractViolation);
  EXPECT_THROW(pool.shift_addresses(8), ContractViolation);
}

TEST(PoolTest, AListsElementsAreAlignedAsTheyAskOrRefused) {
  struct alignas(64) Line {
    std::array<std::byte, 64> bytes;
  };

  struct alignas(128) TwoLines {
    std::array<std::byte, 128> bytes;
  };

  Pool pool;

  const std::pmr::vector<Line> lines(3, &pool);
  EXPECT_EQ(address(lines.data()) % 64, 0U);

  EXPECT_THAT([&] { const std::pmr::vector<TwoLines> lines_of_two(1, &pool); },
              ::testing::ThrowsMessage<ContractViolation>(
                  ::testing::HasSubstr("the pool aligns blocks to 64 bytes, not to 128")));
}

}  // namespace
}  // namespace lockstep
