// norm-true on streams written by hand.
#include <algorithm>
#include <cmath>
#include <gmock/gmock.h>

#include <gtest/gtest.h>

#include "lockstep/laws/rules/detail/norm_bounds.h"

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::check_together;
using testing::DdpJob;

/// Each rank's call between reduction and step, on a gradient of one element.
struct Clipping {
  double limit = 1.0;
  double norm = 0.0;
  double factor = 1.0;
  double norm_type = 2.0;
  bool clips = true;
  ClipKind kind = ClipKind::kNorm;
};

/// One step of every rank: the reduced gradient, the one that the step used, the call in between.
DdpJob stepped(const std::vector<Clipping>& calls,
               double reduced,
               double used,
               double scale = 1.0) {
  DdpJob job(static_cast<std::int32_t>(calls.size()));
  job.wrap();
  for (std::int32_t rank = 0; rank < job.n_ranks(); ++rank) {
    const Clipping& call = calls[static_cast<std::size_t>(rank)];
    job.forward(rank);
    job.reduce(rank, reduced, reduced, reduced);
    if (call.clips) {
      job.stream.add(rank,
                     ClipEvent{.kind = ClipKind::kNorm,
                               .limit = call.limit,
                               .norm_type = call.norm_type,
                               .norm = call.norm,
                               .factor = call.factor,
                               .layout = job.layout()});
    }
    job.grad(rank, GradPoint::kUsed, used);
    job.stream.add(rank, StepEvent{.lr = 1.0, .scale = scale, .layout = job.layout()});
    ++job.at(rank).opt;
  }
  return job;
}

LawResult norm_true(const DdpJob& job) { return check("norm-true", job.stream); }

Finding only_clip(const DdpJob& job) {
  const LawResult result = norm_true(job);
  EXPECT_EQ(result.findings.size(), 1U);
  return result.findings.empty() ? Finding() : result.findings[0];
}

const std::vector<Rank> kBothRanks = {Rank{0}, Rank{1}};

TEST(NormTrueTest, HoldsForGradientsScaledToTheLimit) {
  const Clipping call{.limit = 1.0, .norm = 4.0, .factor = 0.25};
  EXPECT_EQ(norm_true(stepped({call, call}, -4.0, -1.0)).verdict, Verdict::kHolds);
  const Clipping below{.limit = 8.0, .norm = 4.0, .factor = 1.0};
  EXPECT_EQ(norm_true(stepped({below, below}, -4.0, -4.0)).verdict, Verdict::kHolds);
}

/// Steps of two ranks that clip by this call after each of them, or else before the backward of the next.
LawResult clipped_late(const Clipping& call, std::int32_t n_steps = 3, bool in_time = false) {
  DdpJob job(2);
  job.wrap();
  const auto clip = [&](std::int32_t rank) {
    job.at(rank);
    job.stream.add(rank,
                   ClipEvent{.kind = call.kind,
                             .limit = call.limit,
                             .norm = call.norm,
                             .factor = call.factor,
                             .layout = job.layout()});
  };
  for (std::int32_t step = 0; step < n_steps; ++step) {
    for (std::int32_t rank = 0; rank < 2; ++rank) {
      job.forward(rank);
      job.reduce(rank, 0.5, 0.5, 0.5);
      if (in_time) clip(rank);
      job.step(rank, 0.5);
      clip(rank);
    }
  }
  const LawResult together = check_together("norm-true", job.stream);
  LawResult result = norm_true(job);
  EXPECT_EQ(together.findings.size(), result.findings.size());
  return result;
}

TEST(NormTrueTest, NamesCallsThatNoStepIsTakenAfter) {
  const LawResult after = clipped_late({.limit = 0.25, .norm = 0.5, .factor = 0.5});
  ASSERT_EQ(after.findings.size(), 1U);
  EXPECT_EQ(after.findings[0].cause, Cause::kClipNotApplied);
  EXPECT_EQ(after.findings[0].field, "order");
  EXPECT_EQ(after.findings[0].ranks, kBothRanks);
  EXPECT_THAT(after.findings[0].message, ::testing::HasSubstr("after the step that used them"));
  const LawResult before = clipped_late({.limit = 0.25, .norm = 0.0});
  ASSERT_EQ(before.findings.size(), 1U);
  EXPECT_THAT(before.findings[0].message, ::testing::HasSubstr("before the next backward"));
}

