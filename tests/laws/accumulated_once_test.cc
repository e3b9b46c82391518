// accumulated-once on streams written by hand, and its bound.
#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include <gtest/gtest.h>

#include "lockstep/laws/law.h"
#include "lockstep/laws/rules/detail/accumulation.h"
#include "lockstep/trace/cohort.h"

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::check_together;
using testing::DdpJob;
using testing::EventStream;

LawResult accumulated(const DdpJob& job) {
  LawResult result = check("accumulated-once", job.stream);
  const LawResult together = check_together("accumulated-once", job.stream);
  EXPECT_EQ(together.verdict, result.verdict);
  EXPECT_EQ(together.n_checked, result.n_checked);
  EXPECT_EQ(together.findings.size(), result.findings.size());
  for (std::size_t i = 0; i < std::min(together.findings.size(), result.findings.size()); ++i) {
    EXPECT_EQ(together.findings[i].field, result.findings[i].field);
    EXPECT_EQ(together.findings[i].step, result.findings[i].step);
    EXPECT_EQ(together.findings[i].ranks, result.findings[i].ranks);
  }
  return result;
}

Finding only_miscount(const DdpJob& job) {
  const LawResult result = accumulated(job);
  EXPECT_EQ(result.findings.size(), 1U);
  return result.findings.empty() ? Finding() : result.findings[0];
}

void forget(DdpJob& job, std::int32_t rank) {
  job.at(rank);
  job.stream.add(rank, ZeroGradEvent{.to_none = true, .layout = job.layout()});
}

/// Steps of two ranks. Rank 1 reduces `found`, given what it contributes in each micro-step; rank 0
/// does what is right.
struct Windows {
  Windows() { job.wrap(); }

  void step(const std::vector<double>& contributions, double found, bool clears = true) {
    double right = 0.0;
    for (const double one : contributions) right += one;
    for (const std::int32_t rank : {0, 1}) {
      if (clears || rank == 0) forget(job, rank);
      for (const double one : contributions) {
        job.forward(rank, &one == &contributions.back());
        job.grad(rank, GradPoint::kInc, one);
      }
      job.grad(rank, GradPoint::kPre, rank == 1 ? found : right);
      job.grad(rank, GradPoint::kPost, 8.0);
      job.step(rank, 8.0);
    }
  }

  DdpJob job{2};
};

/// Another model's loss goes through this one and leaves its gradient on top of the last one.
void reduce_on_top(DdpJob& job) {
  for (const std::int32_t rank : {0, 1}) {
    job.forward(rank, true);
    job.grad(rank, GradPoint::kInc, 2.0);
    job.grad(rank, GradPoint::kPre, 10.0);
    job.grad(rank, GradPoint::kPost, 10.0);
  }
}

// As a generator's step does to the discriminator, which forgets its gradients before its own turn.
TEST(AccumulatedOnceTest, HoldsForAKeptGradientThatNoStepUses) {
  Windows windows;
  windows.step({1.0}, 1.0);
  reduce_on_top(windows.job);
  windows.step({1.0}, 1.0);
  EXPECT_EQ(accumulated(windows.job).verdict, Verdict::kHolds);
}

TEST(AccumulatedOnceTest, NamesTheStepThatUsesAKeptGradient) {
  Windows windows;
  windows.step({1.0}, 1.0);
  reduce_on_top(windows.job);
  windows.step({1.0}, 11.0, /*clears=*/false);
  const Finding finding = only_miscount(windows.job);
  EXPECT_EQ(finding.cause, Cause::kZeroGradForgotten);
  EXPECT_EQ(finding.step, 1);
  EXPECT_EQ(finding.ranks, std::vector<Rank>{Rank{1}});
}

/// A step of two ranks whose losses are scaled by 8: contributions of 16 and 24, `found` before the reduction and `used`
/// by the step; each micro-step is looked at, or only the reduction.
LawResult scaled_step(double found, double used, bool each, double scale = 8.0) {
  DdpJob job(2);
  job.wrap();
  for (const std::int32_t rank : {0, 1}) {
    forget(job, rank);
    job.forward(rank, false);
    job.grad(rank, GradPoint::kInc, 16.0);
    if (each) job.grad(rank, GradPoint::kPre, 16.0);
    job.forward(rank, true);
    job.grad(rank, GradPoint::kInc, 24.0);
    job.grad(rank, GradPoint::kPre, found);
    job.grad(rank, GradPoint::kPost, found);
    job.grad(rank, GradPoint::kUsed, used);
    job.stream.add(rank, StepEvent{.lr = 1.0, .scale = scale, .layout = job.layout()});
  }
  return accumulated(job);
}

