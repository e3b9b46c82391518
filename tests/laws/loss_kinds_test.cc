// Losses from which the ranks start their backward passes.
#include <gtest/gtest.h>

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::DdpJob;

struct Loss {
  std::string_view function;
  LossReduction reduction = LossReduction::kMean;
  bool grad = true;
  std::string_view graph = {};
};

/// What gradient-mean advises of ranks that train two steps, each with the losses of its own.
std::string advised(const std::vector<std::vector<Loss>>& by_rank) {
  DdpJob job(static_cast<std::int32_t>(by_rank.size()));
  job.wrap();
  for (std::int32_t rank = 0; rank < job.n_ranks(); ++rank) {
    for (const Loss& loss : by_rank[static_cast<std::size_t>(rank)]) {
      job.at(rank);
      job.stream.add(rank,
                     LossEvent{.function = job.stream.name(loss.function),
                               .reduction = loss.reduction,
                               .grad = loss.grad,
                               .graph = job.stream.name(loss.graph)});
    }
  }
  std::string text;
  for (const Advice& advice : check("gradient-mean", job.stream).advice) {
    text += advice.id + ": " + advice.message;
  }
  return text;
}

TEST(LossKindsTest, ASumOnOneRankBesideMeansGetsAdvice) {
  EXPECT_EQ(advised({{{"mse_loss"}}, {{"mse_loss", LossReduction::kSum}}, {{"mse_loss"}}}),
            "A-losses-differ: the ranks' first backward passes start from different losses: "
            "mse_loss (mean) on ranks 0, 2; mse_loss (sum) on rank 1. Their gradients are averaged "
            "with equal weights.");
}

TEST(LossKindsTest, AnotherFunctionOnOneRankGetsAdvice) {
  EXPECT_NE(advised({{{"mse_loss"}}, {{"l1_loss"}}}).find("l1_loss (mean) on rank 1"),
            std::string::npos);
}

// What is only looked at; divisors that the program gives; losses after the first.
TEST(LossKindsTest, OnlyTheFirstLossOfATrainingCountsAndNoneWithADivisorOfItsOwn) {
  EXPECT_EQ(advised({{{"mse_loss"}}, {{"l1_loss", LossReduction::kMean, false}, {"mse_loss"}}}),
            "");
  EXPECT_EQ(advised({{{"mse_loss"}}, {{"mse_loss", LossReduction::kGiven}}}), "");
  EXPECT_EQ(advised({{{"mse_loss"}}, {{"mse_loss"}, {"l1_loss"}}}), "");
}

TEST(LossKindsTest, WeightsThatAreNewForEachBatchAreFine) {
  EXPECT_EQ(advised({{{"weighted 1"}, {"weighted 2"}}, {{"weighted 3"}, {"weighted 1"}}}), "");
  EXPECT_EQ(advised({{{"weighted 1"}, {"weighted 2"}}, {{"weighted 3"}, {"weighted 3"}}}), "");
  EXPECT_NE(advised({{{"weighted 1"}, {"weighted 1"}}, {{"weighted 3"}, {"weighted 3"}}}), "");
  const LossReduction sum = LossReduction::kSum;
  EXPECT_NE(advised({{{"weighted 1"}, {"weighted 2"}}, {{"weighted 3", sum}}})
                .find("one (mean) on rank 0; one (sum) on rank 1"),
            std::string::npos);
}

/// Losses of one function whose backward passes go through these.
std::vector<Loss> through(const std::vector<std::string_view>& graphs) {
  std::vector<Loss> losses;
  for (const std::string_view graph : graphs) {
    losses.push_back({.function = "loss", .reduction = LossReduction::kGiven, .graph = graph});
  }
  return losses;
}

TEST(LossGraphsTest, ARankThatGoesThroughOtherOperationsEveryTimeGetsAdvice) {
  EXPECT_EQ(
      advised({through({"2 parameters: Addmm x2, Gelu", "2 parameters: Addmm x2, Gelu"}),
               through({"2 parameters: Addmm x2, Mul, Relu", "2 parameters: Addmm x2, Mul, Relu"}),
               through({"2 parameters: Addmm x2, Gelu", "2 parameters: Addmm x2, Gelu"})}),
      "A-operations-differ: the ranks' first backward passes run different operations, the same "
      "ones in every step: Gelu on ranks 0, 2; Mul, Relu on rank 1. Their gradients are averaged "
      "as if they came from one model.");
  EXPECT_NE(advised({through({"2 parameters: Addmm", "2 parameters: Addmm"}),
                     through({"2 parameters: Addmm, Mul", "2 parameters: Addmm, Mul"})})
                .find("none of these on rank 0; Mul on rank 1"),
            std::string::npos);
}

