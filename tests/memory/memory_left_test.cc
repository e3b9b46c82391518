#include "lockstep/memory/memory_left.h"

#include <filesystem>
#include <fstream>
#include <new>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/temp_folder.h"

namespace lockstep {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;

/// A machine's /proc and /sys.
class Machine {
 public:
  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = folder_.path() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  std::optional<std::uint64_t> left() const { return memory_left(folder_.path()); }

 private:
  testing::TempFolder folder_;
};

TEST(MemoryLeftTest, ASystemThatSaysNothingLeavesNothingToSay) {
  EXPECT_EQ(Machine().left(), std::nullopt);
}

TEST(MemoryLeftTest, AMachineLeavesWhatIsAvailableAndWhatIsSwap) {
  const Machine machine;
  machine.write("/proc/meminfo",
                "MemTotal:  9000 kB\nMemFree: 10 kB\nMemAvailable: 2000 kB\nSwapFree: 48 kB\n");
  EXPECT_EQ(machine.left(), 2048U * 1024U);
}

TEST(MemoryLeftTest, AControlGroupLeavesItsLimitWithoutWhatCannotBeGivenUp) {
  const Machine machine;
  machine.write("/proc/meminfo", "MemAvailable: 9000000 kB\n");
  machine.write("/proc/self/cgroup", "0::/a/b\n");
  machine.write("/sys/fs/cgroup/a/b/memory.max", "5000\n");
  machine.write("/sys/fs/cgroup/a/b/memory.current", "4000\n");
  machine.write("/sys/fs/cgroup/a/b/memory.stat",
                "anon 2900\ninactive_file 100\nactive_file 1000\n");
  EXPECT_EQ(machine.left(), 2100U);
  machine.write("/sys/fs/cgroup/a/b/memory.max", "max\n");
  EXPECT_EQ(machine.left(), std::uint64_t{9'000'000} * 1024);
}

TEST(MemoryLeftTest, AGroupWhoseFilesAreCachedLeavesItsWholeLimit) {
  const Machine machine;
  machine.write("/proc/self/cgroup", "0::/a\n");
  machine.write("/sys/fs/cgroup/a/memory.max", "5000\n");
  machine.write("/sys/fs/cgroup/a/memory.current", "1000\n");
  machine.write("/sys/fs/cgroup/a/memory.stat", "active_file 1200\n");  // Counted a moment later.
  EXPECT_EQ(machine.left(), 5000U);
}

TEST(MemoryLeftTest, TheTightestOfTheGroupsAboveCounts) {
  const Machine machine;
  machine.write("/proc/self/cgroup", "1:cpu:/x\n0::/a/b\n");
  for (const std::string group : {"/a/b", "/a", ""}) {
    machine.write("/sys/fs/cgroup" + group + "/memory.current", "1000\n");
    machine.write("/sys/fs/cgroup" + group + "/memory.max", group == "/a" ? "1500\n" : "9000\n");
  }
  EXPECT_EQ(machine.left(), 500U);
  machine.write("/sys/fs/cgroup/memory.max", "900\n");
  EXPECT_EQ(machine.left(), 0U);  // More is in use than its limit.
}

TEST(MemoryLeftTest, GroupsOfTheFirstVersionCountToo) {
  const Machine machine;
  machine.write("/proc/self/cgroup", "4:memory:/docker/1\n2:cpu:/docker/1\n0::/\n");
  machine.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "7000\n");  // What a container sees.
  machine.write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "6000\n");
  EXPECT_EQ(machine.left(), 1000U);
}

TEST(MemoryLeftTest, ABlockLargerThanAnyMachineIsRefused) {
  EXPECT_NO_THROW(require_memory(1));
  EXPECT_THROW(require_memory(std::size_t{1} << 60U), std::bad_alloc);
}

