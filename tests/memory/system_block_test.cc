#include "lockstep/memory/system_block.h"

#include <cerrno>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <sys/mman.h>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

std::uintptr_t address(const void* block) { return reinterpret_cast<std::uintptr_t>(block); }

/// What the kernel says of the mapping that holds `block`: "hg" stands for huge pages that were asked
/// for.
bool asks_for_huge_pages(const void* block) {
  std::ifstream maps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    char dash = 0;
    if (std::istringstream head(line); head >> std::hex >> begin >> dash >> end && dash == '-') {
      inside = begin <= address(block) && address(block) < end;
    }
    if (inside && line.starts_with("VmFlags:")) return line.find(" hg") != std::string::npos;
  }
  return false;
}

/// Whether madvise() knows the request at all.
bool kernel_has_huge_pages() {
  void* const page = mmap(nullptr, kHugePage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const bool knows = madvise(page, kHugePage, MADV_HUGEPAGE) == 0 || errno != EINVAL;
  munmap(page, kHugePage);
  return knows;
}

TEST(SystemBlockTest, BlocksStartOnACacheLineAndLargeOnesOnAHugePage) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{100}, kHugePage - 1}) {
    EXPECT_EQ(address(make_system_block(bytes).get()) % 64, 0U) << bytes;
  }
  for (const std::size_t bytes : {kHugePage, kHugePage + 1, 4 * kHugePage}) {
    EXPECT_EQ(address(make_system_block(bytes).get()) % kHugePage, 0U) << bytes;
  }
}

TEST(SystemBlockTest, LargeBlocksAskForHugePagesAndSmallOnesDoNot) {
  if (!kernel_has_huge_pages()) {
    GTEST_SKIP()
        << "NOT RUN: this kernel was built without huge pages on demand: madvise(MADV_HUGEPAGE) "
           "is an invalid argument to it";
  }
  EXPECT_TRUE(asks_for_huge_pages(make_system_block(4 * kHugePage).get()));
  EXPECT_TRUE(asks_for_huge_pages(make_system_block(kHugePage).get()));
  EXPECT_FALSE(asks_for_huge_pages(make_system_block(kHugePage / 32).get()));
}

}  // namespace
}  // namespace lockstep
