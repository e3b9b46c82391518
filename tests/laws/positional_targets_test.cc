// Targets that number rows of one rank in a loss over gathered rows: advice of single-process-equal.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::check_together;
using testing::DdpJob;

/// A job whose loss scores rows against gathered ones.
struct Contrast {
  int n_passes = 16;
  int n_rank_0_is_best = 16;  ///< In the first passes; then rank 1 is.
  std::int32_t n_ranks = 4;
  std::uint64_t offset = 0;  ///< Of the targets of a rank, per rank.
  DType dtype = DType::kI64;
  bool gathers = true;
  bool distinct = true;
  std::int32_t group = 0;
  std::string_view argument = kTargetArgument;
  CollectiveOp call = CollectiveOp::kAllGather;
  bool dropped = false;
  std::int64_t n_elems = 1;
  bool grad = true;
  bool second_loss = false;  ///< Of each pass, smallest on rank 1.
  int n_with_offset = 0;     ///< First passes, in which ranks have other targets.
};

std::vector<std::uint64_t> contrast_targets(const Contrast& how, std::int32_t rank) {
  std::vector<std::uint64_t> rows;
  for (std::uint64_t i = 0; i < 4; ++i) {
    rows.push_back(how.distinct ? 100 + i + how.offset * static_cast<std::uint64_t>(rank) : 100);
  }
  return rows;
}

DdpJob contrast_job(const Contrast& how) {
  DdpJob job(how.n_ranks);
  for (std::int32_t rank = 0; rank < how.n_ranks; ++rank) {
    job.at(rank);
    job.stream.add(rank, WrapEvent{.group = how.group, .n_ranks = how.n_ranks});
  }
  for (int pass = 0; pass < how.n_passes; ++pass) {
    const std::int32_t best = pass < how.n_rank_0_is_best ? 0 : 1;
    for (std::int32_t rank = 0; rank < how.n_ranks; ++rank) {
      job.forward(rank);
      // The first pass shows that the loss gathers; what it is compared with is not asked for before that.
      if (how.gathers) {
        job.stream.add(rank,
                       ExchangeEvent{.call = how.call,
                                     .group = how.group,
                                     .seq = pass,
                                     .n_ranks = how.n_ranks,
                                     .join = ExchangeJoin::kFunction,
                                     .dropped = how.dropped,
                                     .answered = true});
      }
      Contrast now = how;
      if (pass < how.n_with_offset) now.offset = 4;
      const std::vector<std::uint64_t> rows = contrast_targets(now, rank);
      job.stream.add(rank,
                     InputEvent{.argument = job.stream.name(how.argument),
                                .dtype = how.dtype,
                                .n_elems = how.n_elems,
                                .rows = rows});
      job.stream.add(rank, LossEvent{.value = rank == best ? 1.0 : 2.0, .grad = how.grad});
      if (how.second_loss) job.stream.add(rank, LossEvent{.value = rank == 1 ? 1.0 : 2.0});
      ++job.at(rank).opt;
      job.at(rank).micro = -1;
    }
  }
  return job;
}

std::string advised_of_contrast(const Contrast& how) {
  const DdpJob job = contrast_job(how);
  std::string text;
  for (const Advice& advice : check("single-process-equal", job.stream).advice) {
    text += advice.id + ": " + advice.message;
  }
  const std::vector<Advice> together = check_together("single-process-equal", job.stream).advice;
  EXPECT_EQ(together.empty(), text.empty());
  return text;
}

TEST(PositionalTargetsTest, TheSameTargetsOnAllRanksThatFavourRank0GetAdvice) {
  EXPECT_EQ(
      advised_of_contrast({}),
      "A-targets-not-offset: the loss compares each rank's rows with rows gathered from all 4 "
      "ranks, but all ranks have the same integer targets. Rank 0's loss was the smallest in "
      "16 of 16 backward passes. If a target is the index of a gathered row, add rank * "
      "batch_size to it.");
}

TEST(PositionalTargetsTest, TargetsWithAnOffsetPerRankAreRight) {
  EXPECT_EQ(advised_of_contrast({.offset = 4}), "");
}

// A rank that puts its own rows first has the same targets, and no rank is favoured.
TEST(PositionalTargetsTest, TheSameTargetsAreFineWhereNoRankIsFavoured) {
  EXPECT_EQ(advised_of_contrast({.n_rank_0_is_best = 4}), "");
}

// By hand: of 4 ranks rank 0 is best in 10 of 10 passes once in 4^10 = 1,048,576 times, in 9 of 9 once in 262,144.
TEST(PositionalTargetsTest, ChanceHasToBeBelowOneInAMillion) {
  EXPECT_NE(advised_of_contrast({.n_passes = 10, .n_rank_0_is_best = 10}), "");
  EXPECT_EQ(advised_of_contrast({.n_passes = 9, .n_rank_0_is_best = 9}), "");
  // 15 of 16: 49 / 4^16, one in 88 million. 11 of 16: more than one in 1,000.
  EXPECT_NE(advised_of_contrast({.n_rank_0_is_best = 15}), "");
  EXPECT_EQ(advised_of_contrast({.n_rank_0_is_best = 11}), "");
}

TEST(PositionalTargetsTest, OnlyDistinctIntegersOverGatheredRowsOfAllRanksCount) {
  EXPECT_EQ(advised_of_contrast({.gathers = false}), "");
  EXPECT_EQ(advised_of_contrast({.distinct = false}), "") << "labels of classes";
  EXPECT_EQ(advised_of_contrast({.dtype = DType::kF32}), "");
  EXPECT_EQ(advised_of_contrast({.group = 3}), "") << "ranks may share out one model";
  EXPECT_EQ(advised_of_contrast({.call = CollectiveOp::kAllReduce}), "");
  EXPECT_EQ(advised_of_contrast({.dropped = true}), "") << "nothing of it is in the loss";
  EXPECT_EQ(advised_of_contrast({.n_elems = 2}), "") << "rows of numbers";
  EXPECT_EQ(advised_of_contrast({.grad = false}), "") << "only looked at";
  EXPECT_EQ(advised_of_contrast({.n_passes = 20, .n_rank_0_is_best = 20, .n_with_offset = 1}), "")
      << "a pass has targets that differ from the places";
  EXPECT_EQ(advised_of_contrast({.argument = "1"}), "") << "not a target";
}

TEST(PositionalTargetsTest, TheFirstLossOfAPassCountsInTheFirst128Passes) {
  EXPECT_NE(advised_of_contrast({.second_loss = true}), "");
  const std::string text = advised_of_contrast({.n_passes = 200, .n_rank_0_is_best = 200});
  EXPECT_NE(text.find("in 128 of 128 backward passes"), std::string::npos) << text;
}

}  // namespace
}  // namespace lockstep