TEST(GrowthGuardTest, GrowsUntilLessIsLeftThanItsReadersNeed) {
  GrowthGuard guard([]() -> std::optional<std::uint64_t> { return 100 * kMiB; });
  std::uint64_t held = 0;
  EXPECT_THROW(for (; held < 1000; held += 32) guard.add(32 * kMiB), std::bad_alloc);
  EXPECT_EQ(held, 256U);  // 288 would take a quarter, 72, beside the 32 to come.
}

TEST(GrowthGuardTest, WhatIsEnoughToTheByteIsEnough) {
  GrowthGuard guard([]() -> std::optional<std::uint64_t> { return 48 * kMiB; });
  guard.add(32 * kMiB);
  EXPECT_NO_THROW(guard.add(32 * kMiB));  // 32 to come, and a quarter of 64.
  EXPECT_THROW(guard.add(32 * kMiB), std::bad_alloc);
}

TEST(GrowthGuardTest, ALargeBlockNeedsItsOwnSize) {
  GrowthGuard guard([]() -> std::optional<std::uint64_t> { return 100 * kMiB; });
  EXPECT_THROW(guard.add(90 * kMiB), std::bad_alloc);  // A quarter of it is not left beside it.
  EXPECT_NO_THROW(guard.add(80 * kMiB));
}

TEST(GrowthGuardTest, ManySmallBlocksLeaveRoomForThoseUntilTheNextQuestion) {
  GrowthGuard guard([]() -> std::optional<std::uint64_t> { return 100 * kMiB; });
  std::uint64_t held = 0;
  EXPECT_THROW(for (; held < 1000; held += 8) guard.add(8 * kMiB), std::bad_alloc);
  EXPECT_EQ(held, 280U);  // It asks at 288: 32 to come, and a quarter of that is 104.
}

TEST(GrowthGuardTest, AsksEvery32MiB) {
  static int n_asked = 0;
  GrowthGuard guard([]() -> std::optional<std::uint64_t> {
    ++n_asked;
    return 4096 * kMiB;
  });
  std::vector<int> asked_at;
  for (int held = 1; held <= 100; ++held) {
    const int before = n_asked;
    guard.add(kMiB);
    if (n_asked > before) asked_at.push_back(held);
  }
  EXPECT_EQ(asked_at, (std::vector<int>{32, 64, 96}));
}

TEST(GrowthGuardTest, AsksTheMachineWhereNothingElseIsGiven) {
  GrowthGuard guard;
  EXPECT_NO_THROW(guard.add(33 * kMiB));
  EXPECT_THROW(guard.add(std::size_t{1} << 60U), std::bad_alloc);
}

TEST(GrowthGuardTest, WhatIsTakenDownMayStillSayHowItEnded) {
  GrowthGuard guard([]() -> std::optional<std::uint64_t> { return 0; });
  guard.add(31 * kMiB);
  EXPECT_THROW(guard.add(2 * kMiB), std::bad_alloc);
  EXPECT_NO_THROW(guard.add(30 * kMiB));
  EXPECT_THROW(guard.add(1 * kMiB), std::bad_alloc);  // Twice 31: what was refused is not held.
}

TEST(GrowthGuardTest, ReleasedMemoryDoesNotCount) {
  GrowthGuard guard([]() -> std::optional<std::uint64_t> { return 0; });
  for (int i = 0; i < 100; ++i) {
    ASSERT_NO_THROW(guard.add(20 * kMiB)) << i;
    guard.release(20 * kMiB);
  }
  EXPECT_NO_THROW(guard.add(31 * kMiB));
  EXPECT_THROW(guard.add(1 * kMiB), std::bad_alloc);  // What is held counts.
}

TEST(GrowthGuardTest, ASystemThatSaysNothingIsAskedAndRefusesNothing) {
  static int n_asked = 0;
  GrowthGuard guard([]() -> std::optional<std::uint64_t> {
    ++n_asked;
    return std::nullopt;
  });
  EXPECT_NO_THROW(guard.add(std::size_t{1} << 50U));
  EXPECT_EQ(n_asked, 1);
}

}  // namespace
}  // namespace lockstep
