// Calls on many threads: each once, and what they throw in the order of their numbers.
#include "lockstep/harness/explore/search/crew.h"

#include <algorithm>
#include <atomic>
#include <chrono>
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

/// False: not within ten seconds, so that a test fails where it would wait endlessly.
bool comes_to(const std::atomic<std::size_t>& count, std::size_t n) {
  for (int i = 0; i < 10'000 && count < n; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return count >= n;
}

TEST(CrewTest, CallsAreMadeSideBySide) {
  std::atomic<std::size_t> n_begun = 0;
  std::atomic<std::size_t> n_met = 0;
  Crew(2, [&]() -> Work {
    return [&](std::size_t /*i*/) {
      ++n_begun;
      if (comes_to(n_begun, 2)) ++n_met;
    };
  }).run(2);
  EXPECT_EQ(n_met, 2U);
}

// The first call lasts until all the others were made: a thread with a fixed share of them would not get there.
TEST(CrewTest, ASlowCallHoldsUpNoOther) {
  std::atomic<std::size_t> n_others = 0;
  std::atomic<bool> all_were_made = false;
  Crew(2, [&]() -> Work {
    return [&](std::size_t i) {
      if (i == 0) {
        all_were_made = comes_to(n_others, 39);
      } else {
        ++n_others;
      }
    };
  }).run(40);
  EXPECT_TRUE(all_were_made);
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