TEST(LossGraphsTest, OperationsThatVaryOrWereSeenOnceSayNothing) {
  EXPECT_EQ(advised({through({"2 parameters: Addmm, Gelu", "2 parameters: Addmm, Gelu"}),
                     through({"2 parameters: Addmm, Gelu", "2 parameters: Addmm, Gelu"})}),
            "");
  EXPECT_EQ(advised({through({"2 parameters: Addmm, Gelu", "2 parameters: Addmm, Gelu"}),
                     through({"2 parameters: Addmm", "2 parameters: Addmm, Gelu"})}),
            "");
  EXPECT_EQ(
      advised(
          {through({"2 parameters: Addmm, Gelu", "2 parameters: Addmm, Gelu"}),
           through({"2 parameters: Addmm", "2 parameters: Addmm", "2 parameters: Addmm, Gelu"})}),
      "");
  EXPECT_EQ(advised({through({"2 parameters: Addmm, Gelu"}), through({"2 parameters: Addmm"})}),
            "");
  EXPECT_EQ(advised({through({"", ""}), through({"2 parameters: Addmm", "2 parameters: Addmm"})}),
            "");
}

TEST(LossGraphsTest, RanksThatUsePartsOfTheirOwnOfAModelAreMeantTo) {
  EXPECT_EQ(advised({through({"4 parameters: Addmm x2", "4 parameters: Addmm x2"}),
                     through({"2 parameters: Addmm", "2 parameters: Addmm"})}),
            "");
}

TEST(LossGraphsTest, WhatLossFunctionsSayComesFirst) {
  const std::vector<Loss> one = {{.function = "mse_loss", .graph = "2 parameters: Mse"},
                                 {.function = "mse_loss", .graph = "2 parameters: Mse"}};
  const std::vector<Loss> other = {{.function = "l1_loss", .graph = "2 parameters: L1"},
                                   {.function = "l1_loss", .graph = "2 parameters: L1"}};
  EXPECT_EQ(advised({one, other}).find("A-losses-differ"), 0U);
  EXPECT_EQ(advised({one, other}).find("A-operations-differ"), std::string::npos);
}

/// A backward of every rank: over how many terms its loss is a mean.
using Terms = std::vector<double>;

struct MeanOf {
  LossReduction reduction = LossReduction::kMean;
  std::int64_t n_terms = 0;
  bool grad = true;
};

std::string advised_of(const std::vector<Terms>& passes,
                       const MeanOf& loss = {},
                       bool synchronizes = true) {
  DdpJob job(static_cast<std::int32_t>(passes.front().size()));
  job.wrap(synchronizes);
  for (const Terms& terms : passes) {
    for (std::int32_t rank = 0; rank < job.n_ranks(); ++rank) {
      ++job.at(rank).sync;
      job.stream.add(rank,
                     LossEvent{.function = job.stream.name("cross_entropy"),
                               .reduction = loss.reduction,
                               .denominator = terms[static_cast<std::size_t>(rank)],
                               .n_terms = loss.n_terms,
                               .grad = loss.grad});
    }
  }
  std::string text;
  for (const Advice& advice : check("gradient-mean", job.stream).advice) {
    text += advice.id + ": " + advice.message;
  }
  return text;
}

TEST(UnevenMeansTest, MeansOverOtherNumbersOfTermsGetAdvice) {
  EXPECT_EQ(advised_of({{8, 8, 8}, {5, 20, 10}, {8, 4, 16}, {30, 5, 10}}),
            "A-uneven-means: in 3 of 4 backward passes the ranks' mean losses have different "
            "numbers of terms (first: 5 on rank 0, 20 on rank 1) but equal weights. A term counts "
            "up to 6 times as much on one rank as on another. For a mean over all terms, use "
            "loss.sum() * world_size / total_terms, unless ranks should count equally.");
}

// The last batches of epochs; a tenth more; fewer passes than make a habit.
TEST(UnevenMeansTest, RareOrSmallImbalanceIsNotReported) {
  EXPECT_EQ(advised_of({{8, 8}, {8, 8}, {8, 2}, {8, 2}}), "");
  EXPECT_EQ(advised_of({{10, 11}, {10, 11}, {10, 11}, {10, 11}}), "");
  EXPECT_NE(advised_of({{10, 12}, {10, 12}, {10, 12}, {10, 12}}), "");
  EXPECT_EQ(advised_of({{10, 12}, {10, 12}, {10, 12}}), "");
}