TEST(NormTrueTest, CallsThatOnlyMeasureOrComeOnceAreFineAnywhere) {
  const auto n_findings = [](const LawResult& result) { return result.findings.size(); };
  EXPECT_EQ(n_findings(clipped_late({.limit = 4.0, .norm = 0.5})), 0U) << "below the limit";
  EXPECT_EQ(n_findings(clipped_late({.limit = HUGE_VAL, .norm = 0.0})), 0U) << "no limit";
  EXPECT_EQ(n_findings(clipped_late({.limit = 0.25, .norm = 0.5, .factor = 0.5}, 2)), 0U);
  EXPECT_EQ(n_findings(clipped_late({.limit = 1.0, .kind = ClipKind::kValue})), 0U);
  const Clipping both{.limit = 0.25, .norm = 0.0};
  EXPECT_EQ(n_findings(clipped_late(both)), 1U);
  EXPECT_TRUE(std::ranges::none_of(clipped_late(both, 3, true).findings, [](const Finding& one) {
    return one.field == "order";
  })) << "steps are taken after other calls";
}

// Each of two optimizers steps with a part of a wrapper's gradients, and only the second part is clipped.
TEST(NormTrueTest, AStepOfAnotherOptimizerUsesWhatWasClippedAfterTheFirst) {
  DdpJob job(1);
  job.wrap();
  for (std::int32_t step = 0; step < 4; ++step) {
    job.forward(0);
    job.reduce(0, 0.5, 0.5, 0.5);
    job.step(0, 0.5);
    job.stream.add(0, ClipEvent{.limit = 0.25, .norm = 0.5, .factor = 0.5, .layout = job.layout()});
    job.step(0, 0.25);
  }
  EXPECT_TRUE(norm_true(job).findings.empty());
}

TEST(NormTrueTest, WithoutClippingItSaysWhatToAdd) {
  const LawResult result = norm_true(stepped({{.clips = false}, {.clips = false}}, 4.0, 4.0));
  EXPECT_EQ(result.verdict, Verdict::kNotCheckable);
  EXPECT_NE(result.missing.find("clip"), std::string::npos);
}

/// A second step, in which rank 0 does not clip.
DdpJob second_step(bool rank_zero_has_joined) {
  const Clipping call{.limit = 1.0, .norm = 4.0, .factor = 0.25};
  DdpJob job = stepped({call, call}, 4.0, 1.0);
  for (const std::int32_t rank : {0, 1}) {
    job.at(rank).micro = -1;
    if (rank == 0 && rank_zero_has_joined) {
      ++job.at(rank).sync;  // It shadows the others' forward.
    } else {
      job.forward(rank);
    }
    job.reduce(rank, 4.0, 4.0, 4.0);
    if (rank == 1) {
      job.stream.add(rank,
                     ClipEvent{.limit = 1.0, .norm = 4.0, .factor = 0.25, .layout = job.layout()});
    }
    job.grad(rank, GradPoint::kUsed, rank == 1 ? 1.0 : 4.0);
    job.stream.add(rank, StepEvent{.lr = 1.0, .layout = job.layout()});
  }
  return job;
}

// Under Join, a rank out of data goes on stepping its shard of a sharded optimizer.
TEST(NormTrueTest, ARankThatHasJoinedNeedNotClip) {
  EXPECT_EQ(norm_true(second_step(/*rank_zero_has_joined=*/true)).verdict, Verdict::kHolds);
  const Finding finding = only_clip(second_step(/*rank_zero_has_joined=*/false));
  EXPECT_EQ(finding.field, "calls");
  EXPECT_EQ(finding.step, 1);
}

// 0.8 needs no clipping; sqrt(2) * 0.8 = 1.131 does.
TEST(NormTrueTest, NamesANormThatCountsAveragedGradientsPerRank) {
  const double norm = std::sqrt(2.0) * 0.8;
  const Clipping call{.limit = 1.0, .norm = norm, .factor = 1.0 / (norm + 1e-6)};
  const Finding finding = only_clip(stepped({call, call}, 0.8, 0.8 / (norm + 1e-6)));
  EXPECT_EQ(id_of(finding.cause), "clip-norm-recounted");
  EXPECT_EQ(finding.field, "norm");
  EXPECT_EQ(finding.ranks, kBothRanks);
}

