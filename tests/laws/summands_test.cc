// Losses that are sums of several: one summand's divisor, another wrapper's loss; and tensors that are summed without a
// loop that laws can follow.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::check_together;
using testing::DdpJob;

bool advises(const LawResult& result, std::string_view id) {
  for (const Advice& advice : result.advice) {
    if (advice.id == id) return true;
  }
  return false;
}

/// Whether four backward passes get advice in which a summand of each rank's loss is divided by these numbers.
bool is_uneven(double of_rank_0,
               double of_rank_1,
               LossReduction reduction = LossReduction::kGiven) {
  DdpJob job(2);
  job.wrap();
  for (int pass = 0; pass < 4; ++pass) {
    for (std::int32_t rank = 0; rank < 2; ++rank) {
      ++job.at(rank).sync;
      job.stream.add(rank,
                     LossEvent{.function = job.stream.name("loss"),
                               .reduction = reduction,
                               .denominator = rank == 0 ? of_rank_0 : of_rank_1});
    }
  }
  return advises(check("gradient-mean", job.stream), "A-uneven-means");
}

TEST(SummandsTest, ASumThatRanksDivideByDifferentNumbersGetsAdvice) {
  EXPECT_TRUE(is_uneven(3.0, 20.0));
  EXPECT_FALSE(is_uneven(11.5, 11.5)) << "averaged over the ranks";
  EXPECT_FALSE(is_uneven(0.0, 0.0)) << "not known";
  EXPECT_FALSE(is_uneven(3.0, 20.0, LossReduction::kSum));
}

/// Two wrappers with a loss each, the first of which is divided by the number of ranks, 2; they may belong to one backward.
/// `whole`: the other wrapper's loss is one that a backward of its own starts from.
bool is_divided_again(bool other_is_divided, bool other_is_called, bool whole = false) {
  DdpJob job(2);
  for (job.wrapper = 0; job.wrapper < 2; ++job.wrapper) job.wrap();
  for (int step = 0; step < 4; ++step) {
    for (std::int32_t rank = 0; rank < 2; ++rank) {
      for (job.wrapper = 0; job.wrapper < 2; ++job.wrapper) {
        job.forward(rank);
        if (job.wrapper == 1 && !other_is_called) continue;
        job.stream.add(rank,
                       LossEvent{.denominator = 8, .n_rows = whole && job.wrapper == 1 ? 0 : 4});
      }
      for (job.wrapper = 0; job.wrapper < 2; ++job.wrapper) {
        const bool is_divided = job.wrapper == 0 || (other_is_divided && other_is_called);
        job.at(rank);
        if (is_divided) {
          job.stream.add(
              rank, LossEvent{.reduction = LossReduction::kGiven, .denominator = 16, .n_terms = 8});
        }
        job.reduce(rank, 1.0 + rank, 1.0 + rank, 1.5);
      }
      for (job.wrapper = 0; job.wrapper < 2; ++job.wrapper) job.step(rank, 1.5);
    }
    job.wrapper = 0;
  }
  const bool advised = advises(check("norm-true", job.stream), "A-divided-again");
  EXPECT_EQ(advises(check_together("norm-true", job.stream), "A-divided-again"), advised);
  return advised;
}

TEST(SummandsTest, AFactorOfOneSummandIsItsWeight) {
  EXPECT_TRUE(is_divided_again(false, false)) << "there is no other loss";
  EXPECT_TRUE(is_divided_again(true, true)) << "both are divided";
  EXPECT_FALSE(is_divided_again(false, true));
  EXPECT_TRUE(is_divided_again(false, true, true)) << "of another backward";
}

/// The id of the only advice on two ranks that compute a gradient and then sum tensors of `count` elements twice.
std::string followed(std::int64_t count, std::int32_t n_of_rank_1 = 2) {
  DdpJob job(2);
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    job.at(rank).wrapper = -1;
    job.stream.add(rank, LossEvent{.function = job.stream.name("mse_loss")});
    for (std::int32_t i = 0; i < (rank == 0 ? 2 : n_of_rank_1); ++i) {
      const Signature signature{.op = CollectiveOp::kAllReduce, .count = count};
      job.stream.add(rank, CollectiveEvent{.signature = signature});
    }
  }
  const std::vector<Advice> advice = check("gradient-mean", job.stream).advice;
  return advice.size() == 1 && advice[0].about == AdviceSubject::kChecks ? advice[0].id : "";
}

TEST(UnwrappedBackwardsTest, TensorsThatAllRanksSumMayBeAWayOfTraining) {
  EXPECT_EQ(followed(16), "A-not-followed");
  EXPECT_EQ(followed(15), "A-nothing-wrapped") << "as few as a report of losses sums";
  EXPECT_EQ(followed(16, 1), "A-nothing-wrapped") << "rank 1 sums once";
}

}  // namespace
}  // namespace lockstep
