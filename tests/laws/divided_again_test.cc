// Averages that are divided by the number of ranks once more: advice of norm-true.
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::DdpJob;

/// A job of two ranks whose steps use the average divided by `divisor`.
struct Division {
  double divisor = 2.0;
  int n_steps = 3;
  double last_divisor = divisor;
  int n_micro = 1;
  bool synchronizes = true;
  std::optional<HookEffect> hook{};
  double scale = 1.0;
  std::int32_t n_ranks = 2;
};

LawResult norm_true(const Division& given) {
  DdpJob job(given.n_ranks);
  job.wrap(given.synchronizes);
  for (std::int32_t rank = 0; rank < given.n_ranks; ++rank) {
    job.at(rank);
    if (given.hook) job.stream.add(rank, CommHookEvent{.effect = *given.hook});
  }
  for (int step = 0; step < given.n_steps; ++step) {
    const double by = step + 1 == given.n_steps ? given.last_divisor : given.divisor;
    for (std::int32_t rank = 0; rank < given.n_ranks; ++rank) {
      for (int micro = 0; micro < given.n_micro; ++micro) job.forward(rank);
      job.reduce(rank, 1.0 + 2.0 * rank, 1.0 + 2.0 * rank, 2.0);
      job.grad(rank, GradPoint::kUsed, 2.0 / by);
      job.stream.add(rank, StepEvent{.lr = 1.0, .scale = given.scale, .layout = job.layout()});
      ++job.at(rank).opt;
      job.at(rank).micro = -1;
    }
  }
  return check("norm-true", job.stream);
}

TEST(DividedAgainTest, IsAdvisedAgainstWhereEveryStepDoesIt) {
  const LawResult result = norm_true({});
  EXPECT_TRUE(result.findings.empty());
  ASSERT_EQ(result.advice.size(), 1U);
  EXPECT_EQ(result.advice[0].id, "A-divided-again");
  EXPECT_EQ(result.advice[0].message,
            "all 3 steps divided the averaged gradients by 2 (the number of ranks), although the "
            "wrapper already divides by it. Divide once.");
}

TEST(DividedAgainTest, AverageThatIsUsedAsItIsOrTimesAnotherFactorIsFine) {
  EXPECT_TRUE(norm_true({.divisor = 1.0}).advice.empty());
  EXPECT_TRUE(norm_true({.divisor = 4.0}).advice.empty());
}

// Rounded once more, which is as good as divided by one.
TEST(DividedAgainTest, ASingleRankDividesByNothing) {
  EXPECT_TRUE(norm_true({.divisor = 1.0 + 1e-9, .n_ranks = 1}).advice.empty());
}

TEST(DividedAgainTest, OneStepShowsNoHabit) {
  EXPECT_TRUE(norm_true({.n_steps = 1}).advice.empty());
  EXPECT_TRUE(norm_true({.last_divisor = 1.0}).advice.empty());
  EXPECT_FALSE(norm_true({.n_steps = 2}).advice.empty());
}

// Micro-steps as many as ranks; a loss scale that is the number of ranks.
TEST(DividedAgainTest, WhatElseTheProgramMayDivideByIsNotTheNumberOfRanks) {
  EXPECT_TRUE(norm_true({.n_micro = 2}).advice.empty());
  EXPECT_FALSE(norm_true({.n_micro = 3}).advice.empty());
  EXPECT_TRUE(norm_true({.scale = 2.0}).advice.empty());
}

TEST(DividedAgainTest, SumsAreForTheProgramToDivide) {
  EXPECT_TRUE(norm_true({.hook = HookEffect::kOther}).advice.empty());
  EXPECT_TRUE(norm_true({.hook = HookEffect::kMean}).advice.empty());
  EXPECT_FALSE(norm_true({.hook = HookEffect::kRounded}).advice.empty());
  EXPECT_TRUE(norm_true({.synchronizes = false}).advice.empty());
}

