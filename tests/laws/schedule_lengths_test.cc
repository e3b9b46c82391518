// optimizer-equal on schedules that were planned for a single process: its advice.
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::DdpJob;

/// A job of `n_ranks` with `n_passes` over its data, whose schedule makes `stride` steps with each of the
/// optimizer's.
struct Planned {
  double total = 24.0;
  std::int32_t n_ranks = 2;
  int n_steps = 12;
  int n_passes = 3;
  int stride = 1;
  double total_of_rank_1 = total;
  int stride_of_rank_1 = stride;
  bool skips_one = false;
  bool skips_last = false;
  bool turns = false;  ///< Every other stride is one longer.
  bool wrapped = true;
};

void planned_step(DdpJob& job, std::int32_t rank, double total, int made, bool skipped) {
  const LayoutId options = job.stream.layout({"lr", "schedule.total", "schedule.made"});
  const double values[] = {0.5, total, std::min<double>(made, total)};
  job.forward(rank);
  job.stream.add(rank,
                 OptimizerEvent{.kind = job.stream.name("sgd"),
                                .layout = job.layout(),
                                .options = options,
                                .values = values});
  job.stream.add(rank, StepEvent{.lr = 0.5, .skipped = skipped, .layout = job.layout()});
  if (!skipped) ++job.at(rank).opt;
}

LawResult judged_schedule(const Planned& given) {
  DdpJob job(given.n_ranks);
  job.wrap();
  for (std::int32_t rank = 0; rank < given.n_ranks; ++rank) {
    job.wrapper = given.wrapped ? 0 : -1;
    job.at(rank);
    for (int pass = 0; pass < given.n_passes; ++pass) job.stream.add(rank, EpochEvent{});
    const double total = rank == 1 ? given.total_of_rank_1 : given.total;
    const int stride = rank == 1 ? given.stride_of_rank_1 : given.stride;
    int made = 0;
    if (given.skips_one) planned_step(job, rank, total, made++, true);
    for (int i = 0; i < given.n_steps; ++i, made += stride)
      planned_step(job, rank, total, made + (given.turns ? i / 2 : 0), false);
    if (given.skips_last) planned_step(job, rank, total, made, true);
  }
  const LawResult result = check("optimizer-equal", job.stream);
  const LawResult together = testing::check_together("optimizer-equal", job.stream);
  EXPECT_EQ(result.advice.size(), together.advice.size());
  return result;
}

std::string advised_of(const Planned& given) {
  std::string text;
  for (const Advice& advice : judged_schedule(given).advice)
    text += advice.id + ": " + advice.message;
  return text;
}

TEST(ScheduleLengthsTest, AScheduleForTheStepsOfASingleProcessGetsAdvice) {
  EXPECT_EQ(advised_of({}),
            "A-schedule-too-long: the learning-rate schedule is planned for 24 steps, as for a "
            "single process. With 2 ranks the run made 12 steps, so training stops mid-schedule. "
            "Divide the planned steps by the number of ranks.");
  EXPECT_NE(advised_of({.total = 36.0, .n_ranks = 3}), "");
}

// 25 samples in batches of 3 are 9 steps, or 5 on each of 2 ranks; without the last batch 8, or 4.
TEST(ScheduleLengthsTest, EachPassIsRoundedToWholeBatches) {
  EXPECT_NE(advised_of({.total = 27.0, .n_steps = 15}), "");
  EXPECT_NE(advised_of({.total = 33.0, .n_steps = 15}), "");
  EXPECT_EQ(advised_of({.total = 26.0, .n_steps = 15}), "");
  EXPECT_EQ(advised_of({.total = 34.0, .n_steps = 15}), "");
  EXPECT_EQ(advised_of({.total = 27.0, .n_steps = 15, .n_passes = 1}), "");
  EXPECT_NE(advised_of({.total = 29.0, .n_steps = 15, .n_passes = 0}), "");
}

