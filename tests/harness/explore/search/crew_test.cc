// Calls on many threads: each once, and what they throw in the order of their numbers.
#include "lockstep/harness/explore/search/crew.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <latch>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::explore {
namespace {

TEST(CrewTest, EachNumberIsCalledOnce) {
  for (const std::uint64_t n_threads : {0U, 1U, 2U, 3U, 100U}) {
    for (const std::size_t n : {0U, 1U, 7U, 64U}) {
      std::vector<int> calls(n, 0);
      Crew(n_threads, [&]() -> Work { return [&](std::size_t i) { ++calls[i]; }; }).run(n);
      EXPECT_EQ(calls, std::vector<int>(n, 1)) << n_threads;
    }
  }
}

TEST(CrewTest, CallsOfOneThreadShareWhatWasMadeForItInEveryRound) {
  for (const std::uint64_t n_threads : {1U, 3U}) {
    std::atomic<std::uint64_t> n_made = 0;
    std::vector<std::uint64_t> maker(90, 0);
    std::vector<std::thread::id> thread(90);
    std::size_t first = 0;
    Crew crew(n_threads, [&]() -> Work {
      return [&, made = ++n_made](std::size_t i) {
        maker[first + i] = made;
        thread[first + i] = std::this_thread::get_id();
      };
    });
    for (; first < 90; first += 30) crew.run(30);
    EXPECT_EQ(n_made, n_threads);
    for (std::size_t i = 0; i < 90; ++i) {
      for (std::size_t j = 0; j < i; ++j) EXPECT_EQ(maker[i] == maker[j], thread[i] == thread[j]);
    }
  }
}

// Each call waits for one of another thread.
TEST(CrewTest, CallsAreMadeSideBySide) {
  std::barrier pair(2);
  std::vector<std::thread::id> thread(40);
  Crew(2, [&]() -> Work {
    return [&](std::size_t i) {
      thread[i] = std::this_thread::get_id();
      pair.arrive_and_wait();
    };
  }).run(40);
  std::map<std::thread::id, int> n_calls;
  for (const std::thread::id id : thread) ++n_calls[id];
  ASSERT_EQ(n_calls.size(), 2U);
  EXPECT_EQ(n_calls[std::this_thread::get_id()], 20);
}

// One of the first two lasts until all the others were made: a share of half the calls would wait for it.
TEST(CrewTest, ASlowCallHoldsUpNoOther) {
  std::latch others(39);
  Crew(2, [&]() -> Work {
    return [&](std::size_t i) {
      if (i == 0) {
        others.wait();
      } else {
        others.count_down();
      }
    };
  }).run(40);
  EXPECT_TRUE(others.try_wait());
}

TEST(CrewTest, ARoundStartsNoThreadWithoutACall) {
  std::atomic<std::uint64_t> n_made = 0;
  Crew crew(8, [&]() -> Work {
    ++n_made;
    return [](std::size_t i) { static_cast<void>(i); };
  });
  crew.run(0);
  EXPECT_EQ(n_made, 0U);
  crew.run(1);
  EXPECT_EQ(n_made, 1U);
  crew.run(3);
  EXPECT_EQ(n_made, 3U);
  crew.run(2);
  EXPECT_EQ(n_made, 3U);
}

class Stumbling : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(Stumbling, TheLowestThrowingIndexIsRethrownAndTheNextRoundIsWhole) {
  bool is_odd = true;
  std::vector<int> calls(40, 0);
  Crew crew(GetParam(), [&]() -> Work {
    return [&](std::size_t i) {
      if (is_odd && i >= 11) throw std::runtime_error(std::to_string(i));
      ++calls[i];
    };
  });
  try {
    crew.run(40);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "11");
  }
  std::vector<int> below(40, 0);
  std::fill_n(below.begin(), 11, 1);
  EXPECT_EQ(calls, below);
  is_odd = false;
  calls.assign(40, 0);
  crew.run(40);
  EXPECT_EQ(calls, std::vector<int>(40, 1));
}

INSTANTIATE_TEST_SUITE_P(Threads, Stumbling, ::testing::Values(1U, 2U, 5U, 40U));

}  // namespace
}  // namespace lockstep::explore
