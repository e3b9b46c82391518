#include "lockstep/harness/rounding/order_search.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

const FloatFormat kF32 = *FloatFormat::of(ElementType::kF32);

// 2^24 + 1 rounds back to 2^24 (ties to even), 2^24 + 2 is a float.
constexpr double kTwo24 = 16'777'216.0;

TEST(SumOrderSearchTest, EachShapeAddsAsItIsDrawn) {
  const std::vector<double> x = {kTwo24, 1.0, -kTwo24, 1.0};
  // ((B + 1) - B) + 1, (B + 1) + (-B + 1), (B - B) + (1 + 1).
  EXPECT_EQ(add_in_order(x, kF32, {SumShape::kChain, 0, MeanStep::kNone}), 1.0);
  EXPECT_EQ(add_in_order(x, kF32, {SumShape::kNeighbours, 0, MeanStep::kNone}), 1.0);
  EXPECT_EQ(add_in_order(x, kF32, {SumShape::kHalves, 0, MeanStep::kNone}), 2.0);
  // From rank 1: ((1 - B) + 1) + B; backwards from rank 1: ((1 + B) + 1) - B.
  EXPECT_EQ(add_in_order(x, kF32, {SumShape::kChain, 1, MeanStep::kNone}), 2.0);
  EXPECT_EQ(add_in_order(x, kF32, {SumShape::kBackwardChain, 1, MeanStep::kNone}), 0.0);
}

// Of five ranks Open MPI and MPICH add the pair that is too much first, Gloo the block of four.
TEST(SumOrderSearchTest, RanksBeyondAPowerOfTwoAreFoldedOrMakeABlock) {
  const std::vector<double> x = {1.0, kTwo24, -kTwo24, 1.0, 1.0};
  // ((1 + B) - B) + (1 + 1), ((1 + B) + (-B + 1)) + 1.
  EXPECT_EQ(add_in_order(x, kF32, {SumShape::kFoldedNeighbours, 0, MeanStep::kNone}), 2.0);
  EXPECT_EQ(add_in_order(x, kF32, {SumShape::kBlocks, 0, MeanStep::kNone}), 2.0);
  // From rank 4: ((1 + 1) + (B - B)) + 1.
  EXPECT_EQ(add_in_order(x, kF32, {SumShape::kBlocks, 4, MeanStep::kNone}), 3.0);
}

TEST(SumOrderSearchTest, AMeanIsDividedOrMultipliedBeforeOrAfter) {
  const std::vector<double> x = {1.0, 1.0, 1.0};
  const double third = static_cast<double>(1.0F / 3.0F);
  EXPECT_EQ(add_in_order(x, kF32, {SumShape::kChain, 0, MeanStep::kDividedAfter}), 1.0);
  EXPECT_EQ(add_in_order(x, kF32, {SumShape::kChain, 0, MeanStep::kDividedBefore}),
            static_cast<double>(static_cast<float>(third + third) + 1.0F / 3.0F));
  EXPECT_EQ(add_in_order(x, kF32, {SumShape::kChain, 0, MeanStep::kMultipliedAfter}),
            static_cast<double>(3.0F * (1.0F / 3.0F)));
}

TEST(SumOrderSearchTest, AnOrderIsKeptAsLongAsItFits) {
  const std::vector<double> plain = {1.0, 2.0, 3.0};
  const std::vector<double> odd = {kTwo24, 1.0, 1.0};
  SumOrderSearch search(3, kF32, {});
  search.add(plain, 6.0);
  search.add(odd, kTwo24);        // (B + 1) + 1: the chain from rank 0.
  search.add(odd, kTwo24 + 2.0);  // B + (1 + 1): the chain from rank 1.
  search.add(plain, 6.0);
  const auto runs = search.runs();
  ASSERT_TRUE(runs.has_value());
  ASSERT_EQ(runs->size(), 2U);
  EXPECT_EQ((*runs)[0].begin, 0);
  EXPECT_EQ((*runs)[0].end, 2);
  EXPECT_EQ((*runs)[0].order, (SumOrder{SumShape::kChain, 0, MeanStep::kNone}));
  EXPECT_EQ((*runs)[1].end, 4);
  EXPECT_EQ((*runs)[1].order, (SumOrder{SumShape::kChain, 1, MeanStep::kNone}));
}

TEST(SumOrderSearchTest, OneElementThatNoOrderGivesEndsTheExplanation) {
  SumOrderSearch search(3, kF32, {});
  const std::vector<double> x = {1.0, 2.0, 3.0};
  search.add(x, 6.0);
  EXPECT_TRUE(search.runs().has_value());
  search.add(x, 7.0);
  search.add(x, 6.0);
  EXPECT_FALSE(search.runs().has_value());
}

TEST(SumOrderSearchTest, OrdersAreNamedByShapeRankAndDivision) {
  EXPECT_EQ(text_of({SumShape::kBackwardChain, 3, MeanStep::kNone}), "backward chain from rank 3");
  EXPECT_EQ(text_of({SumShape::kChain, 0, MeanStep::kDividedBefore}),
            "chain from rank 0, divided before");
  EXPECT_EQ(orders_of(3, {}).size(), 18U);
  EXPECT_EQ(orders_of(4, {}).size(), 16U);  // Folded pairs and blocks are pairs of neighbours here.
  EXPECT_EQ(orders_of(3, {ResultKind::kMean}).size(), 72U);
}

}  // namespace
}  // namespace lockstep