TEST(ScheduleLengthsTest, SchedulesThatFitOrCountSomethingElseAreFine) {
  EXPECT_EQ(advised_of({.total = 12.0}), "");
  EXPECT_EQ(advised_of({.total = 100.0}), "");     // A run that was stopped.
  EXPECT_EQ(advised_of({.stride = 2}), "");        // One step for every rank.
  EXPECT_EQ(advised_of({.stride = 0}), "");        // One per epoch.
  EXPECT_EQ(advised_of({.total = 0.0}), "");       // Without an end.
  EXPECT_EQ(advised_of({.skips_one = true}), "");  // It has moved where the optimizer has not.
  EXPECT_EQ(advised_of({.total = 6.0, .n_steps = 3}), "");  // A step per pass may be anything.
  EXPECT_EQ(advised_of({.total = 2.0, .n_steps = 1, .n_passes = 0}), "");
}

TEST(ScheduleLengthsTest, AScheduleThatMovesSeveralTimesWithEachOfItsStepsEndsEarly) {
  EXPECT_EQ(advised_of({.total = 12.0, .stride = 2}),
            "A-schedule-ends-early: the learning-rate schedule is planned for 12 steps but "
            "advances 2 times per optimizer step, so it ends after 6 of the 12 steps made. Step it "
            "once per optimizer step, or plan it for 2 times as many steps.");
  EXPECT_NE(advised_of({.total = 12.0, .n_ranks = 1, .stride = 3}), "") << "on one rank, too";
  EXPECT_NE(advised_of({.total = 15.0, .stride = 2}), "") << "windows that are not whole";
}

TEST(ScheduleLengthsTest, WhatIsPlannedForItsOwnStepsDoesNotEndEarly) {
  EXPECT_EQ(advised_of({.total = 24.0, .stride = 2}), "") << "one for each micro-batch";
  EXPECT_EQ(advised_of({.total = 16.0, .stride = 2}), "") << "a run that was stopped, or goes on";
  EXPECT_EQ(advised_of({.total = 12.0, .stride = 1}), "");
  EXPECT_EQ(advised_of({.total = 6.0, .n_steps = 6, .stride = 2}), "") << "two steps per pass";
  EXPECT_EQ(advised_of({.total = 12.0, .stride = 6}), "") << "one move shows nothing";
}

TEST(ScheduleLengthsTest, AScheduleThatDoesNotMoveEvenlyFollowsSomethingElse) {
  EXPECT_EQ(advised_of({.total = 14.0, .n_passes = 2, .stride = 2, .turns = true}), "");
}

TEST(ScheduleLengthsTest, LengthsThatNoScheduleCanHaveAreIgnored) {
  for (const double total : {-24.0, 1e300, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_EQ(advised_of({.total = total, .total_of_rank_1 = 24.0}), "") << total;
  }
}

TEST(ScheduleLengthsTest, OneStepShowsNotHowAScheduleMoves) {
  EXPECT_EQ(advised_of({.total = 4.0, .n_steps = 2, .n_passes = 1}), "");
  EXPECT_NE(advised_of({.total = 6.0, .n_steps = 3, .n_passes = 1}), "");
}

TEST(ScheduleLengthsTest, AStepSkippedAtTheEndDoesNotCount) {
  EXPECT_NE(advised_of({.n_passes = 1}), "");
  EXPECT_NE(advised_of({.n_passes = 1, .skips_last = true}), "");
}

TEST(ScheduleLengthsTest, OneRankOrStepsWithoutAWrapperHaveNothingToDivide) {
  EXPECT_EQ(advised_of({.total = 12.0, .n_ranks = 1}), "");
  EXPECT_EQ(advised_of({.wrapped = false}), "");
}

TEST(ScheduleLengthsTest, RanksWithOtherSchedulesAreJudgedByTheirRates) {
  for (const Planned& given : {Planned{.total_of_rank_1 = 12.0}, Planned{.stride_of_rank_1 = 0}}) {
    const LawResult result = judged_schedule(given);
    EXPECT_EQ(result.verdict, Verdict::kHolds);
    EXPECT_EQ(result.advice.size(), 1U);  // By rank 0's.
  }
}

}  // namespace
}  // namespace lockstep
