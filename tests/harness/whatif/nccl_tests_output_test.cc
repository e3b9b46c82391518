#include "lockstep/harness/whatif/nccl_tests_output.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

std::string ranks(int n) {
  std::string text = "# nThread 1 nGpus 1 minBytes 8 maxBytes 1024\n#\n# Using devices\n";
  for (int rank = 0; rank < n; ++rank) {
    text += "#  Rank  " + std::to_string(rank) + " Group  0 Pid  1 on host device  0 [0x07] GPU\n";
  }
  return text;
}

const std::string kHeader =
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time "
    "  "
    "algbw   busbw #wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us) "
    " "
    "(GB/s)  (GB/s)\n";

// 8 ranks: 134217728 bytes in 1042.5 us are 128.75 GB/s, times 2 * 7 / 8 = 225.31.
const std::string kAllReduce =
    "           8             2     float     sum      -1    26.54    0.00    0.00      0    26.42 "
    "   "
    "0.00    0.00      0\n"
    "   134217728      33554432     float     sum      -1   1042.5  128.75  225.31      0   1039.9 "
    " "
    "129.07  225.87    N/A\n";

TEST(NcclTestsOutputTest, RowsAreMeasurementsOutOfPlace) {
  const auto calls =
      read_nccl_tests(ranks(8) + kHeader + kAllReduce + "# Avg bus bandwidth : 63.2\n", "log");
  ASSERT_TRUE(calls.ok()) << calls.error().text();
  ASSERT_EQ(calls.value().size(), 2U);
  EXPECT_EQ(calls.value()[0].calls[0].op, CollectiveOp::kAllReduce);
  EXPECT_EQ(calls.value()[0].calls[0].n_bytes, 8);
  EXPECT_EQ(calls.value()[0].calls[0].n_ranks, 8);
  EXPECT_EQ(calls.value()[0].took_ns, 26540.0);
  EXPECT_EQ(calls.value()[1].calls[0].n_bytes, 134217728);
  EXPECT_EQ(calls.value()[1].took_ns, 1042500.0);
}

TEST(NcclTestsOutputTest, TheProgramsNameSaysWhichCollectiveItIs) {
  const std::string row =
      "  1048576  32768  float  none  -1  100.0  10.49  9.18  0  100.0  10.49  9.18  0\n";
  const auto unnamed = read_nccl_tests(ranks(8) + kHeader + row, "log");
  ASSERT_FALSE(unnamed.ok());
  EXPECT_NE(unnamed.error().text().find("which collective this was does not show in it"),
            std::string::npos);
  const auto named = read_nccl_tests(
      "# Collective test starting: reduce_scatter_perf\n" + ranks(8) + kHeader + row, "log");
  ASSERT_TRUE(named.ok());
  EXPECT_EQ(named.value()[0].calls[0].op, CollectiveOp::kReduceScatter);
}

// 7/8 instead of 14/8 of the same bytes.
TEST(NcclTestsOutputTest, AReduceScatterShowsInItsBandwidths) {
  const std::string row =
      "  134217728  4194304  float  sum  -1  1042.5  128.75  112.66  0  1039.9  129.07  112.94  "
      "0\n";
  const auto calls = read_nccl_tests(ranks(8) + kHeader + row, "log");
  ASSERT_TRUE(calls.ok()) << calls.error().text();
  EXPECT_EQ(calls.value()[0].calls[0].op, CollectiveOp::kReduceScatter);
}

TEST(NcclTestsOutputTest, AReductionToOneRankShowsInItsRoot) {
  const std::string row =
      "  134217728  4194304  float  sum  0  1042.5  128.75  128.75  0  1039.9  129.07  129.07  0\n";
  const auto calls = read_nccl_tests(ranks(8) + kHeader + row, "log");
  ASSERT_TRUE(calls.ok()) << calls.error().text();
  EXPECT_EQ(calls.value()[0].calls[0].op, CollectiveOp::kReduce);
}

TEST(NcclTestsOutputTest, AnOlderTableHasNoRoot) {
  const auto calls =
      read_nccl_tests(ranks(8) + "#  size  count  type  redop  time  algbw  busbw  error\n" +
                          "  134217728  33554432  float  sum  1042.5  128.75  225.31  2e-07\n",
                      "log");
  ASSERT_TRUE(calls.ok()) << calls.error().text();
  EXPECT_EQ(calls.value()[0].took_ns, 1042500.0);
}

TEST(NcclTestsOutputTest, WhatIsNoTableIsRefusedWithItsPlace) {
  EXPECT_EQ(read_nccl_tests("hello\n", "log").error().text(),
            "log: no table of nccl-tests: its header line is '#  size  count  type  redop ...'");
  EXPECT_EQ(
      read_nccl_tests(ranks(2) + kHeader + "  8  2  float  sum  -1  fast\n", "log").error().text(),
      "log:8: '8  2  float  sum  -1  fast' is not a row of nccl-tests");
  EXPECT_EQ(read_nccl_tests(ranks(1) + kHeader + kAllReduce, "log").error().text(),
            "log: no lines '#  Rank  0 ...' of two or more ranks");
}

}  // namespace
}  // namespace lockstep