TEST(NormTrueTest, NamesANormOfGradientsThatStillCarryTheScale) {
  const Clipping call{.limit = 1.0, .norm = 2048.0, .factor = 1.0 / 2048.0};
  const Finding finding = only_clip(stepped({call, call}, 2048.0, 1.0 / 1024.0, 1024.0));
  EXPECT_EQ(id_of(finding.cause), "clip-before-unscale");
  const Clipping right{.limit = 1.0, .norm = 2.0, .factor = 0.5};
  EXPECT_EQ(norm_true(stepped({right, right}, 2048.0, 1.0, 1024.0)).verdict, Verdict::kHolds);
}

TEST(NormTrueTest, NamesAFactorThatDoesNotFollowFromTheNorm) {
  const Clipping call{.limit = 1.0, .norm = 4.0, .factor = 1.0};
  const Finding finding = only_clip(stepped({call, call}, 4.0, 4.0));
  EXPECT_EQ(finding.field, "factor");
  EXPECT_EQ(id_of(finding.cause), "clip-not-applied");
}

TEST(NormTrueTest, NamesAFactorThatWasNotApplied) {
  const Clipping call{.limit = 1.0, .norm = 4.0, .factor = 0.25};
  const Finding finding = only_clip(stepped({call, call}, 4.0, 4.0));
  EXPECT_EQ(finding.field, "scaled");
  EXPECT_EQ(id_of(finding.cause), "clip-not-applied");
}

// A norm that equals the limit: 1 / (1 + 1e-6) of 16-bit numbers, or half a unit below 1 of these, changes no bit.
TEST(NormTrueTest, AFactorThatIsLostInRoundingNeedNotShow) {
  const Clipping lost{.limit = 1.0, .norm = 1.0, .factor = 1.0 - 0x1p-53};
  EXPECT_EQ(norm_true(stepped({lost, lost}, 1.0, 1.0)).verdict, Verdict::kHolds);
  const Clipping shows{.limit = 1.0, .norm = 1.0, .factor = 1.0 / (1.0 + 1e-6)};
  EXPECT_EQ(only_clip(stepped({shows, shows}, 1.0, 1.0)).field, "scaled");
}

// A program may put a factor of its own on top, for all of them.
TEST(NormTrueTest, AUniformExtraFactorIsNotReported) {
  const Clipping call{.limit = 1.0, .norm = 4.0, .factor = 0.25};
  EXPECT_EQ(norm_true(stepped({call, call}, 4.0, 2.0)).verdict, Verdict::kHolds);
}

// A norm of 0.4 or 12 is not that of 4: the program has scaled or changed its gradient before it clips.
TEST(NormTrueTest, ANormOfGradientsThatTheProgramChangedFirstIsThePrograms) {
  const Clipping small{.limit = 8.0, .norm = 0.4, .factor = 1.0};
  EXPECT_EQ(norm_true(stepped({small, small}, 4.0, 0.4)).verdict, Verdict::kHolds);
  EXPECT_EQ(only_clip(stepped({small, small}, 4.0, 4.0)).field, "norm");
  const Clipping large{.limit = 6.0, .norm = 12.0, .factor = 0.5};
  EXPECT_EQ(norm_true(stepped({large, large}, 4.0, 6.0)).verdict, Verdict::kHolds);
  EXPECT_EQ(only_clip(stepped({large, large}, 4.0, 2.0)).field, "norm");
}

TEST(NormTrueTest, NamesTheRankWithALimitOfItsOwn) {
  const Clipping wide{.limit = 8.0, .norm = 4.0, .factor = 1.0};
  const Clipping narrow{.limit = 4.0, .norm = 4.0, .factor = 1.0};
  const Finding finding = only_clip(stepped({wide, narrow, wide}, 4.0, 4.0));
  EXPECT_EQ(finding.field, "limit");
  EXPECT_EQ(finding.ranks, std::vector<Rank>{Rank{1}});
  EXPECT_NE(finding.message.find("4 on rank 1"), std::string::npos) << finding.message;
}

TEST(NormTrueTest, NamesTheRankThatClipsAlone) {
  const Clipping none{.clips = false};
  const Clipping call{.limit = 8.0, .norm = 4.0, .factor = 1.0};
  const Finding finding = only_clip(stepped({none, none, call}, 4.0, 4.0));
  EXPECT_EQ(finding.field, "calls");
  EXPECT_EQ(finding.ranks, std::vector<Rank>{Rank{2}});
  EXPECT_EQ(id_of(finding.cause), "clip-one-rank");
}

