// When a launcher takes its ranks for stuck.
#include "lockstep/real/launch/silence.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "tests/support/temp_folder.h"

namespace lockstep::launch {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr WatchedClock::Real::time_point kStart{};

TEST(WatchedClockTest, TimeBetweenTwoLooksCountsUpToItsBound) {
  WatchedClock clock(seconds(2), kStart);
  EXPECT_EQ(clock.now(), nanoseconds(0));
  clock.look(kStart + milliseconds(1500));
  EXPECT_EQ(clock.now(), milliseconds(1500));
  clock.look(kStart + milliseconds(3500));
  EXPECT_EQ(clock.now(), milliseconds(3500));
}

TEST(WatchedClockTest, AnHourInWhichItsOwnerStoodStillCountsAsTheBound) {
  WatchedClock clock(seconds(2), kStart);
  clock.look(kStart + std::chrono::hours(1));
  EXPECT_EQ(clock.now(), seconds(2));
  clock.look(kStart + std::chrono::hours(1) + seconds(1));
  EXPECT_EQ(clock.now(), seconds(3));
}

class SilenceTest : public ::testing::Test {
 protected:
  void write(const std::string& text) const {
    std::ofstream(folder_.path() + "/trace.jsonl", std::ios::app) << text;
  }

  testing::TempFolder folder_;
  Silence silence_{seconds(5), folder_.path()};
};

TEST_F(SilenceTest, RanksOfWhichOneHasEndedAreTooSilentAfterTheLimit) {
  EXPECT_EQ(silence_.look(1, seconds(1)), std::nullopt);
  EXPECT_EQ(silence_.look(1, milliseconds(5900)), std::nullopt);
  EXPECT_EQ(silence_.look(1, milliseconds(6200)), seconds(5));
}

TEST_F(SilenceTest, WhileAllRunTheLimitIsTenTimesAsLong) {
  EXPECT_EQ(silence_.look(0, seconds(1)), std::nullopt);
  EXPECT_EQ(silence_.look(0, seconds(49)), std::nullopt);
  EXPECT_EQ(silence_.look(0, seconds(50)), seconds(50));
}

TEST_F(SilenceTest, WhatIsWrittenAndWhoEndsIsASign) {
  EXPECT_EQ(silence_.look(1, seconds(1)), std::nullopt);
  write("an event");
  EXPECT_EQ(silence_.look(1, seconds(5)), std::nullopt);
  EXPECT_EQ(silence_.look(1, seconds(9)), std::nullopt);
  EXPECT_EQ(silence_.look(2, milliseconds(9900)), std::nullopt);
  EXPECT_EQ(silence_.look(2, milliseconds(14800)), std::nullopt);
  EXPECT_EQ(silence_.look(2, milliseconds(15100)), seconds(5));
}

TEST_F(SilenceTest, WithoutALimitNoRankIsTooSilent) {
  Silence patient(seconds(0), folder_.path());
  EXPECT_EQ(patient.look(1, std::chrono::hours(100)), std::nullopt);
}

}  // namespace
}  // namespace lockstep::launch