// Of losses that are scaled later nothing is known, nor of loops that may weigh what they average.
TEST(UnevenMeansTest, OnlyMeansThatABackwardStartsFromAndThatAWrapperAveragesCount) {
  const std::vector<Terms> uneven = {{1, 9}, {1, 9}, {1, 9}, {1, 9}};
  EXPECT_NE(advised_of(uneven), "");
  EXPECT_EQ(advised_of(uneven, {.reduction = LossReduction::kSum}), "");
  EXPECT_EQ(advised_of(uneven, {.n_terms = 9}), "");
  EXPECT_EQ(advised_of(uneven, {.grad = false}), "");
  EXPECT_EQ(advised_of(uneven, {}, false), "");
  EXPECT_EQ(advised_of({{0, 9}, {0, 9}, {0, 9}, {0, 9}}), "");
}

/// Ranks that each compute two gradients outside of wrappers, `trains` of them; the last of them may wrap a model then.
LawResult unwrapped(std::int32_t n_ranks,
                    std::int32_t trains,
                    bool wraps = false,
                    bool grad = true) {
  DdpJob job(n_ranks);
  for (std::int32_t rank = 0; rank < trains; ++rank) {
    for (std::int32_t step = 0; step < 2; ++step) {
      job.at(rank).wrapper = -1;
      job.stream.add(rank, LossEvent{.function = job.stream.name("mse_loss"), .grad = grad});
    }
  }
  if (wraps) job.wrap();
  return check("gradient-mean", job.stream);
}

TEST(UnwrappedBackwardsTest, GradientsThatNothingReducesAreSaidToBeUnchecked) {
  const LawResult result = unwrapped(3, 2);
  ASSERT_EQ(result.advice.size(), 1U);
  EXPECT_EQ(result.advice[0].id, "A-nothing-wrapped");
  EXPECT_EQ(result.advice[0].about, AdviceSubject::kChecks);
  EXPECT_TRUE(result.advice[0].message.starts_with("ranks 0, 1 compute gradients"))
      << result.advice[0].message;
  EXPECT_EQ(result.verdict, Verdict::kNotCheckable);
}

/// Two ranks that each compute a gradient and make these calls after it, rank 1 as many of them.
std::vector<Advice> in_parts(CollectiveOp op,
                             ReduceOp reduce,
                             std::int32_t of_rank_1,
                             CollectivePhase phase = CollectivePhase::kPosted,
                             std::int32_t group = 0) {
  DdpJob job(2);
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    job.at(rank).wrapper = -1;
    job.stream.add(rank, LossEvent{.function = job.stream.name("mse_loss")});
    for (std::int32_t i = 0; i < (rank == 0 ? 2 : of_rank_1); ++i) {
      const Signature signature{.op = op, .reduce = reduce, .count = 8};
      job.stream.add(rank, CollectiveEvent{.phase = phase, .group = group, .signature = signature});
    }
  }
  std::vector<Advice> advice = check("gradient-mean", job.stream).advice;
  const std::vector<Advice> together = check_together("gradient-mean", job.stream).advice;
  EXPECT_EQ(advice.size(), 1U);
  EXPECT_TRUE(together.size() == 1 && together[0].id == advice[0].id);
  return advice;
}

TEST(UnwrappedBackwardsTest, GradientsSummedInPartsNeedNoWrapper) {
  constexpr CollectiveOp kInParts = CollectiveOp::kReduceScatter;
  for (const ReduceOp reduce : {ReduceOp::kSum, ReduceOp::kAvg}) {
    const std::vector<Advice> advice = in_parts(kInParts, reduce, 2);
    EXPECT_EQ(advice[0].id, "A-shared-out");
    EXPECT_TRUE(advice[0].message.starts_with("ranks 0, 1 reduce-scatter gradients"));
    EXPECT_EQ(advice[0].about, AdviceSubject::kChecks);
  }
  constexpr std::string_view kElse = "A-nothing-wrapped";
  EXPECT_EQ(in_parts(kInParts, ReduceOp::kSum, 1)[0].id, kElse) << "one is any sum";
  EXPECT_EQ(in_parts(kInParts, ReduceOp::kSum, 0)[0].id, kElse) << "rank 1 has no share";
  EXPECT_EQ(in_parts(kInParts, ReduceOp::kMax, 2)[0].id, kElse) << "no gradients";
  EXPECT_EQ(in_parts(CollectiveOp::kAllGather, ReduceOp::kSum, 2)[0].id, kElse);
  EXPECT_EQ(in_parts(kInParts, ReduceOp::kSum, 2, CollectivePhase::kCompleted)[0].id, kElse)
      << "a call counts where it is made";
}