// What each rank clips by itself, before the reduction, concerns other laws.
/// A step whose contributions are clipped before they are reduced, by a factor of each rank's own.
DdpJob clipped_early(const std::vector<double>& factors) {
  DdpJob job(static_cast<std::int32_t>(factors.size()));
  job.wrap();
  for (std::int32_t rank = 0; rank < job.n_ranks(); ++rank) {
    job.forward(rank);
    job.grad(rank, GradPoint::kInc, 4.0);
    job.stream.add(rank,
                   ClipEvent{.limit = 1.0,
                             .norm = 1.0 / factors[static_cast<std::size_t>(rank)],
                             .factor = factors[static_cast<std::size_t>(rank)],
                             .layout = job.layout()});
    job.grad(rank, GradPoint::kPre, 1.0);
    job.grad(rank, GradPoint::kPost, 1.0);
    job.step(rank, 1.0);
  }
  return job;
}

TEST(NormTrueTest, ContributionsClippedByOtherFactorsBeforeTheReductionAreReported) {
  const Finding finding = only_clip(clipped_early({0.5, 1.0, 0.25}));
  EXPECT_EQ(finding.field, "order");
  EXPECT_EQ(id_of(finding.cause), "clip-before-sync");
  EXPECT_EQ(finding.ranks, (std::vector<Rank>{Rank{0}, Rank{1}, Rank{2}}));
  EXPECT_EQ(finding.step, 0);
  EXPECT_THAT(finding.message, ::testing::HasSubstr("0.25 on rank 2, 0.5 on rank 0, 1 on rank 1"));
}

/// The same where nothing but the program reduces: what the ranks' steps use shows whether it did.
DdpJob clipped_before_own(const std::vector<double>& factors, const std::vector<double>& used) {
  DdpJob job(static_cast<std::int32_t>(factors.size()));
  job.wrap();
  for (std::int32_t rank = 0; rank < job.n_ranks(); ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    job.forward(rank, false);
    job.grad(rank, GradPoint::kInc, 4.0);
    job.stream.add(
        rank,
        ClipEvent{
            .limit = 1.0, .norm = 1.0 / factors[r], .factor = factors[r], .layout = job.layout()});
    job.step(rank, used[r]);
  }
  return job;
}

TEST(NormTrueTest, ContributionsClippedByOtherFactorsBeforeTheProgramReducesThemAreReported) {
  const Finding finding = only_clip(clipped_before_own({0.5, 1.0}, {3.0, 3.0}));
  EXPECT_EQ(finding.field, "order");
  EXPECT_EQ(id_of(finding.cause), "clip-before-sync");
  EXPECT_EQ(finding.ranks, (std::vector<Rank>{Rank{0}, Rank{1}}));
  EXPECT_EQ(finding.step, 0);
  // Clipped after it, or by ranks that train alone.
  EXPECT_TRUE(norm_true(clipped_before_own({0.5, 0.5}, {3.0, 3.0})).findings.empty());
  EXPECT_TRUE(norm_true(clipped_before_own({0.5, 1.0}, {2.0, 4.0})).findings.empty());
}

// The mean of gradients that were all halved is half the mean.
TEST(NormTrueTest, OneFactorOnAllRanksBeforeTheReductionIsAsGoodAsAfterIt) {
  EXPECT_TRUE(norm_true(clipped_early({0.5, 0.5})).findings.empty());
  EXPECT_TRUE(norm_true(clipped_early({1.0, 1.0})).findings.empty());
}

// Sums of absolute values 6 and 8 over 4 elements each: at least sqrt(36 / 4 + 64 / 4) = 5, at most
// sqrt(36 + 64) = 10; order 1: 14; largest value: at least 8 / 4, at most 8.
TEST(NormTrueTest, SketchesBoundANorm) {
  testing::EventStream stream(1);
  const LayoutId layout = stream.layout({"a", "b"});
  const std::uint64_t digests[] = {1, 2};
  const Sketch sketches[] = {{6.0, {}}, {8.0, {}}};
  const std::int64_t n_elems[] = {4, 4};
  laws::GradientsSeen seen;
  seen.keep({.layout = layout,
             .digests = digests,
             .sketches = sketches,
             .n_elems = n_elems,
             .dtype = DType::kF64});
  const auto bounds = [&](double order) {
    return laws::bounds_of(seen, {.norm_type = order, .layout = layout}, stream.names());
  };
  EXPECT_NEAR(bounds(2.0).low, 5.0, 1e-13);
  EXPECT_NEAR(bounds(2.0).high, 10.0, 1e-13);
  EXPECT_NEAR(bounds(1.0).low, 14.0, 1e-13);
  EXPECT_NEAR(bounds(1.0).high, 14.0, 1e-13);
  EXPECT_NEAR(bounds(HUGE_VAL).low, 2.0, 1e-13);
  EXPECT_NEAR(bounds(HUGE_VAL).high, 8.0, 1e-13);
  EXPECT_TRUE(bounds(2.0).admit(7.0));
  EXPECT_FALSE(bounds(2.0).admit(4.9));
  EXPECT_FALSE(bounds(2.0).admit(10.1));
}

