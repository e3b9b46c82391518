#include "lockstep/memory/memory_left.h"

#include <filesystem>
#include <fstream>
#include <new>

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

TEST(GrowthGuardTest, WhatIsTakenDownMayStillSayHowItEnded) {
  GrowthGuard guard([]() -> std::optional<std::uint64_t> { return 0; });
  guard.add(31 * kMiB);
  EXPECT_THROW(guard.add(2 * kMiB), std::bad_alloc);
  EXPECT_NO_THROW(guard.add(2 * kMiB));
  EXPECT_THROW(guard.add(40 * kMiB), std::bad_alloc);
}

TEST(GrowthGuardTest, WhatWasReleasedDoesNotCount) {
  GrowthGuard guard([]() -> std::optional<std::uint64_t> { return 0; });
  for (int i = 0; i < 100; ++i) {
    guard.add(20 * kMiB);
    guard.release(20 * kMiB);
  }
}

TEST(GrowthGuardTest, ASystemThatSaysNothingRefusesNothing) {
  GrowthGuard guard([]() -> std::optional<std::uint64_t> { return std::nullopt; });
  EXPECT_NO_THROW(guard.add(std::size_t{1} << 50U));
}

}  // namespace
}  // namespace lockstep