/// A job of three ranks whose losses are the sum of 8 terms divided by `denominator`.
struct DividedLoss {
  double denominator = 24.0;
  std::int64_t n_terms = 8;
  std::int64_t n_terms_of_rank_1 = n_terms;
  LossReduction reduction = LossReduction::kGiven;
  int n_steps = 2;
  int n_micro = 1;
  double last = denominator;
  bool last_unknown = false;  ///< What the last loss was divided by.
  double used = 2.0;          ///< Of averages that are 2.
  double scale = 1.0;
  bool synchronizes = true;
  bool grad = true;
  std::optional<HookEffect> hook{};
  std::int32_t n_with_losses = 3;  ///< Ranks.
};

DdpJob with_divided_losses(const DividedLoss& given) {
  DdpJob job(3);
  job.wrap(given.synchronizes);
  for (std::int32_t rank = 0; rank < 3 && given.hook; ++rank) {
    job.at(rank);
    job.stream.add(rank, CommHookEvent{.effect = *given.hook});
  }
  for (int i = 0; i < given.n_steps * given.n_micro; ++i) {
    const bool is_last = i + 1 == given.n_steps * given.n_micro;
    LossEvent loss{.function = job.stream.name("loss"),
                   .reduction = given.reduction,
                   .denominator = is_last ? given.last : given.denominator,
                   .grad = given.grad};
    for (std::int32_t rank = 0; rank < 3; ++rank) {
      job.forward(rank);
      loss.n_terms = rank == 1 ? given.n_terms_of_rank_1 : given.n_terms;
      if (given.last_unknown && is_last) {
        loss.n_terms = 0;
        loss.denominator = 0.0;
      }
      if (rank < given.n_with_losses) job.stream.add(rank, loss);
    }
    for (std::int32_t rank = 0; rank < 3 && (i + 1) % given.n_micro == 0; ++rank) {
      job.reduce(rank, 1.0 + rank, 1.0 + rank, 2.0);
      job.grad(rank, GradPoint::kUsed, given.used);
      job.stream.add(rank, StepEvent{.lr = 1.0, .scale = given.scale, .layout = job.layout()});
      ++job.at(rank).opt;
      job.at(rank).micro = -1;
    }
  }
  return job;
}

std::string text_of(const LawResult& result) {
  std::string text;
  for (const Advice& advice : result.advice) text += advice.id + ": " + advice.message;
  return text;
}

/// By events of single ranks, one rank after the other or in turn, and of all ranks at once.
std::string advised(const DividedLoss& given) {
  const DdpJob job = with_divided_losses(given);
  const std::string text = text_of(check("norm-true", job.stream));
  std::vector<std::uint32_t> in_turn(300);
  std::iota(in_turn.begin(), in_turn.end(), 0U);
  EXPECT_EQ(text_of(check("norm-true", job.stream, testing::policy_of(3), in_turn)), text);
  EXPECT_EQ(text_of(testing::check_together("norm-true", job.stream)), text);
  return text;
}

TEST(DividedLossTest, ADivisionByTheRanksThatTheWrapperRepeatsGetsAdvice) {
  EXPECT_EQ(
      advised({}),
      "A-divided-again: in all 2 steps the losses were divided by 3 (the number of ranks) and by "
      "their number of terms, and the wrapper divides by the number of ranks again. Divide once.");
  EXPECT_NE(advised({.n_micro = 2}), "");
}

// Micro-steps as many as ranks; another divisor, be it in one loss of several; a single step.
TEST(DividedLossTest, WhatElseAProgramMayDivideByIsFine) {
  EXPECT_EQ(advised({.n_micro = 3}), "");
  EXPECT_EQ(advised({.denominator = 16.0}), "");
  EXPECT_EQ(advised({.last = 16.0}), "");
  EXPECT_EQ(advised({.n_micro = 2, .last = 16.0}), "");
  EXPECT_EQ(advised({.n_micro = 2, .last_unknown = true}), "");
  EXPECT_EQ(advised({.n_steps = 1}), "");
}