/// Two tensors of one element, 3 and 4, which all ranks clip by a half; what the step uses of each.
DdpJob two_tensors(double weight, double bias, double scale = 1.0) {
  DdpJob job(2);
  job.wrap();
  const LayoutId both = job.stream.layout({"weight", "bias"});
  const auto record = [&](std::int32_t rank, GradPoint point, double a, double b) {
    const std::uint64_t digests[] = {std::bit_cast<std::uint64_t>(a),
                                     std::bit_cast<std::uint64_t>(b)};
    const Sketch sketches[] = {{a, {a, a, a, a}}, {b, {b, b, b, b}}};
    const std::int64_t n_elems[] = {1, 1};
    job.stream.add(rank,
                   GradEvent{.point = point,
                             .layout = both,
                             .digests = digests,
                             .sketches = sketches,
                             .n_elems = n_elems,
                             .dtype = DType::kF64});
  };
  for (const std::int32_t rank : {0, 1}) {
    job.forward(rank);
    record(rank, GradPoint::kPost, 3.0 * scale, 4.0 * scale);
    job.stream.add(rank, ClipEvent{.limit = 2.5, .norm = 5.0, .factor = 0.5, .layout = both});
    record(rank, GradPoint::kUsed, weight, bias);
    job.stream.add(rank, StepEvent{.lr = 1.0, .scale = scale, .layout = both});
  }
  return job;
}

TEST(NormTrueTest, NamesATensorThatClippingMissed) {
  EXPECT_EQ(norm_true(two_tensors(1.5, 2.0)).verdict, Verdict::kHolds);
  const Finding finding = only_clip(two_tensors(1.5, 4.0));
  EXPECT_EQ(finding.field, "scaled");
  EXPECT_EQ(finding.tensor, "bias");
}

// Its bits are others once the scale is taken off.
TEST(NormTrueTest, NamesATensorThatClippingMissedUnderALossScale) {
  EXPECT_EQ(norm_true(two_tensors(1.5, 2.0, 1024.0)).verdict, Verdict::kHolds);
  const Finding finding = only_clip(two_tensors(3.0, 2.0, 1024.0));
  EXPECT_EQ(finding.field, "scaled");
  EXPECT_EQ(finding.tensor, "weight");
}

// Weight decay that is added to gradients, one that is centred, a factor for each layer: all after clipping.
TEST(NormTrueTest, WhatAProgramMakesOfSingleTensorsAfterClippingIsItsOwn) {
  EXPECT_EQ(norm_true(two_tensors(1.5, 2.01)).verdict, Verdict::kHolds) << "one is changed";
  EXPECT_EQ(norm_true(two_tensors(1.51, 2.01)).verdict, Verdict::kHolds) << "all are changed";
  EXPECT_EQ(norm_true(two_tensors(1.35, 0.2)).verdict, Verdict::kHolds) << "each by a factor";
  EXPECT_EQ(norm_true(two_tensors(1.51, 2.0, 1024.0)).verdict, Verdict::kHolds) << "unscaled";
}

/// One step of both ranks, between whose reduction and step the program makes calls of its own.
DdpJob with_calls(double used, const std::vector<CollectiveEvent>& calls) {
  DdpJob job(2);
  job.wrap();
  for (const std::int32_t rank : {0, 1}) {
    job.forward(rank);
    job.reduce(rank, 3.0, 3.0, 3.0);
    for (const CollectiveEvent& call : calls) job.stream.add(rank, call);
    job.step(rank, used);
  }
  return job;
}

CollectiveEvent sum_of(std::int64_t count) {
  return {.signature = {.op = CollectiveOp::kAllReduce, .count = count}};
}

