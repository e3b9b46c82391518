#include "lockstep/sim/net/traffic.h"

#include <gtest/gtest.h>

#include "lockstep/sim/net/network.h"

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

// 1000 bytes at 1 GB/s, 100 ns of latency.
TEST(TrafficTest, AMessageIsUnderWayForItsSenderAndItsReceiver) {
  NetOptions net;
  net.intra = {.latency_ns = 100, .gb_per_s = 1.0};
  Network network(net, 3);
  Traffic traffic(3);
  network.report_to(&traffic);
  network.set_now({50});
  EXPECT_EQ(network.pass(0, 1, 1000)->ns, 50 + 1100);
  EXPECT_EQ(under_way(traffic, 0, 0, 5000), 1100);
  EXPECT_EQ(under_way(traffic, 1, 0, 5000), 1100);
  EXPECT_EQ(under_way(traffic, 2, 0, 5000), 0);
}

}  // namespace
}  // namespace lockstep::sim
