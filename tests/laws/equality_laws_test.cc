// init-equal, replicas-equal and reduced-once on streams written by hand.
#include <gtest/gtest.h>

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::DdpJob;

const std::vector<Rank> kRank1 = {Rank{1}};

/// Weights 2 everywhere; rank 1's becomes 200 after wrapping. Gradients 2 and 398, mean 200.
DdpJob written_after_wrapping() {
  DdpJob job(2);
  job.weights = {2.0, 2.0};
  job.wrap();
  job.weight(1) = 200.0;
  job.begin();
  job.train_step({2.0, 398.0});
  return job;
}

DdpJob healthy_job() {
  DdpJob job(2);
  job.wrap();
  job.begin();
  job.train_step({2.0, 6.0});
  job.train_step({-1.0, 3.0});
  return job;
}

/// Rank 1 of two steps with half the learning rate.
void step_with_own_rate(DdpJob& job) {
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    job.forward(rank);
    job.reduce(rank, 1.0, 1.0, 1.0);
    job.step(rank, 1.0, rank == 1 ? 0.5 : 1.0);
  }
}

TEST(InitEqualTest, HoldsForAHealthyJob) {
  const LawResult result = check("init-equal", healthy_job().stream);
  EXPECT_EQ(result.verdict, Verdict::kHolds);
  EXPECT_EQ(result.n_checked, 1);
}

TEST(InitEqualTest, NamesTheRankThatWroteAfterWrapping) {
  const LawResult result = check("init-equal", written_after_wrapping().stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].tensor, "weight");
  EXPECT_EQ(result.findings[0].ranks, kRank1);
  EXPECT_EQ(result.findings[0].event, "forward");
}

TEST(InitEqualTest, AFileThatOneRankReadAfterWrappingIsTheLikelyWriter) {
  for (const bool all_read : {false, true}) {
    DdpJob job(2);
    job.wrap();
    for (const std::int32_t rank : {0, 1}) {
      if (rank == 0 || all_read)
        job.stream.add(rank, SnapshotEvent{.action = SnapshotAction::kRead});
    }
    job.weight(1) = 200.0;
    job.begin();
    job.train_step({2.0, 398.0});
    const LawResult result = check("init-equal", job.stream);
    ASSERT_EQ(result.findings.size(), 1U);
    EXPECT_EQ(id_of(result.findings[0].cause), all_read ? "parameter-nudged" : "load-rank0-only");
    EXPECT_EQ(result.findings[0].message.ends_with("since then only rank 0 has read a file"),
              !all_read);
  }
}

TEST(InitEqualTest, NamesAHandWrittenLoopThatBroadcastsNothing) {
  DdpJob job(3);
  job.weights = {1.0, 2.0, 3.0};
  job.wrap(false);
  job.begin();
  const LawResult result = check("init-equal", job.stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].ranks, (std::vector<Rank>{Rank{1}, Rank{2}}));
  EXPECT_EQ(result.findings[0].event, "wrap");
  EXPECT_EQ(id_of(result.findings[0].cause), "init-no-broadcast");
}

TEST(InitEqualTest, IsArmedAgainByALoad) {
  DdpJob job = healthy_job();
  job.state(0, StatePoint::kLoad);
  job.state(1, StatePoint::kLoad);
  job.weight(0) = 9.0;
  job.begin();
  const LawResult result = check("init-equal", job.stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(id_of(result.findings[0].cause), "load-rank0-only");
}

TEST(InitEqualTest, LaterForwardsHaveNoEffect) {
  DdpJob job = healthy_job();
  job.weight(1) = 9.0;
  job.begin();
  EXPECT_EQ(check("init-equal", job.stream).verdict, Verdict::kHolds);
}

TEST(InitEqualTest, LocalBatchNormMayDiffer) {
  DdpJob job(2);
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    job.at(rank);
    job.stream.add(
        rank,
        WrapEvent{.buffers = job.layout(), .buffer_policy = BufferPolicy::kLocal, .n_ranks = 2});
    job.state(rank, StateKind::kBuffer, StatePoint::kForward, rank);
    job.state(rank, StateKind::kParam, StatePoint::kForward, 1.0);
  }
  EXPECT_EQ(check("init-equal", job.stream).verdict, Verdict::kHolds);
}

