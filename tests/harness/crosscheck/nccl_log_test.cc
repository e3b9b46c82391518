// Logs as NCCL writes them (formats of its sources; the trees of two and three nodes as published
// logs show them), and the orders they stand for.
#include "lockstep/harness/crosscheck/nccl_log.h"

#include <gmock/gmock.h>
#include <span>
#include <string>
#include <vector>

namespace lockstep {
namespace {

using ::testing::HasSubstr;

const std::string kHead = "host:11:22 [0] NCCL INFO ";

std::string log_of(const std::vector<std::string>& lines) {
  std::string text =
      "NCCL version 2.28.9+cuda13.0\nhost:11:22 [0] NCCL INFO Using network Socket\n";
  for (const std::string& line : lines) text += kHead + line + "\n";
  return text;
}

Result<NcclLog> read(const std::vector<std::string>& lines) {
  const NcclLogFile file = {"nccl.log", log_of(lines)};
  return read_nccl_log(std::span(&file, 1));
}

std::string order_text(const NcclLog& log, std::size_t i) {
  const auto order = order_of(log, log.choices.at(i));
  return order.ok() ? std::string(order.value().name()) : order.error().text();
}

std::string complaint(const std::vector<std::string>& lines) {
  const auto log = read(lines);
  return log.ok() ? "" : log.error().text();
}

TEST(NcclLogTest, ATreeWithoutARankOrAChannelIsRefused) {
  const std::string ring = "Channel 00/01 : 0 1 2";
  EXPECT_EQ(complaint({ring, "Trees [0] 2/-1/-1->0->-1 [1] 2/-1/-1->-1->0"}),
            "nccl.log:4: a tree's channel and rank are numbers from 0, not 1 and -1");
  EXPECT_EQ(complaint({ring, "Trees [-1] 2/-1/-1->0->-1"}),
            "nccl.log:4: a tree's channel and rank are numbers from 0, not -1 and 0");
}

TEST(NcclLogTest, AChannelThatNcclDoesNotHaveIsRefused) {
  const std::string ring = "Channel 00/01 : 0 1 2";
  const std::string call = "AllReduce: 400 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}=";
  EXPECT_EQ(complaint({ring, call + "{0..63}"}), "");
  EXPECT_EQ(complaint({ring, call + "{0..64}"}),
            "nccl.log:4: a call on channel 64: NCCL has at most 64");
  EXPECT_EQ(complaint({ring, call + "{0..16666666666666966}"}),
            "nccl.log:4: a call on channel 16666666666666966: NCCL has at most 64");
  EXPECT_EQ(complaint({ring, "Trees [64] 2/-1/-1->0->-1"}),
            "nccl.log:4: a tree on channel 64: NCCL has at most 64");
}

// 32 bits would take this number for 2.
TEST(NcclLogTest, ATreeWithANumberThatNoRankHasIsIgnored) {
  const std::string call = "AllReduce: 8 Bytes -> Algo TREE proto SIMPLE channel{Lo..Hi}={0..0}";
  const auto log = read({"Channel 00/01 : 0 1 2", "Trees [0] -4294967294/-1/-1->0->-1", call});
  ASSERT_TRUE(log.ok());
  EXPECT_TRUE(log.value().trees.empty());
}

TEST(NcclLogTest, RingsAndChoicesBecomeOrders) {
  const auto found =
      read({"Channel 00/02 : 0 1 2",
            "Channel 01/02 : 0 2 1",
            "Channel 00/0 : 2[0] -> 0[0] [receive] via NET/Socket/0",
            "Trees [0] 2/-1/-1->0->-1 [1] 2/-1/-1->0->1",
            "AllReduce: 4000000 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..1}",
            "AllReduce: 400 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..0}",
            "AllReduce: 400 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..0}",
            "AllReduce: 8 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}",
            "Broadcast: 400 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..0}",
            "AllReduce: 800 Bytes -> Algo TREE proto SIMPLE channel{Lo..Hi}={0..1}",
            "AllReduce: 900 Bytes -> Algo NVLS proto SIMPLE channel{Lo..Hi}={0..1}",
            "AllReduce: 900 Bytes -> Algo 1 proto 2 time 13.2"});
  ASSERT_TRUE(found.ok()) << found.error().text();
  const NcclLog& log = found.value();
  EXPECT_EQ(log.version, "2.28.9+cuda13.0");
  ASSERT_EQ(log.choices.size(), 6U) << "the same choice twice is one";
  EXPECT_EQ(order_text(log, 0), "nccl-ring:0,1,2;0,2,1");
  EXPECT_EQ(order_text(log, 1), "nccl-ring:0,1,2");
  EXPECT_EQ(order_text(log, 2), "nccl-ring.ll:0,1,2");
  EXPECT_EQ(order_text(log, 3), "Broadcast adds nothing");
  EXPECT_EQ(order_text(log, 4), "nccl-tree@2");
  EXPECT_THAT(order_text(log, 5), HasSubstr("algorithm NVLS"));
}

// Published logs of NCCL 2.2x: rank 2 of three nodes, and both ranks of two.
TEST(NcclLogTest, PublishedTreesAreTheModelledOnes) {
  const std::string tree = "AllReduce: 8 Bytes -> Algo TREE proto SIMPLE channel{Lo..Hi}={0..1}";
  const auto three = read({"Channel 00/02 : 0 1 2",
                           "Channel 01/02 : 0 1 2",
                           "Trees [0] 1/-1/-1->2->0 [1] -1/-1/-1->2->0",
                           tree});
  ASSERT_TRUE(three.ok()) << three.error().text();
  EXPECT_EQ(order_text(three.value(), 0), "nccl-tree@2");
  const auto two = read({"Channel 00/02 : 0 1",
                         "Channel 01/02 : 0 1",
                         "Trees [0] -1/-1/-1->1->0 [1] 0/-1/-1->1->-1",
                         "Trees [0] 1/-1/-1->0->-1 [1] -1/-1/-1->0->1",
                         tree});
  ASSERT_TRUE(two.ok()) << two.error().text();
  EXPECT_EQ(order_text(two.value(), 0), "nccl-tree@2");
}

TEST(NcclLogTest, OtherTreesAreNotPredicted) {
  const std::vector<std::string> rings = {"Channel 00/02 : 0 1 2", "Channel 01/02 : 0 1 2"};
  const auto answer = [&](const std::string& trees, const std::string& channels) {
    std::vector<std::string> lines = rings;
    if (!trees.empty()) lines.push_back(trees);
    lines.push_back("AllReduce: 8 Bytes -> Algo TREE proto SIMPLE channel{Lo..Hi}=" + channels);
    const auto log = read(lines);
    return log.ok() ? order_text(log.value(), 0) : log.error().text();
  };
  EXPECT_THAT(answer("Trees [0] 1/2/-1->0->-1 [1] 2/-1/-1->0->1", "{0..1}"),
              HasSubstr("one rank per node"));
  EXPECT_THAT(answer("Trees [0] 2/-1/-1->0->1 [1] 2/-1/-1->0->1", "{0..1}"),
              HasSubstr("one rank per node"));
  EXPECT_THAT(answer("", "{0..1}"), HasSubstr("no line 'NCCL INFO Trees"));
  EXPECT_THAT(answer("Trees [0] 2/-1/-1->0->-1 [1] 2/-1/-1->0->1", "{1..1}"),
              HasSubstr("begins with channel 1"));
  EXPECT_EQ(answer("Trees [0] 2/-1/-1->0->-1 [1] 2/-1/-1->0->1", "{0..0}"), "nccl-tree");
}

// As an H200 had it (gpu/recordings): one channel of the graph becomes two, and these are repeated.
TEST(NcclLogTest, TreesThatRepeatAreRecognised) {
  const auto answer = [](const std::string& trees, const std::string& call) {
    const auto log = read({"Channel 00/04 : 0 1 2",
                           "Channel 01/04 : 0 1 2",
                           "Channel 02/04 : 0 1 2",
                           "Channel 03/04 : 0 1 2",
                           trees,
                           "AllReduce: 8 Bytes -> Algo TREE proto " + call});
    return log.ok() ? order_text(log.value(), 0) : log.error().text();
  };
  const std::string pairs =
      "Trees [0] 2/-1/-1->0->-1 [1] 2/-1/-1->0->1 [2] 2/-1/-1->0->-1 [3] 2/-1/-1->0->1";
  EXPECT_EQ(answer(pairs, "SIMPLE channel{Lo..Hi}={0..3}"), "nccl-tree@4/2");
  EXPECT_EQ(answer(pairs, "LL channel{Lo..Hi}={0..2}"), "nccl-tree.ll@3/2");
  EXPECT_EQ(answer(pairs, "SIMPLE channel{Lo..Hi}={0..1}"), "nccl-tree@2");
  EXPECT_EQ(answer(pairs, "SIMPLE channel{Lo..Hi}={0..0}"), "nccl-tree");
  const std::string halves =
      "Trees [0] 2/-1/-1->0->-1 [1] 2/-1/-1->0->-1 [2] 2/-1/-1->0->1 [3] 2/-1/-1->0->1";
  EXPECT_EQ(answer(halves, "SIMPLE channel{Lo..Hi}={0..3}"), "nccl-tree@4");
  EXPECT_EQ(answer(halves, "LL128 channel{Lo..Hi}={0..1}"), "nccl-tree.ll128@2/4");
  const std::string neither =
      "Trees [0] 2/-1/-1->0->-1 [1] 2/-1/-1->0->1 [2] 2/-1/-1->0->1 [3] 2/-1/-1->0->-1";
  EXPECT_THAT(answer(neither, "SIMPLE channel{Lo..Hi}={0..3}"), HasSubstr("one rank per node"));
  EXPECT_THAT(answer(pairs, "NEW channel{Lo..Hi}={0..3}"), HasSubstr("protocol NEW"));
}

TEST(NcclLogTest, DamagedLogsAreRefusedWithTheirPlace) {
  EXPECT_THAT(complaint({}),
              HasSubstr("nccl.log: no line such as 'NCCL INFO Channel 00/02 : 0 1 2'"));
  EXPECT_THAT(complaint({"Channel 00/01 : 0 1 1"}), HasSubstr("nccl.log:3: a ring names each"));
  EXPECT_THAT(complaint({"Channel 00/02 : 0 1 2"}), HasSubstr("the ring of a channel is missing"));
  EXPECT_THAT(complaint({"Channel 00/01 : 0 1 2", "Channel 00/01 : 0 2 1"}),
              HasSubstr("nccl.log:4: another communicator's rings"));
  EXPECT_THAT(complaint({"Channel 00/02 : 0 1 2", "Channel 01/02 : 0 1"}),
              HasSubstr("one channel's ring has 3 ranks and another's 2"));
  EXPECT_THAT(complaint({"Channel 07/02 : 0 1 2"}), HasSubstr("nccl.log:3: channel 7 of 2"));
  EXPECT_EQ(complaint({"Channel 00/01 : 0", "Trees [0] x", "Channel", "Trees [", "AllReduce: "}),
            "");
}

}  // namespace
}  // namespace lockstep
