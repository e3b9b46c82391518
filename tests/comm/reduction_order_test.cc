#include "lockstep/comm/reduction_order.h"

#include <bit>
#include <cstdint>
#include <numeric>

#include <gtest/gtest.h>

#include "tests/ddp/recorded_inputs.h"
#include "tests/support/test_runtime.h"

namespace lockstep {
namespace {

using testing::TestRuntime;

std::vector<float> floats(const std::vector<std::uint32_t>& words) {
  std::vector<float> values;
  for (const std::uint32_t word : words) values.push_back(std::bit_cast<float>(word));
  return values;
}

std::vector<std::uint32_t> words_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> words;
  for (const float value : values) words.push_back(std::bit_cast<std::uint32_t>(value));
  return words;
}

// Reduces in place and returns what every rank holds; checks that all hold the same.
std::vector<float> all_reduce(std::vector<std::vector<float>> ranks,
                              ReductionOrder order,
                              ReduceOp op = ReduceOp::kSum) {
  TestRuntime test;
  std::vector<void*> outputs;
  std::vector<const void*> inputs;
  for (std::vector<float>& rank : ranks) {
    outputs.push_back(rank.data());
    inputs.push_back(rank.data());
  }
  const auto count = static_cast<std::int64_t>(ranks[0].size());
  reduce_in_order(
      *test.kernels,
      {.outputs = outputs, .inputs = inputs, .count = count, .dtype = DType::kF32, .op = op},
      order);
  for (const std::vector<float>& rank : ranks) EXPECT_EQ(words_of(rank), words_of(ranks[0]));
  return ranks[0];
}

// Results recorded from PyTorch 1.13 on gloo for kRecordedInputs.

std::vector<std::vector<float>> recorded(std::size_t n_ranks) {
  std::vector<std::vector<float>> ranks;
  for (std::size_t r = 0; r < n_ranks; ++r) ranks.push_back(floats(testing::kRecordedInputs[r]));
  return ranks;
}

TEST(ReductionOrderTest, GlooRingMatchesGlooOnTwoRanks) {
  EXPECT_EQ(words_of(all_reduce(recorded(2), ReductionOrder::kGlooRing)),
            (std::vector<std::uint32_t>{0xbfb0b699,
                                        0x3f084246,
                                        0xbfa5836c,
                                        0x3f3dfd5a,
                                        0xbd8ba6a0,
                                        0xbee8f568,
                                        0x3eb05eb4,
                                        0xbf9dd82b,
                                        0xbf38dd66,
                                        0xbe992b0c}));
}

TEST(ReductionOrderTest, GlooRingMatchesGlooOnThreeRanks) {
  EXPECT_EQ(words_of(all_reduce(recorded(3), ReductionOrder::kGlooRing)),
            (std::vector<std::uint32_t>{0xc01786cc,
                                        0x3f8a7416,
                                        0xc00c048f,
                                        0x3f180f3e,
                                        0x3e280040,
                                        0xbf2113d6,
                                        0xbf043a22,
                                        0xbfccc840,
                                        0xbfb42aea,
                                        0xbf89fefb}));
}

TEST(ReductionOrderTest, GlooRingMatchesGlooOnFourRanks) {
  EXPECT_EQ(words_of(all_reduce(recorded(4), ReductionOrder::kGlooRing)),
            (std::vector<std::uint32_t>{0xc0081b49,
                                        0x3f3ce0be,
                                        0xbffeaa0b,
                                        0x3d2c9f40,
                                        0x3f2fee82,
                                        0xbd12a4a0,
                                        0x3e6cbf00,
                                        0xc0114492,
                                        0xbfe34fd5,
                                        0xbfe9070f}));
}

// 1e8 and -1e8 swallow the 1 unless they meet first: in chunk c the innermost pair is (c+1, c+2),
// so only chunk 2 keeps it. 2,000,003 floats make 9 segments of 888,892 bytes, three per rank.
TEST(ReductionOrderTest, GlooRingCutsChunksAtWholeSegments) {
  constexpr std::size_t kN = 2'000'003;
  constexpr std::size_t kChunk = 3 * 888'892 / 4;
  std::vector<std::vector<float>> ranks = {
      std::vector<float>(kN, 1e8F), std::vector<float>(kN, -1e8F), std::vector<float>(kN, 1.0F)};
  const std::vector<float> sums = all_reduce(ranks, ReductionOrder::kGlooRing);
  EXPECT_EQ(sums[0], 0.0F);
  EXPECT_EQ(sums[2 * kChunk - 1], 0.0F);
  EXPECT_EQ(sums[2 * kChunk], 1.0F);
  EXPECT_EQ(sums[kN - 1], 1.0F);
}

TEST(ReductionOrderTest, RankOrderAddsFromTheLeft) {
  EXPECT_EQ(all_reduce({{1e8F}, {-1e8F}, {1.0F}}, ReductionOrder::kRank),
            (std::vector<float>{1.0F}));
  EXPECT_EQ(all_reduce({{1.0F}, {1e8F}, {-1e8F}}, ReductionOrder::kRank),
            (std::vector<float>{0.0F}));
}

TEST(ReductionOrderTest, PairwiseAddsNeighboursFirstAndCarriesTheOddOne) {
  // (1e8 + -1e8) + (1 + 1) keeps both ones; from the left the first is kept too, the order is seen
  // in the second case: (1e8 + 1) + (-1e8 + 1) loses them.
  EXPECT_EQ(all_reduce({{1e8F}, {-1e8F}, {1.0F}, {1.0F}}, ReductionOrder::kPairwise),
            (std::vector<float>{2.0F}));
  EXPECT_EQ(all_reduce({{1e8F}, {1.0F}, {-1e8F}, {1.0F}}, ReductionOrder::kPairwise),
            (std::vector<float>{0.0F}));
  EXPECT_EQ(all_reduce({{1e8F}, {1.0F}, {-1e8F}, {1.0F}}, ReductionOrder::kRank),
            (std::vector<float>{1.0F}));
  // Five: ((1e8 - 1e8) + (1 + 1)) + 3.
  EXPECT_EQ(all_reduce({{1e8F}, {-1e8F}, {1.0F}, {1.0F}, {3.0F}}, ReductionOrder::kPairwise),
            (std::vector<float>{5.0F}));
}

TEST(ReductionOrderTest, PairwiseGoesBeyondOneBlock) {
  std::vector<std::vector<float>> ranks(3, std::vector<float>(2500));
  for (std::vector<float>& rank : ranks) std::iota(rank.begin(), rank.end(), 0.0F);
  const std::vector<float> sums = all_reduce(ranks, ReductionOrder::kPairwise);
  for (std::size_t i = 0; i < sums.size(); ++i) ASSERT_EQ(sums[i], 3.0F * static_cast<float>(i));
}

TEST(ReductionOrderTest, AllOrdersAgreeOnMaximaAndSingletons) {
  for (const ReductionOrder order :
       {ReductionOrder::kRank, ReductionOrder::kGlooRing, ReductionOrder::kPairwise}) {
    EXPECT_EQ(all_reduce({{1.0F, 9.0F}, {5.0F, 2.0F}, {3.0F, 3.0F}}, order, ReduceOp::kMax),
              (std::vector<float>{5.0F, 9.0F}));
    EXPECT_EQ(all_reduce({{1.5F}}, order), (std::vector<float>{1.5F}));
  }
}

TEST(ReductionOrderTest, NamesReadBack) {
  EXPECT_EQ(parse_reduction_order("gloo-ring"), ReductionOrder::kGlooRing);
  EXPECT_EQ(parse_reduction_order("rank"), ReductionOrder::kRank);
  EXPECT_EQ(parse_reduction_order("pairwise"), ReductionOrder::kPairwise);
  EXPECT_EQ(parse_reduction_order("ring"), std::nullopt);
}

}  // namespace
}  // namespace lockstep
