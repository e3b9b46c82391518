// Calls on many threads: each once, and what they throw in the order of their numbers.
#include "lockstep/harness/explore/search/in_parallel.h"

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::explore {
namespace {

TEST(InParallelTest, EachNumberIsCalledOnce) {
  for (const std::uint64_t n_threads : {0U, 1U, 2U, 3U, 100U}) {
    for (const std::size_t n : {0U, 1U, 7U, 64U}) {
      std::vector<int> calls(n, 0);
      in_parallel(n, n_threads, [&]() -> Work { return [&](std::size_t i) { ++calls[i]; }; });
      EXPECT_EQ(calls, std::vector<int>(n, 1)) << n_threads;
    }
  }
}

TEST(InParallelTest, CallsOfOneThreadShareWhatWasMadeForIt) {
  for (const std::uint64_t n_threads : {1U, 3U}) {
    std::atomic<std::uint64_t> n_made = 0;
    std::vector<std::uint64_t> maker(30, 0);
    std::vector<std::thread::id> thread(30);
    in_parallel(30, n_threads, [&]() -> Work {
      return [&, made = ++n_made](std::size_t i) {
        maker[i] = made;
        thread[i] = std::this_thread::get_id();
      };
    });
    EXPECT_EQ(n_made, n_threads);
    for (std::size_t i = 0; i < 30; ++i) {
      for (std::size_t j = 0; j < i; ++j) EXPECT_EQ(maker[i] == maker[j], thread[i] == thread[j]);
    }
  }
}

TEST(InParallelTest, TheLowestThrowingIndexIsRethrown) {
  for (const std::uint64_t n_threads : {1U, 2U, 5U, 40U}) {
    const Work work = [](std::size_t i) {
      if (i >= 11) throw std::runtime_error(std::to_string(i));
    };
    try {
      in_parallel(40, n_threads, [&] { return work; });
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "11") << n_threads;
    }
  }
}

}  // namespace
}  // namespace lockstep::explore