TEST(NormTrueTest, NamesAveragesThatTheProgramSumsOnceMore) {
  const Finding finding = only_clip(with_calls(6.0, {sum_of(1)}));
  EXPECT_EQ(id_of(finding.cause), "reduced-again");
  EXPECT_EQ(finding.field, "scaled");
  EXPECT_EQ(finding.event, "step");
  EXPECT_EQ(finding.step, 0);
  EXPECT_EQ(finding.ranks, kBothRanks);
}

// Divided again, or scaled by the program alone (a loss that all ranks have divided by a total).
TEST(NormTrueTest, ManualChangesToAveragedGradientsAreNotReported) {
  EXPECT_TRUE(norm_true(with_calls(3.0, {sum_of(1)})).findings.empty());
  EXPECT_TRUE(norm_true(with_calls(6.0, {})).findings.empty());
  EXPECT_TRUE(norm_true(with_calls(9.0, {sum_of(1)})).findings.empty());
}

TEST(NormTrueTest, OnlySumsOfAllGradientsInTheWrappersGroupCount) {
  EXPECT_TRUE(norm_true(with_calls(6.0, {sum_of(7)})).findings.empty());
  CollectiveEvent elsewhere = sum_of(1);
  elsewhere.group = 1;
  EXPECT_TRUE(norm_true(with_calls(6.0, {elsewhere})).findings.empty());
  CollectiveEvent average = sum_of(1);
  average.signature.reduce = ReduceOp::kAvg;
  EXPECT_TRUE(norm_true(with_calls(6.0, {average})).findings.empty());
  CollectiveEvent reducers = sum_of(1);
  reducers.signature.site.scope = "ddp.backward";
  EXPECT_TRUE(norm_true(with_calls(6.0, {reducers})).findings.empty());
  CollectiveEvent completed = sum_of(1);
  completed.phase = CollectivePhase::kCompleted;
  EXPECT_TRUE(norm_true(with_calls(6.0, {completed})).findings.empty());
}

// A sum before the reduction, such as that of the numbers of tokens, is none of its result.
TEST(NormTrueTest, SumsBeforeTheReductionDoNotCount) {
  DdpJob job(2);
  job.wrap();
  for (const std::int32_t rank : {0, 1}) {
    job.forward(rank);
    job.stream.add(rank, sum_of(1));
    job.reduce(rank, 3.0, 3.0, 3.0);
    job.step(rank, 6.0);
  }
  EXPECT_TRUE(norm_true(job).findings.empty());
}

/// A step of two ranks that clip by a norm of the program's own, which is part of a larger one as far as is known. Their
/// gradient is 4, so the norm alone is 4 too.
DdpJob clipped_by_given(double given, double own, const std::vector<CollectiveEvent>& calls) {
  DdpJob job(2);
  job.wrap();
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    job.forward(rank);
    job.reduce(rank, 4.0, 4.0, 4.0);
    for (const CollectiveEvent& call : calls) job.stream.add(rank, call);
    job.stream.add(rank,
                   ClipEvent{.limit = 8.0,
                             .norm = given,
                             .factor = 1.0,
                             .layout = job.layout(),
                             .whole = false,
                             .own = own});
    job.step(rank, 4.0);
  }
  return job;
}

// Two ranks add the square of the same norm: sqrt(16 + 16).
TEST(NormTrueTest, ANormThatCountsTheAverageOncePerRankIsReportedWhereItIsKnownToBeOfMore) {
  const Finding finding = only_clip(clipped_by_given(std::sqrt(32.0), 4.0, {sum_of(1)}));
  EXPECT_EQ(finding.field, "norm");
  EXPECT_EQ(id_of(finding.cause), "clip-norm-recounted");
  EXPECT_EQ(finding.ranks, (std::vector<Rank>{Rank{0}, Rank{1}}));
}

TEST(NormTrueTest, ALargerNormIsAnothersWithoutASumOrAMeasureOrThatFactor) {
  const double recounted = std::sqrt(32.0);
  EXPECT_TRUE(norm_true(clipped_by_given(recounted, 4.0, {})).findings.empty());
  EXPECT_TRUE(norm_true(clipped_by_given(recounted, 0.0, {sum_of(1)})).findings.empty());
  EXPECT_TRUE(norm_true(clipped_by_given(5.75, 4.0, {sum_of(1)})).findings.empty());
  EXPECT_TRUE(norm_true(clipped_by_given(4.0, 4.0, {sum_of(1)})).findings.empty());
}

}  // namespace
}  // namespace lockstep
