#include "lockstep/sim/net/traffic.h"

#include <gtest/gtest.h>

namespace lockstep::sim {
namespace {

std::int64_t under_way(Traffic& traffic, std::int32_t rank, std::int64_t begin, std::int64_t end) {
  return traffic.under_way(rank, {begin}, {end}).ns;
}

TEST(TrafficTest, TimeInWhichSeveralMessagesAreUnderWayCountsOnce) {
  Traffic traffic(1);
  traffic.add(0, {10}, {40});
  traffic.add(0, {30}, {50});
  traffic.add(0, {70}, {80});
  EXPECT_EQ(under_way(traffic, 0, 0, 100), (50 - 10) + (80 - 70));
}

TEST(TrafficTest, OnlyThePartWithinTheQuestionCounts) {
  Traffic traffic(1);
  traffic.add(0, {10}, {40});
  EXPECT_EQ(under_way(traffic, 0, 0, 10), 0);
  EXPECT_EQ(under_way(traffic, 0, 20, 30), 10);
  EXPECT_EQ(under_way(traffic, 0, 35, 90), 5);
  EXPECT_EQ(under_way(traffic, 0, 40, 90), 0);
}

// A group whose links are still taken begins later than one that asks after it.
TEST(TrafficTest, WhatBeginsLaterMayBeAddedFirst) {
  Traffic traffic(1);
  traffic.add(0, {60}, {90});
  traffic.add(0, {20}, {30});
  traffic.add(0, {25}, {40});
  EXPECT_EQ(under_way(traffic, 0, 0, 70), (40 - 20) + (70 - 60));
  EXPECT_EQ(under_way(traffic, 0, 70, 100), 90 - 70);
}

TEST(TrafficTest, ALongMessageCoversThoseWithinIt) {
  Traffic traffic(1);
  traffic.add(0, {10}, {90});
  traffic.add(0, {20}, {30});
  traffic.add(0, {95}, {95});
  EXPECT_EQ(under_way(traffic, 0, 0, 100), 80);
}

TEST(TrafficTest, RanksHaveTrafficOfTheirOwn) {
  Traffic traffic(2);
  traffic.add(1, {10}, {40});
  EXPECT_EQ(under_way(traffic, 0, 0, 100), 0);
  EXPECT_EQ(under_way(traffic, 1, 0, 100), 30);
}

}  // namespace
}  // namespace lockstep::sim