TEST(InitEqualTest, LocalBuffersThatDifferWhenTheModelIsWrappedAreNamed) {
  DdpJob job(2);
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    job.at(rank);
    job.stream.add(
        rank,
        WrapEvent{.buffers = job.layout(), .buffer_policy = BufferPolicy::kLocal, .n_ranks = 2});
    job.state(rank, StateKind::kBuffer, StatePoint::kWrap, rank);
    job.state(rank, StateKind::kBuffer, StatePoint::kForward, rank);
  }
  const LawResult result = check("init-equal", job.stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].cause, Cause::kInitBuffersSkipped);
  EXPECT_EQ(result.findings[0].ranks, std::vector<Rank>{Rank{1}});
}

TEST(InitEqualTest, SaysWhatToAddWhenNothingWasRecorded) {
  const LawResult result = check("init-equal", DdpJob(2).stream);
  EXPECT_EQ(result.verdict, Verdict::kNotCheckable);
  EXPECT_FALSE(result.missing.empty());
}

TEST(ReplicasEqualTest, HoldsForAHealthyJob) {
  const LawResult result = check("replicas-equal", healthy_job().stream);
  EXPECT_EQ(result.verdict, Verdict::kHolds);
  EXPECT_EQ(result.n_checked, 2);
}

TEST(ReplicasEqualTest, ReportsTheFirstStepAndRankOnly) {
  DdpJob job = written_after_wrapping();
  job.train_step({1.0, 1.0});
  const LawResult result = check("replicas-equal", job.stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].step, 0);
  EXPECT_EQ(result.findings[0].tensor, "weight");
  EXPECT_EQ(result.findings[0].ranks, kRank1);
  EXPECT_NE(result.findings[0].message.find("before the first step"), std::string::npos);
}

TEST(ReplicasEqualTest, AMajorityOutvotesRankZero) {
  DdpJob job = DdpJob(3);
  job.wrap();
  job.begin();
  job.weight(0) = 7.0;
  job.train_step({1.0, 1.0, 1.0});
  EXPECT_EQ(check("replicas-equal", job.stream).findings.at(0).ranks, (std::vector<Rank>{Rank{0}}));
}

TEST(ReplicasEqualTest, NamesARankWithItsOwnLearningRate) {
  DdpJob job = healthy_job();
  step_with_own_rate(job);
  const LawResult result = check("replicas-equal", job.stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].step, 2);
  EXPECT_EQ(id_of(result.findings[0].cause), "lr-per-rank");
}

TEST(ReplicasEqualTest, AlignsRanksThatAllSkippedAStep) {
  DdpJob job = healthy_job();
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    job.forward(rank);
    job.reduce(rank, 1.0, 1.0, 1.0);
    job.step(rank, 1.0, 1.0, true);
  }
  job.train_step({1.0, 3.0});
  EXPECT_EQ(check("replicas-equal", job.stream).verdict, Verdict::kHolds);
}

TEST(ReplicasEqualTest, NamesASkipThatOneRankDecidedAlone) {
  DdpJob job = healthy_job();
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    job.forward(rank);
    job.reduce(rank, 1.0, 1.0, 1.0);
    job.step(rank, 1.0, 1.0, rank == 1);
  }
  job.train_step({1.0, 3.0});
  const LawResult result = check("replicas-equal", job.stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].step, 2);
  EXPECT_EQ(id_of(result.findings[0].cause), "nan-skip-one-rank");
}

TEST(ReplicasEqualTest, ADifferenceThatOnlyASnapshotSeesIsReportedThere) {
  DdpJob job = healthy_job();
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    job.state(rank, StateKind::kParam, StatePoint::kSave, rank == 1 ? 9.0 : job.weight(rank));
  }
  const LawResult result = check("replicas-equal", job.stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].event, "save");
  EXPECT_EQ(result.findings[0].ranks, kRank1);
  EXPECT_EQ(result.findings[0].cause, Cause::kParameterNudged) << "the last step was equal";
}