TEST(UnwrappedBackwardsTest, GradientsSummedWithinSmallerGroupsNeedNoWrapper) {
  CollectiveOp op = CollectiveOp::kAllReduce;
  const auto summed = [&](std::int32_t group, std::int32_t of_rank_1, ReduceOp reduce) {
    return in_parts(op, reduce, of_rank_1, CollectivePhase::kPosted, group)[0];
  };
  const Advice advice = summed(3, 2, ReduceOp::kSum);
  EXPECT_EQ(advice.id, "A-shared-out");
  EXPECT_TRUE(
      advice.message.starts_with("ranks 0, 1 compute gradients and reduce within subgroups"));
  EXPECT_EQ(advice.about, AdviceSubject::kChecks);
  EXPECT_EQ(summed(0, 2, ReduceOp::kSum).id, "A-nothing-wrapped") << "of all ranks";
  EXPECT_EQ(summed(3, 1, ReduceOp::kSum).id, "A-nothing-wrapped");
  EXPECT_EQ(summed(3, 2, ReduceOp::kMax).id, "A-nothing-wrapped");
  op = CollectiveOp::kAllGather;
  EXPECT_EQ(summed(3, 2, ReduceOp::kSum).id, "A-nothing-wrapped") << "nothing is added";
}

/// Ranks that average gradients in parts after each loss.
struct InParts {
  std::vector<double> of_rank_0 = {4.0, 3.0, 2.0, 1.0};
  std::vector<double> of_rank_1 = {4.0, 3.0, 2.0, 1.0};
  ReduceOp reduce = ReduceOp::kAvg;
  std::int32_t group = 0;
};

/// Whether they are said to train on the same samples.
bool train_alike(const InParts& how) {
  DdpJob job(2);
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    job.at(rank).wrapper = -1;
    for (const double value : rank == 0 ? how.of_rank_0 : how.of_rank_1) {
      job.stream.add(rank, LossEvent{.function = job.stream.name("mse_loss"), .value = value});
      const Signature signature{
          .op = CollectiveOp::kReduceScatter, .reduce = how.reduce, .count = 8};
      job.stream.add(rank, CollectiveEvent{.group = how.group, .signature = signature});
    }
  }
  const std::vector<Advice> advice = check("gradient-mean", job.stream).advice;
  const std::vector<Advice> together = check_together("gradient-mean", job.stream).advice;
  EXPECT_EQ(together.size(), advice.size());
  EXPECT_EQ(advice.front().id, "A-shared-out");
  if (advice.size() < 2) return false;
  EXPECT_EQ(advice[1].id, "A-same-losses");
  EXPECT_EQ(advice[1].about, AdviceSubject::kProgram);
  return true;
}

TEST(UnwrappedBackwardsTest, RanksThatAverageTheSameLossesTrainOnTheSameSamples) {
  EXPECT_TRUE(train_alike({}));
  EXPECT_TRUE(train_alike({{4.0, 3.0, 2.0, 1.0, 0.5}, {4.0, 3.0, 2.0, 1.0, 0.6}})) << "four do";
  EXPECT_FALSE(train_alike({{4.0, 3.0, 2.0, 1.0}, {4.0, 3.0, 2.0, 1.5}}));
  EXPECT_FALSE(train_alike({{4.0, 3.0, 2.0}, {4.0, 3.0, 2.0}})) << "too few";
  EXPECT_FALSE(train_alike({{0.0, 0.0, 0.0, 0.0}, {0.0, 0.0, 0.0, 0.0}})) << "they say nothing";
  EXPECT_FALSE(train_alike({.reduce = ReduceOp::kSum})) << "ranks that share out a product add";
  EXPECT_FALSE(train_alike({.group = 1})) << "others may read otherwise";
}

TEST(UnwrappedBackwardsTest, AWrapperIsSomethingToCheck) {
  EXPECT_TRUE(unwrapped(2, 2, true).advice.empty());
}

TEST(UnwrappedBackwardsTest, StepsThatAreRecordedAreSomethingToCheck) {
  DdpJob job(2);
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    job.at(rank).wrapper = -1;
    job.stream.add(rank, LossEvent{.function = job.stream.name("mse_loss")});
    job.stream.add(rank, StepEvent{});
  }
  EXPECT_TRUE(check("gradient-mean", job.stream).advice.empty());
}