// One divisor for ranks with other numbers of terms; averages that are multiplied by the ranks; hooks that may
// leave sums.
TEST(DividedLossTest, ADivisorThatIsRightForWhatFollowsIsFine) {
  EXPECT_EQ(advised({.n_terms_of_rank_1 = 16}), "");
  EXPECT_EQ(advised({.used = 6.0}), "");
  EXPECT_EQ(advised({.hook = HookEffect::kMean}), "");
  EXPECT_EQ(advised({.hook = HookEffect::kOther}), "");
  EXPECT_NE(advised({.hook = HookEffect::kRounded}), "");
}

TEST(DividedLossTest, AveragesWithoutTheLossScaleAreUsedAsTheyAre) {
  EXPECT_NE(advised({.used = 0.5, .scale = 4.0}), "");
  EXPECT_EQ(advised({.used = 1.0, .scale = 4.0}), "");
  EXPECT_EQ(advised({.used = 0.5}), "");
}

TEST(DividedLossTest, OnlyLossesThatABackwardStartsFromAndThatAWrapperAveragesCount) {
  EXPECT_EQ(advised({.reduction = LossReduction::kMean}), "");
  EXPECT_EQ(advised({.n_terms = 0}), "");
  EXPECT_EQ(advised({.grad = false}), "");
  EXPECT_EQ(advised({.n_with_losses = 2}), "");
  EXPECT_EQ(advised({.synchronizes = false}), "");
}

/// What a backward reaches after a loss function was called: steps of `n_ranks` whose losses of 8 terms are divided
/// by `divisor`, beside as many that are not.
struct Reached {
  std::string_view function = "cross_entropy";
  std::int32_t n_ranks = 2;
  double divisor = 2.0;
  int n_undivided = 0;
  bool by_the_call = false;  ///< The function itself was given the divisor.
};

std::string advised(const Reached& given) {
  DdpJob job(given.n_ranks);
  job.wrap();
  const LossEvent called{
      .function = job.stream.name(given.function), .denominator = 8.0, .n_terms = 8, .n_rows = 8};
  LossEvent divided = called;
  divided.reduction = LossReduction::kGiven;
  divided.denominator *= given.divisor;
  for (int step = 0; step < 3; ++step) {
    for (std::int32_t rank = 0; rank < given.n_ranks; ++rank) {
      job.forward(rank);
      const int n_called = given.by_the_call ? 0 : given.n_undivided + 1;
      for (int i = 0; i < n_called; ++i) job.stream.add(rank, called);
      divided.n_rows = given.by_the_call ? 8 : 0;
      job.stream.add(rank, divided);
      job.reduce(rank, 1.0, 1.0, 2.0);
      job.grad(rank, GradPoint::kUsed, 2.0);
      job.stream.add(rank, StepEvent{.lr = 1.0, .layout = job.layout()});
      ++job.at(rank).opt;
      job.at(rank).micro = -1;
    }
  }
  const std::string text = text_of(check("norm-true", job.stream));
  EXPECT_EQ(text_of(testing::check_together("norm-true", job.stream)), text);
  return text;
}

TEST(ReachedLossTest, ALossDividedAfterItsFunctionWasCalledCountsOnce) {
  EXPECT_NE(advised(Reached{}), "");
  EXPECT_NE(advised(Reached{.n_ranks = 3, .divisor = 3.0}), "");
  EXPECT_EQ(advised(Reached{.n_ranks = 3}), "");
}

TEST(ReachedLossTest, ATermOfALossMayHaveAnyWeight) {
  EXPECT_EQ(advised(Reached{.n_ranks = 3, .divisor = 3.0, .n_undivided = 1}), "");
}

TEST(ReachedLossTest, HalfOfAMeanOfSquaresIsNotADivision) {
  EXPECT_EQ(advised(Reached{.function = "mse_loss"}), "");
  EXPECT_NE(advised(Reached{.function = "mse_loss", .by_the_call = true}), "")
      << "divided by the terms of both ranks";
  EXPECT_NE(advised(Reached{.function = "mse_loss", .n_ranks = 3, .divisor = 3.0}), "");
}

}  // namespace
}  // namespace lockstep