TEST(ReplicasEqualTest, NamesTheRankThatWroteBetweenTwoStepsAndNotTheOneThatDiffersFromTheFirst) {
  DdpJob job = healthy_job();
  job.weight(0) = 9.0;
  job.found(0);
  job.train_step({1.0, 3.0});
  job.train_step({1.0, 3.0});
  const LawResult result = check("replicas-equal", job.stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].step, 2);
  EXPECT_EQ(result.findings[0].event, "found");
  EXPECT_EQ(result.findings[0].ranks, std::vector<Rank>{Rank{0}});
  EXPECT_EQ(result.findings[0].cause, Cause::kParameterNudged);
}

TEST(ReplicasEqualTest, AWriteThatAllRanksMakeIsNotReported) {
  DdpJob job = healthy_job();
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    job.weight(rank) = 9.0;
    job.found(rank);
  }
  job.train_step({1.0, 3.0});
  EXPECT_EQ(check("replicas-equal", job.stream).verdict, Verdict::kHolds);
  job.weight(1) = 8.0;  // After the forward: a later find of rank 1 has nothing to do with it.
  job.train_step({1.0, 3.0});
  job.found(1);
  const LawResult result = check("replicas-equal", job.stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].event, "step");
  EXPECT_NE(result.findings[0].cause, Cause::kParameterNudged);
}

/// Two healthy steps, `n_unseen` steps of which nothing is recorded, and one that finds 9 and 8.
DdpJob two_ranks_that_wrote_their_own(std::int32_t n_unseen) {
  DdpJob job = healthy_job();
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    job.at(rank).sync += n_unseen;
    job.at(rank).opt += n_unseen;
    job.weight(rank) = 9.0 - rank;
    job.found(rank);
  }
  job.train_step({1.0, 3.0});
  return job;
}

TEST(ReplicasEqualTest, WhereAllRanksWroteTheOthersDifferFromTheFirst) {
  const LawResult result = check("replicas-equal", two_ranks_that_wrote_their_own(0).stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].event, "found");
  EXPECT_EQ(result.findings[0].ranks, kRank1);
  EXPECT_EQ(result.findings[0].cause, Cause::kParameterNudged);
}

TEST(ReplicasEqualTest, DivergenceInUnrecordedStepsHasNoCause) {
  const LawResult result = check("replicas-equal", two_ranks_that_wrote_their_own(1).stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].event, "found");
  EXPECT_EQ(result.findings[0].step, 3);
  EXPECT_EQ(result.findings[0].cause, Cause::kNone);
}

// As under a join context: rank 0 was brought back to the others' values after a step it took no part in.
TEST(ReplicasEqualTest, AWriteOnOneRankAfterStepsThatWereNotComparedAccusesNone) {
  DdpJob job = healthy_job();
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    ++job.at(rank).sync;
    ++job.at(rank).opt;
  }
  job.found(0);
  step_with_own_rate(job);
  const LawResult result = check("replicas-equal", job.stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].event, "step");
  EXPECT_EQ(result.findings[0].ranks, kRank1);
  EXPECT_EQ(result.findings[0].cause, Cause::kLrPerRank);
}

TEST(ReplicasEqualTest, AWriteAfterALoadIsALoadOfSomeRanks) {
  DdpJob job = healthy_job();
  job.state(0, StatePoint::kLoad);
  job.weight(0) = 9.0;
  job.found(0);
  job.train_step({1.0, 3.0});
  const LawResult result = check("replicas-equal", job.stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].ranks, std::vector<Rank>{Rank{0}});
  EXPECT_EQ(result.findings[0].cause, Cause::kLoadRank0Only);
}

