// Calls on many threads: each once, and what they throw in the order of their numbers.
#include "lockstep/harness/explore/search/in_parallel.h"

#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::explore {
namespace {

TEST(InParallelTest, EachNumberIsCalledOnce) {
  for (const std::uint64_t n_threads : {0U, 1U, 2U, 3U, 100U}) {
    for (const std::size_t n : {0U, 1U, 7U, 64U}) {
      std::vector<int> calls(n, 0);
      in_parallel(n, n_threads, [&](std::size_t i) { ++calls[i]; });
      EXPECT_EQ(calls, std::vector<int>(n, 1)) << n_threads;
    }
  }
}

TEST(InParallelTest, TheLowestThrowingIndexIsRethrown) {
  for (const std::uint64_t n_threads : {1U, 2U, 5U, 40U}) {
    const auto work = [](std::size_t i) {
      if (i >= 11) throw std::runtime_error(std::to_string(i));
    };
    try {
      in_parallel(40, n_threads, work);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "11") << n_threads;
    }
  }
}

}  // namespace
}  // namespace lockstep::explore