TEST(AccumulatedOnceTest, NamesAScaleThatWasTakenOffBeforeTheLastContribution) {
  for (const bool each : {true, false}) {
    const LawResult result = scaled_step(16.0 / 8.0 + 24.0, 26.0, each);
    ASSERT_EQ(result.findings.size(), 1U);
    EXPECT_EQ(result.findings[0].field, "unscaled");
    EXPECT_EQ(result.findings[0].cause, Cause::kNone);
    EXPECT_EQ(result.findings[0].ranks, (std::vector{Rank{0}, Rank{1}}));
    EXPECT_EQ(result.findings[0].step, 0);
  }
}

TEST(AccumulatedOnceTest, AScaleThatIsTakenOffOnceIsFine) {
  for (const bool each : {true, false}) {
    EXPECT_EQ(scaled_step(40.0, 5.0, each).verdict, Verdict::kHolds) << "before the step";
    EXPECT_EQ(scaled_step(40.0, 40.0, each).verdict, Verdict::kHolds) << "by the step";
    EXPECT_EQ(scaled_step(26.0, 3.25, each).verdict, Verdict::kHolds)
        << "once more, by the program";
    EXPECT_EQ(scaled_step(30.0, 30.0, each).verdict, Verdict::kHolds) << "another factor";
    EXPECT_EQ(scaled_step(26.0, 26.0, each, 1.0).verdict, Verdict::kHolds) << "no scaler";
  }
}

TEST(AccumulatedOnceTest, HoldsForTheSumOfAllContributions) {
  Windows windows;
  windows.step({1.0}, 1.0);
  windows.step({1.0, 2.0, 4.0}, 7.0);
  const LawResult result = accumulated(windows.job);
  EXPECT_EQ(result.verdict, Verdict::kHolds);
  EXPECT_EQ(result.n_checked, 4);
}

// What ranks in step did before one of them fell out counts for what comes after.
TEST(AccumulatedOnceTest, NamesTheFirstMistakeAfterStepsThatAllRanksTookAlike) {
  for (const bool clears : {true, false}) {
    Windows windows;
    for (int step = 0; step < 3; ++step) windows.step({1.0}, 1.0);
    windows.step({2.0}, clears ? 2.0 + 2.0 : 8.0 + 2.0, clears);
    windows.step({1.0}, 1.0);
    if (clears) {
      // One contribution that counts twice may also be a gradient that the program doubled.
      EXPECT_EQ(accumulated(windows.job).verdict, Verdict::kHolds);
      continue;
    }
    const Finding finding = only_miscount(windows.job);
    EXPECT_EQ(finding.field, "kept");
    EXPECT_EQ(finding.step, 3);
    EXPECT_EQ(finding.ranks, std::vector<Rank>{Rank{1}});
  }
}

// Whatever its sketch says, and whether ranks are judged together or each by itself.
TEST(AccumulatedOnceTest, AGradientThatIsUndefinedContributesNothing) {
  DdpJob job(2);
  job.wrap();
  for (const std::int32_t rank : {0, 1}) {
    forget(job, rank);
    job.forward(rank);
    job.grad(rank, GradPoint::kInc, 3.0, /*undefined=*/true);
    job.grad(rank, GradPoint::kPre, 3.0, /*undefined=*/true);
    job.forward(rank);
    job.reduce(rank, 2.0, 2.0, 2.0);
    job.step(rank, 2.0);
  }
  EXPECT_EQ(accumulated(job).verdict, Verdict::kHolds);
}

TEST(AccumulatedOnceTest, WithoutGradientsItSaysWhatToAdd) {
  const LawResult result = accumulated(DdpJob(2));
  EXPECT_EQ(result.verdict, Verdict::kNotCheckable);
  EXPECT_NE(result.missing.find("inc and pre"), std::string::npos);
}

TEST(AccumulatedOnceTest, NamesAGradientThatWasNotCleared) {
  Windows windows;
  windows.step({1.0}, 1.0);
  windows.step({2.0}, 8.0 + 2.0, false);  // The step before used 8.
  const Finding finding = only_miscount(windows.job);
  EXPECT_EQ(finding.field, "kept");
  EXPECT_EQ(finding.step, 1);
  EXPECT_EQ(finding.ranks, std::vector<Rank>{Rank{1}});
  EXPECT_EQ(id_of(finding.cause), "zero-grad-forgotten");
}

/// A step of one rank that uses 2 where 8 was reduced, and a second one that reduces `found` with a contribution of 1.
LawResult after_a_change(double found, bool clears) {
  DdpJob job(1);
  job.wrap();
  forget(job, 0);
  job.forward(0);
  job.reduce(0, 8.0, 8.0, 8.0);
  job.step(0, 2.0);
  if (clears) forget(job, 0);
  job.forward(0);
  job.reduce(0, 1.0, found, found);
  job.step(0, found);
  return accumulated(job);
}