TEST(ReplicasEqualTest, IgnoredParametersMayDiffer) {
  DdpJob job(2);
  job.weights = {1.0, 2.0};
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    job.at(rank);
    job.stream.add(rank, WrapEvent{.params = job.layout(), .ignored = job.layout(), .n_ranks = 2});
  }
  job.train_step({1.0, 1.0});
  EXPECT_EQ(check("replicas-equal", job.stream).verdict, Verdict::kHolds);
}

TEST(ReplicasEqualTest, AHandWrittenLoopWithoutAWrappedForwardIsComparedToo) {
  DdpJob job(2);
  job.wrap(false);
  for (int step = 0; step < 3; ++step) {
    for (std::int32_t rank = 0; rank < 2; ++rank) {
      job.forward(rank, true, false);
      job.step(rank, step == 2 ? rank : 1.0);
    }
  }
  const LawResult result = check("replicas-equal", job.stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].step, 2);
}

// A gradient of one number: whether it was clipped or changed in another way, only an event says.
TEST(ReplicasEqualTest, ClippingOfOneRankIsNamedWhereItWasSeen) {
  for (const bool clips : {true, false}) {
    DdpJob job(2);
    job.wrap();
    job.begin();
    for (std::int32_t rank = 0; rank < 2; ++rank) {
      job.forward(rank);
      job.reduce(rank, 4.0, 4.0, 4.0);
      if (clips && rank == 1) {
        job.stream.add(rank, ClipEvent{.norm = 4.0, .factor = 0.25, .layout = job.layout()});
      }
      job.step(rank, rank == 1 ? 1.0 : 4.0);
    }
    const LawResult result = check("replicas-equal", job.stream);
    ASSERT_EQ(result.findings.size(), 1U);
    EXPECT_EQ(id_of(result.findings[0].cause), clips ? "clip-one-rank" : "");
  }
}

TEST(ReducedOnceTest, HoldsForAHealthyJob) {
  const LawResult result = check("reduced-once", healthy_job().stream);
  EXPECT_EQ(result.verdict, Verdict::kHolds);
  EXPECT_EQ(result.n_checked, 4);
  EXPECT_TRUE(result.advice.empty());
}

TEST(ReducedOnceTest, NamesABypassedWrapper) {
  DdpJob job(2);
  job.wrap();
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    job.grad(rank, GradPoint::kInc, rank);  // The inner module's forward is not recorded.
    job.step(rank, rank);
  }
  EXPECT_EQ(id_of(check("replicas-equal", job.stream).findings.at(0).cause), "bypass-wrapper");
  const LawResult result = check("reduced-once", job.stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(id_of(result.findings[0].cause), "bypass-wrapper");
  EXPECT_EQ(result.findings[0].step, 0);
  EXPECT_EQ(result.findings[0].ranks, (std::vector<Rank>{Rank{0}, Rank{1}}));
}

TEST(ReducedOnceTest, NamesALastMicroStepThatWasNotSynchronised) {
  DdpJob job(2);
  job.wrap();
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    job.forward(rank);
    job.reduce(rank, 1.0, 1.0, 1.0);
    job.forward(rank, false);
    job.grad(rank, GradPoint::kInc, rank);
    job.step(rank, 1.0 + rank);
  }
  EXPECT_EQ(id_of(check("reduced-once", job.stream).findings.at(0).cause), "last-micro-unsynced");
}

TEST(ReducedOnceTest, NamesTheUnusedParameterThatKeptABucketFromFiring) {
  DdpJob job(2);
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    job.at(rank);
    job.stream.add(rank,
                   WrapEvent{.params = job.stream.layout({"weight", "unused"}), .n_ranks = 2});
    job.forward(rank);
    job.grad(rank, GradPoint::kInc, 1.0);
    job.step(rank, 1.0);
  }
  const LawResult result = check("reduced-once", job.stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].tensor, "weight");
  EXPECT_EQ(id_of(result.findings[0].cause), "unused-bucket-unfired");
}

