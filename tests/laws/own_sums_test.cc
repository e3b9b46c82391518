#include "lockstep/laws/rules/detail/own_sums.h"

#include <gtest/gtest.h>

namespace lockstep::laws {
namespace {

constexpr RankRange kRank0{0, 1};
constexpr RankRange kBoth{0, 2};

CollectiveEvent sum_of(std::int64_t count, std::int32_t group = 0) {
  CollectiveEvent call;
  call.group = group;
  call.signature.op = CollectiveOp::kAllReduce;
  call.signature.count = count;
  return call;
}

Event in_wrapper(std::int32_t wrapper) {
  Event event;
  event.at.wrapper = wrapper;
  return event;
}

TEST(OwnSumsTest, OnlySumsThatTheProgramItselfPostsCount) {
  EXPECT_TRUE(OwnSums::is_one(sum_of(4)));
  CollectiveEvent call = sum_of(4);
  call.signature.site.scope = "ddp";
  EXPECT_FALSE(OwnSums::is_one(call)) << "a wrapper's";
  call = sum_of(4);
  call.phase = CollectivePhase::kCompleted;
  EXPECT_FALSE(OwnSums::is_one(call));
  call = sum_of(4);
  call.signature.reduce = ReduceOp::kMax;
  EXPECT_FALSE(OwnSums::is_one(call));
}

TEST(OwnSumsTest, ManualAllReducesAccumulateAcrossWrappersUntilReset) {
  OwnSums sums;
  EXPECT_EQ(sums.find(in_wrapper(0), kRank0), nullptr);
  sums.on_call(in_wrapper(-1), sum_of(4), kRank0);
  sums.on_call(in_wrapper(0), sum_of(1), kRank0);
  EXPECT_EQ(sums.find(in_wrapper(0), kRank0)->counts, (std::vector<std::int64_t>{4, 1}));
  sums.restart(in_wrapper(0), kRank0);
  EXPECT_EQ(sums.find(in_wrapper(0), kRank0), nullptr);
}

TEST(OwnSumsTest, AnotherGroupsSumsBeginAnew) {
  OwnSums sums;
  sums.on_call(in_wrapper(0), sum_of(4, 0), kRank0);
  sums.on_call(in_wrapper(0), sum_of(2, 1), kRank0);
  EXPECT_EQ(sums.find(in_wrapper(0), kRank0)->group, 1);
  EXPECT_EQ(sums.find(in_wrapper(0), kRank0)->counts, (std::vector<std::int64_t>{2}));
}

TEST(OwnSumsTest, RanksShareUntilOneOfThemSumsAlone) {
  OwnSums sums;
  sums.on_call(in_wrapper(0), sum_of(4), kBoth);
  EXPECT_TRUE(sums.shares(in_wrapper(0), kBoth));
  sums.on_call(in_wrapper(0), sum_of(4), kRank0);
  EXPECT_FALSE(sums.shares(in_wrapper(0), kBoth));
}

}  // namespace
}  // namespace lockstep::laws