/// What rank 1 does besides computing gradients, while rank 0 steps with the sums of both.
struct Idle {
  std::int64_t n_steps = 2;  ///< Of rank 0, after the one that has shown its loop.
  std::int64_t n_sums = 2;
  CollectiveOp op = CollectiveOp::kAllReduce;
  ReduceOp reduce = ReduceOp::kSum;
  std::int64_t given = 0;  ///< Elements that it gets.
  CollectiveOp gives = CollectiveOp::kBroadcast;
  bool steps_at_last = false;
  CollectivePhase phase = CollectivePhase::kPosted;
  bool computes = true;
  bool steps = false;
  bool synchronizes = false;
};

std::vector<Advice> beside_a_loop(const Idle& idle) {
  DdpJob job(2);
  const auto call = [&](CollectiveOp op, std::int64_t count) {
    job.at(1).wrapper = -1;
    Signature signature{.op = op, .reduce = idle.reduce, .count = count};
    job.stream.add(1, CollectiveEvent{.phase = idle.phase, .signature = signature});
  };
  job.at(1).wrapper = -1;
  call(CollectiveOp::kBroadcast, 100);  // What all start from.
  job.stream.add(1, LossEvent{.function = job.stream.name("mse_loss"), .grad = idle.computes});
  if (idle.steps) job.stream.add(1, StepEvent{});
  for (std::int64_t i = 0; i < idle.n_sums; ++i) call(idle.op, 10);
  if (idle.given > 0) call(idle.gives, idle.given);
  if (idle.steps_at_last) job.stream.add(1, StepEvent{});
  job.at(0);
  job.stream.add(
      0, WrapEvent{.params = job.layout(), .n_ranks = 2, .synchronizes = idle.synchronizes});
  for (std::int64_t i = 0; i < idle.n_steps; ++i) job.step(0, 1.0);
  const std::vector<Advice> together = check_together("gradient-mean", job.stream).advice;
  std::vector<Advice> advice = check("gradient-mean", job.stream).advice;
  EXPECT_EQ(together.size(), advice.size());
  return advice;
}

TEST(UnwrappedBackwardsTest, ARankThatNeverStepsWithWhatItHelpsToReduceIsNamed) {
  const std::vector<Advice> advice = beside_a_loop({});
  ASSERT_EQ(advice.size(), 1U);
  EXPECT_EQ(advice[0].id, "A-never-steps");
  EXPECT_TRUE(
      advice[0].message.starts_with("rank 1 computed gradients and took part in the reductions of "
                                    "rank 0, but was not seen to step"))
      << advice[0].message;
  EXPECT_EQ(beside_a_loop({.reduce = ReduceOp::kAvg}).size(), 1U);
  EXPECT_EQ(beside_a_loop({.op = CollectiveOp::kReduce}).size(), 1U);
  EXPECT_EQ(beside_a_loop({.given = 9}).size(), 1U) << "a few numbers";
  EXPECT_EQ(beside_a_loop({.given = 10, .gives = CollectiveOp::kGather}).size(), 1U) << "it sends";
}

TEST(UnwrappedBackwardsTest, ARankThatIsGivenAModelOrDoesNotTrainIsNotNamed) {
  for (const CollectiveOp op : {CollectiveOp::kBroadcast,
                                CollectiveOp::kRecv,
                                CollectiveOp::kScatter,
                                CollectiveOp::kAllGather}) {
    EXPECT_TRUE(beside_a_loop({.given = 10, .gives = op}).empty()) << name_of(op);
  }
  EXPECT_TRUE(beside_a_loop({.steps_at_last = true}).empty());
  EXPECT_TRUE(beside_a_loop({.phase = CollectivePhase::kCompleted}).empty())
      << "a call counts where it is made";
  EXPECT_TRUE(beside_a_loop({.computes = false}).empty()) << "it helps";
  EXPECT_TRUE(beside_a_loop({.steps = true}).empty());
  EXPECT_TRUE(beside_a_loop({.n_sums = 1}).empty()) << "it may have ended";
  EXPECT_TRUE(beside_a_loop({.n_steps = 1}).empty()) << "so may the others";
  EXPECT_TRUE(beside_a_loop({.reduce = ReduceOp::kMax}).empty()) << "no gradients";
  EXPECT_TRUE(beside_a_loop({.synchronizes = true}).empty()) << "a wrapper reduces by itself";
}

TEST(UnwrappedBackwardsTest, OneRankThatTrainsHasNothingToReduce) {
  EXPECT_TRUE(unwrapped(2, 1).advice.empty());
}

TEST(UnwrappedBackwardsTest, LossesWithoutABackwardAreNoTraining) {
  EXPECT_TRUE(unwrapped(2, 2, false, false).advice.empty());
}

}  // namespace
}  // namespace lockstep