/// A step of one rank with a parameter `branch` that the loss reaches only while `used`.
void step_with_branch(DdpJob& job, std::int32_t rank, bool used) {
  const LayoutId both = job.stream.layout({"weight", "branch"});
  const std::uint64_t digests[] = {1, 2};
  const std::uint8_t undefined[] = {static_cast<std::uint8_t>(used ? 0 : 2)};
  job.forward(rank);
  const auto record = [&](GradPoint point) {
    job.stream.add(
        rank,
        GradEvent{.point = point, .layout = both, .digests = digests, .undefined = undefined});
  };
  record(GradPoint::kInc);
  if (used) record(GradPoint::kPost);
  record(GradPoint::kUsed);
  job.stream.add(rank, StepEvent{.lr = 1.0, .layout = both});
  ++job.at(rank).opt;
}

// A parameter that was trained before is not an unused one: the branch to it was not taken this time.
TEST(ReducedOnceTest, ABranchThatWasTrainedBeforeIsNotCalledUnused) {
  for (const bool before : {true, false}) {
    DdpJob job(2);
    for (std::int32_t rank = 0; rank < 2; ++rank) {
      job.at(rank);
      job.stream.add(rank,
                     WrapEvent{.params = job.stream.layout({"weight", "branch"}), .n_ranks = 2});
    }
    for (int step = 0; step < 3; ++step) {
      for (std::int32_t rank = 0; rank < 2; ++rank) {
        step_with_branch(job, rank, before && step < 2);
      }
    }
    const LawResult result = check("reduced-once", job.stream);
    ASSERT_EQ(result.findings.size(), 1U);
    EXPECT_EQ(result.findings[0].step, before ? 2 : 0);
    EXPECT_EQ(id_of(result.findings[0].cause),
              before ? "branch-no-graph" : "unused-bucket-unfired");
  }
}

TEST(ReducedOnceTest, AccumulatingWithSeveralReductionsIsAdviceOnly) {
  DdpJob job(2);
  job.wrap();
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    job.forward(rank);
    job.reduce(rank, 1.0, 1.0, 1.0);
    job.forward(rank);
    job.reduce(rank, 1.0, 2.0, 2.0);
    job.step(rank, 2.0);
  }
  const LawResult result = check("reduced-once", job.stream);
  EXPECT_EQ(result.verdict, Verdict::kHolds);
  EXPECT_EQ(result.advice.size(), 1U);
}

TEST(ReducedOnceTest, AGeneratorsStepThatReducesTheDiscriminatorIsFine) {
  DdpJob job(2);
  for (job.wrapper = 0; job.wrapper < 2; ++job.wrapper) job.wrap();
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    for (const std::int32_t wrapper : {0, 1}) {  // The generator's loss goes through both.
      job.wrapper = wrapper;
      job.forward(rank);
      job.reduce(rank, 1.0, 1.0, 1.0);
    }
    job.wrapper = 0;
    job.step(rank, 1.0);
    job.wrapper = 1;  // The discriminator zeroes what it got from that, then does its own step.
    job.forward(rank);
    job.reduce(rank, 2.0, 2.0, 2.0);
    job.step(rank, 2.0);
  }
  EXPECT_EQ(check("reduced-once", job.stream).verdict, Verdict::kHolds);
  EXPECT_EQ(check("gradient-mean", job.stream).verdict, Verdict::kHolds);
}

TEST(ReducedOnceTest, ASkippedStepUsesNothing) {
  DdpJob job(2);
  job.wrap();
  job.grad(0, GradPoint::kInc, 1.0);
  job.step(0, 1.0, 1.0, true);
  EXPECT_EQ(check("reduced-once", job.stream).verdict, Verdict::kNotCheckable);
}

TEST(ReducedOnceTest, OneRankAloneHasNothingToReduce) {
  DdpJob job(1);
  job.wrap();
  job.grad(0, GradPoint::kInc, 1.0);
  job.step(0, 1.0);
  EXPECT_EQ(check("reduced-once", job.stream).verdict, Verdict::kNotCheckable);
}

}  // namespace
}  // namespace lockstep