// Clipped by value, say, or multiplied by the number of ranks: what a step has used is what is left.
TEST(AccumulatedOnceTest, NamesAGradientThatWasChangedAndThenNotCleared) {
  const LawResult result = after_a_change(2.0 + 1.0, /*clears=*/false);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].cause, Cause::kZeroGradForgotten);
  EXPECT_EQ(result.findings[0].step, 1);
  EXPECT_EQ(after_a_change(8.0 + 1.0, false).verdict, Verdict::kHolds) << "changed back";
  EXPECT_EQ(after_a_change(1.0, false).verdict, Verdict::kHolds) << "cleared by hand";
  EXPECT_EQ(after_a_change(1.0, true).verdict, Verdict::kHolds);
}

TEST(AccumulatedOnceTest, NamesAContributionThatCountsTwice) {
  Windows windows;
  windows.step({2.0, 3.0}, 2.0 + 3.0 + 3.0);
  const Finding finding = only_miscount(windows.job);
  EXPECT_EQ(finding.field, "twice");
  EXPECT_EQ(id_of(finding.cause), "accumulated-twice");
}

TEST(AccumulatedOnceTest, NamesAContributionThatIsMissing) {
  for (const double found : {2.0, 3.0}) {
    Windows windows;
    windows.step({2.0, 3.0}, found);
    const Finding finding = only_miscount(windows.job);
    EXPECT_EQ(finding.field, "lost");
    EXPECT_EQ(id_of(finding.cause), "contribution-lost");
  }
}

// A program may scale gradients, replace them, or let them overflow.
TEST(AccumulatedOnceTest, WhatNoMiscountExplainsIsThePrograms) {
  for (const double found : {5.5, 10.0, -5.0, HUGE_VAL}) {
    Windows windows;
    windows.step({2.0, 3.0}, found);
    EXPECT_EQ(accumulated(windows.job).verdict, Verdict::kHolds) << found;
  }
}

// A loop that averages by itself may divide by the number of micro-steps first.
TEST(AccumulatedOnceTest, HandWrittenLoopsMayScaleBeforeTheyReduce) {
  DdpJob job(1);
  job.wrap(false);
  forget(job, 0);
  for (int micro = 0; micro < 2; ++micro) {
    job.forward(0);
    job.grad(0, GradPoint::kInc, 2.0);
  }
  job.grad(0, GradPoint::kPre, 2.0);
  EXPECT_EQ(accumulated(job).verdict, Verdict::kHolds);
}

// Where no event shows when gradients are cleared, forgetting the first ones may be the program's
// intention; missing the last one is not.
TEST(AccumulatedOnceTest, ContributionsMayBeForgottenWhereClearingIsNotRecorded) {
  for (const double found : {3.0, 2.0}) {
    DdpJob job(1);
    job.wrap();
    job.forward(0);
    job.grad(0, GradPoint::kInc, 2.0);
    job.forward(0);
    job.reduce(0, 3.0, found, found);
    job.step(0, found);
    EXPECT_EQ(accumulated(job).findings.size(), found == 3.0 ? 0U : 1U);
  }
}

TEST(AccumulatedOnceTest, AnEarlierReductionOfTheSameStepIsPartOfTheNext) {
  DdpJob job(2);
  job.wrap();
  for (const std::int32_t rank : {0, 1}) {
    forget(job, rank);
    job.forward(rank);
    job.reduce(rank, 1.0 + rank, 1.0 + rank, 1.5);
    job.forward(rank);
    job.reduce(rank, 4.0, 5.5, 5.5);
    job.step(rank, 5.5);
  }
  EXPECT_EQ(accumulated(job).verdict, Verdict::kHolds);
}

// Each micro-step's gradient is clipped on its own rank, on purpose.
TEST(AccumulatedOnceTest, ClippingInBetweenIsKnown) {
  DdpJob job(1);
  job.wrap();
  forget(job, 0);
  job.forward(0, false);
  job.grad(0, GradPoint::kInc, 4.0);
  job.stream.add(0, ClipEvent{.limit = 1.0, .norm = 4.0, .factor = 0.25, .layout = job.layout()});
  job.forward(0);
  job.reduce(0, 2.0, 3.0, 3.0);
  EXPECT_EQ(accumulated(job).verdict, Verdict::kHolds);
}

// Two additions of f32 with u = 2^-24: 3 u L at most, with L = 6; 4 n 2^-53 vanishes beside it.
TEST(AccumulatedOnceTest, TheBoundGrowsWithTheNumberOfAdditions) {
  laws::SketchSum sum;
  for (const double one : {1.0, 2.0, 3.0}) sum.add(Sketch{one, {one, one, one, one}}, 0);
  for (const double roundings : {17.0, 19.0}) {
    const double value = 6.0 + roundings * 0x1p-24;
    const Sketch sketch{value, {value, value, value, value}};
    const laws::Found found{&sketch, 1, 1, DType::kF32};
    EXPECT_EQ(laws::is_sum(found, sum, false), roundings < 18.0);
    EXPECT_FALSE(laws::is_sum(found, sum, true));
  }
}

}  // namespace
}  // namespace lockstep
