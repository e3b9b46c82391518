// optimizer-equal, buffers-policy and decisions-uniform on streams written by hand.
#include <gtest/gtest.h>

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::DdpJob;
using testing::policy_of;

const std::vector<Rank> kOnlyRank1 = {Rank{1}};

/// One step of every rank: its own learning rate, momentum and loss scale.
struct OptimizerJob {
  explicit OptimizerJob(std::int32_t n_ranks) : job(n_ranks) { job.wrap(); }

  void step(
      std::int32_t rank, double lr, double momentum, double scale = 1.0, bool skipped = false) {
    job.forward(rank);
    const LayoutId layout = job.stream.layout({"weight/momentum_buffer"});
    const std::uint64_t digests[] = {std::bit_cast<std::uint64_t>(momentum)};
    job.stream.add(rank,
                   StateEvent{.kind = StateKind::kOptimizer, .layout = layout, .digests = digests});
    job.stream.add(rank,
                   StepEvent{.lr = lr, .scale = scale, .skipped = skipped, .layout = job.layout()});
    if (!skipped) ++job.at(rank).opt;
  }

  void step_all(double lr, double momentum) {
    for (std::int32_t rank = 0; rank < job.n_ranks(); ++rank) step(rank, lr, momentum);
  }

  LawResult judged() const { return check("optimizer-equal", job.stream); }

  DdpJob job;
};

TEST(OptimizerEqualTest, HoldsIfAllRanksTakeTheSameSteps) {
  OptimizerJob job(3);
  job.step_all(0.5, 1.0);
  job.step_all(0.25, 2.0);
  const LawResult result = job.judged();
  EXPECT_EQ(result.verdict, Verdict::kHolds);
  EXPECT_EQ(result.n_checked, 2 * 2 * (4 + 1));  // Two steps, two comparisons of each word.
}

TEST(OptimizerEqualTest, NamesALearningRateOfOneRankOnce) {
  OptimizerJob job(3);
  job.step_all(0.5, 1.0);
  for (int step = 0; step < 2; ++step) {
    for (const std::int32_t rank : {0, 1, 2}) job.step(rank, rank == 1 ? 0.125 : 0.5, 1.0);
  }
  const LawResult result = job.judged();
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].field, "lr");
  EXPECT_EQ(result.findings[0].step, 1);
  EXPECT_EQ(result.findings[0].ranks, kOnlyRank1);
  EXPECT_EQ(id_of(result.findings[0].cause), "lr-per-rank");
  EXPECT_NE(result.findings[0].message.find("0.125 on rank 1, 0.5 on ranks 0, 2"),
            std::string::npos)
      << result.findings[0].message;
}

TEST(OptimizerEqualTest, NamesTheStepThatOneRankSkipped) {
  OptimizerJob job(2);
  job.step(0, 0.5, 1.0, 1024.0);
  job.step(1, 0.5, 1.0, 1024.0, true);
  job.step(0, 0.5, 2.0, 1024.0);
  job.step(1, 0.5, 2.0, 512.0);
  const LawResult result = job.judged();
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].field, "skipped");
  EXPECT_EQ(result.findings[0].step, 0);
  EXPECT_EQ(id_of(result.findings[0].cause), "scaler-inf-local");
}

TEST(OptimizerEqualTest, NamesALossScaleOfOneRank) {
  OptimizerJob job(3);
  for (const std::int32_t rank : {0, 1, 2}) job.step(rank, 0.5, 1.0, rank == 1 ? 512.0 : 1024.0);
  const LawResult result = job.judged();
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].field, "scale");
  EXPECT_EQ(result.findings[0].ranks, kOnlyRank1);
  EXPECT_NE(result.findings[0].message.find("512 on rank 1, 1024 on ranks 0, 2"), std::string::npos)
      << result.findings[0].message;
  EXPECT_EQ(id_of(result.findings[0].cause), "optimizer-options-differ");
}

TEST(OptimizerEqualTest, NamesTheOptionThatOneRankMadeItsOptimizerWith) {
  for (const bool differs : {false, true}) {
    OptimizerJob job(3);
    for (const std::int32_t rank : {0, 1, 2}) {
      const double values[] = {0.5, rank == 1 && differs ? 0.25 : 0.125};
      job.job.at(rank);
      job.job.stream.add(rank,
                         OptimizerEvent{.kind = job.job.stream.name("adamw"),
                                        .layout = job.job.layout(),
                                        .options = job.job.stream.layout({"lr", "weight_decay"}),
                                        .values = values});
    }
    job.step_all(0.5, 1.0);
    const LawResult result = job.judged();
    ASSERT_EQ(result.findings.size(), differs ? 1U : 0U);
    if (!differs) continue;
    EXPECT_EQ(result.findings[0].field, "weight_decay");
    EXPECT_EQ(result.findings[0].ranks, kOnlyRank1);
    EXPECT_EQ(id_of(result.findings[0].cause), "optimizer-options-differ");
    EXPECT_NE(result.findings[0].message.find("0.25 on rank 1, 0.125 on ranks 0, 2"),
              std::string::npos)
        << result.findings[0].message;
  }
}

// Where the rates differ is said at the step that uses them.
TEST(OptimizerEqualTest, ARateThatDiffersIsOneFinding) {
  OptimizerJob job(2);
  for (const std::int32_t rank : {0, 1}) {
    const double values[] = {rank == 1 ? 0.25 : 0.5};
    job.job.at(rank);
    job.job.stream.add(rank,
                       OptimizerEvent{.layout = job.job.layout(),
                                      .options = job.job.stream.layout({"lr"}),
                                      .values = values});
    job.step(rank, values[0], 1.0);
  }
  ASSERT_EQ(job.judged().findings.size(), 1U);
  EXPECT_EQ(job.judged().findings[0].event, "step");
}

TEST(OptimizerEqualTest, AnUnrecordedStepShowsAtTheNextOne) {
  OptimizerJob job(3);
  job.step_all(0.5, 1.0);
  job.step(0, 0.5, 1.0);
  job.step(2, 0.5, 1.0);
  job.job.forward(1);  // Its gradients were reduced, its step was left out.
  job.step_all(0.5, 1.0);
  const LawResult result = job.judged();
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].field, "step");
  EXPECT_EQ(result.findings[0].ranks, kOnlyRank1);
  EXPECT_EQ(id_of(result.findings[0].cause), "nan-skip-one-rank");
}

TEST(OptimizerEqualTest, AllRanksMaySkipTogether) {
  OptimizerJob job(2);
  for (const std::int32_t rank : {0, 1}) job.step(rank, 0.5, 1.0, 1024.0, true);
  for (const std::int32_t rank : {0, 1}) job.step(rank, 0.5, 1.0, 512.0);
  EXPECT_EQ(job.judged().verdict, Verdict::kHolds);
}

TEST(OptimizerEqualTest, NamesTheMomentAndRankWhoseStateDiffers) {
  OptimizerJob job(3);
  job.step_all(0.5, 1.0);
  for (const std::int32_t rank : {0, 1, 2}) job.step(rank, 0.5, rank == 1 ? 3.0 : 1.0);
  const LawResult result = job.judged();
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].tensor, "weight/momentum_buffer");
  EXPECT_EQ(result.findings[0].step, 1);
  EXPECT_EQ(result.findings[0].ranks, kOnlyRank1);
}

TEST(OptimizerEqualTest, StateThatDiffersAfterALoadWasNotGivenToAll) {
  OptimizerJob job(2);
  for (const std::int32_t rank : {0, 1}) job.job.state(rank, StatePoint::kLoad);
  job.step(0, 0.5, 1.0);
  job.step(1, 0.5, 0.0);
  const LawResult result = job.judged();
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(id_of(result.findings[0].cause), "opt-state-root-only");
}

using Groups = std::initializer_list<std::initializer_list<std::string_view>>;

/// Two ranks with groups of options: the parameters of each.
LawResult grouped(Groups rank0, Groups rank1) {
  DdpJob job(2);
  job.wrap();
  const double values[] = {0.0};
  for (const std::int32_t rank : {0, 1}) {
    std::int32_t group = 0;
    for (const auto& names : rank == 0 ? rank0 : rank1) {
      job.stream.add(rank,
                     OptimizerEvent{.kind = job.stream.name("adamw"),
                                    .group = group++,
                                    .layout = job.stream.layout(names),
                                    .options = job.stream.layout({"eps"}),
                                    .values = values});
    }
  }
  return check("optimizer-equal", job.stream);
}

TEST(OptimizerEqualTest, RanksGroupTheirParametersAlike) {
  EXPECT_TRUE(grouped({{"a", "b"}, {"c"}}, {{"a", "b"}, {"c"}}).findings.empty());
  EXPECT_TRUE(grouped({{"a", "b"}, {"c"}}, {{"b", "a"}, {"c"}}).findings.empty());
  const LawResult result = grouped({{"a", "b"}, {"c"}}, {{"a", "c"}, {"b"}});
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].field, "group");
  EXPECT_EQ(result.findings[0].tensor, "b");
  EXPECT_EQ(result.findings[0].ranks, kOnlyRank1);
  EXPECT_EQ(id_of(result.findings[0].cause), "optimizer-options-differ");
  EXPECT_NE(result.findings[0].message.find("group 1 on rank 1, group 0 on rank 0"),
            std::string::npos)
      << result.findings[0].message;
}

TEST(OptimizerEqualTest, SharesOfOneOptimizerHaveOtherParameters) {
  EXPECT_TRUE(grouped({{"a"}, {"b"}}, {{"c"}, {"d"}}).findings.empty());
  EXPECT_TRUE(grouped({{"a"}, {"b"}}, {{"b"}, {"c"}}).findings.empty());
}

TEST(OptimizerEqualTest, ShardsOfOptimizerStateAreNotReplicas) {
  DdpJob job(2);
  job.wrap();
  for (const std::int32_t rank : {0, 1}) {
    job.forward(rank);
    const LayoutId layout = job.stream.layout({rank == 0 ? "a/exp_avg" : "b/exp_avg"});
    const std::uint64_t digests[] = {static_cast<std::uint64_t>(rank) + 1};
    job.stream.add(rank,
                   StateEvent{.kind = StateKind::kOptimizer, .layout = layout, .digests = digests});
  }
  EXPECT_EQ(check("optimizer-equal", job.stream).verdict, Verdict::kNotCheckable);
}

TEST(OptimizerEqualTest, ParametersOfTheirOwnMayBeTrainedDifferently) {
  DdpJob job(2);
  for (const std::int32_t rank : {0, 1}) {
    job.at(rank);
    job.stream.add(rank, WrapEvent{.ignored = job.layout(), .n_ranks = 2});
    job.stream.add(rank, StepEvent{.lr = rank == 0 ? 0.5 : 0.25, .layout = job.layout()});
  }
  EXPECT_TRUE(check("optimizer-equal", job.stream).findings.empty());
}

TEST(OptimizerEqualTest, KeepsABoundedNumberOfPlacesOpen) {
  OptimizerJob job(2);
  for (int step = 0; step < 5000; ++step) job.step(0, 0.5, 1.0);
  for (int step = 0; step < 5000; ++step) job.step(1, 0.5, 1.0);
  EXPECT_EQ(job.judged().verdict, Verdict::kHolds);
}

/// Buffers of two ranks, seen at one point after the other.
struct BufferJob {
  explicit BufferJob(BufferPolicy practice) : job(2) {
    for (const std::int32_t rank : {0, 1}) {
      job.at(rank);
      job.stream.add(rank,
                     WrapEvent{.buffers = job.layout(), .buffer_policy = practice, .n_ranks = 2});
    }
  }

  BufferJob& differ_at(StatePoint point) {
    for (const std::int32_t rank : {0, 1}) job.state(rank, StateKind::kBuffer, point, rank);
    return *this;
  }

  BufferJob& agree_at(StatePoint point) {
    for (const std::int32_t rank : {0, 1}) job.state(rank, StateKind::kBuffer, point, 3.0);
    return *this;
  }

  LawResult judged(BufferPolicy declared = BufferPolicy::kNone) const {
    LawPolicy policy = policy_of(2);
    policy.buffers = declared;
    return check("buffers-policy", job.stream, policy);
  }

  DdpJob job;
};

TEST(BuffersPolicyTest, HoldsWhereBroadcastBuffersAgreeWhenTheyAreUsed) {
  BufferJob job(BufferPolicy::kBroadcast0);
  job.agree_at(StatePoint::kForward).agree_at(StatePoint::kEval);
  EXPECT_EQ(job.judged().verdict, Verdict::kHolds);
  EXPECT_EQ(job.judged().n_checked, 2);
}

TEST(BuffersPolicyTest, AnEvaluationWithLocalStatisticsBreaksABroadcastPolicy) {
  BufferJob job(BufferPolicy::kBroadcast0);
  job.agree_at(StatePoint::kForward).differ_at(StatePoint::kEval).differ_at(StatePoint::kEval);
  const LawResult result = job.judged();
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].tensor, "weight");
  EXPECT_EQ(result.findings[0].event, "eval");
  EXPECT_EQ(result.findings[0].ranks, kOnlyRank1);
  EXPECT_EQ(id_of(result.findings[0].cause), "bn-local-eval");
}

TEST(BuffersPolicyTest, ABroadcastThatMissesTheLiveBufferShowsInTheForward) {
  BufferJob job(BufferPolicy::kBroadcast0);
  job.differ_at(StatePoint::kForward);
  ASSERT_EQ(job.judged().findings.size(), 1U);
  EXPECT_EQ(id_of(job.judged().findings[0].cause), "buffer-reassigned");
}

TEST(BuffersPolicyTest, ABufferThatCameAfterAWrapWithoutBuffersIsNotBroadcast) {
  for (const BufferPolicy practice : {BufferPolicy::kBroadcast0, BufferPolicy::kLocal}) {
    DdpJob job(2);
    for (const std::int32_t rank : {0, 1}) {
      job.at(rank);
      job.stream.add(rank, WrapEvent{.buffer_policy = practice, .n_ranks = 2});
      job.state(rank, StateKind::kBuffer, StatePoint::kForward, rank);
    }
    const LawResult result = check("buffers-policy", job.stream);
    if (practice == BufferPolicy::kLocal) {
      EXPECT_TRUE(result.findings.empty());
      LawPolicy declared = policy_of(2);
      declared.buffers = BufferPolicy::kBroadcast0;
      const LawResult against = check("buffers-policy", job.stream, declared);
      ASSERT_EQ(against.findings.size(), 1U);
      EXPECT_EQ(id_of(against.findings[0].cause), "bn-local-eval") << "it would not have helped";
      continue;
    }
    ASSERT_EQ(result.findings.size(), 1U);
    EXPECT_EQ(id_of(result.findings[0].cause), "buffer-came-late");
    EXPECT_EQ(result.findings[0].ranks, kOnlyRank1);
    EXPECT_NE(result.findings[0].message.find("the model had no buffers then"), std::string::npos);
  }
}

TEST(BuffersPolicyTest, RankZeroSpeaksForBroadcastBuffersAtTheEnd) {
  BufferJob job(BufferPolicy::kBroadcast0);
  job.agree_at(StatePoint::kForward).differ_at(StatePoint::kSave).differ_at(StatePoint::kEnd);
  EXPECT_EQ(job.judged().verdict, Verdict::kHolds);
}

TEST(BuffersPolicyTest, SynchronisedBuffersAgreeEverywhere) {
  for (const StatePoint point : {StatePoint::kForward, StatePoint::kSave, StatePoint::kEnd}) {
    EXPECT_EQ(BufferJob(BufferPolicy::kSynced).differ_at(point).judged().verdict, Verdict::kBroken);
    EXPECT_EQ(BufferJob(BufferPolicy::kMean).differ_at(point).judged().verdict, Verdict::kBroken);
  }
}

TEST(BuffersPolicyTest, AWrapperThatLeavesBuffersAloneBreaksADeclaredPolicy) {
  BufferJob job(BufferPolicy::kLocal);
  job.differ_at(StatePoint::kEnd);
  EXPECT_EQ(job.judged(BufferPolicy::kBroadcast0).verdict, Verdict::kBroken);
  EXPECT_EQ(job.judged(BufferPolicy::kLocal).verdict, Verdict::kNotCheckable);
  EXPECT_EQ(job.judged().verdict, Verdict::kNotCheckable);
}

TEST(BuffersPolicyTest, LocalStatisticsOfTrainingAreHealthy) {
  BufferJob job(BufferPolicy::kBroadcast0);
  job.agree_at(StatePoint::kForward).differ_at(StatePoint::kStep).differ_at(StatePoint::kWrap);
  EXPECT_EQ(job.judged().verdict, Verdict::kHolds);
}

LawResult decided(const std::vector<std::int64_t>& stops) {
  testing::EventStream stream(static_cast<std::int32_t>(stops.size()));
  for (std::int32_t rank = 0; rank < stream.n_ranks(); ++rank) {
    stream.add(rank, DecisionEvent{stream.name("save"), 1});
    stream.add(rank, DecisionEvent{stream.name("stop"), 0});
    stream.add(rank, DecisionEvent{stream.name("stop"), stops[static_cast<std::size_t>(rank)]});
  }
  return check("decisions-uniform", stream);
}

TEST(DecisionsUniformTest, HoldsForEqualDecisions) {
  EXPECT_EQ(decided({1, 1, 1}).verdict, Verdict::kHolds);
  EXPECT_EQ(decided({1, 1, 1}).n_checked, 3 * 2);
}

TEST(DecisionsUniformTest, NamesTheRankThatStopsAlone) {
  const LawResult result = decided({0, 0, 1});
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].field, "stop");
  EXPECT_EQ(result.findings[0].ranks, std::vector<Rank>{Rank{2}});
  EXPECT_EQ(id_of(result.findings[0].cause), "early-stop-one-rank");
  EXPECT_NE(result.findings[0].message.find("0 on ranks 0, 1, 1 on rank 2"), std::string::npos)
      << result.findings[0].message;
}

TEST(DecisionsUniformTest, ARankThatDecidesLessOftenIsLeftToProgress) {
  testing::EventStream stream(2);
  for (const std::int32_t rank : {0, 1}) stream.add(rank, DecisionEvent{stream.name("stop"), 0});
  stream.add(0, DecisionEvent{stream.name("stop"), 1});
  EXPECT_EQ(check("decisions-uniform", stream).verdict, Verdict::kHolds);
}

TEST(DecisionsUniformTest, RanksThatResumeFromDifferentSnapshotsDiffer) {
  testing::EventStream stream(2);
  for (const std::int32_t rank : {0, 1}) {
    stream.add(rank, SnapshotEvent{.action = SnapshotAction::kLoad, .step = rank == 0 ? 4 : 6});
  }
  const LawResult result = check("decisions-uniform", stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].field, "resume");
}

TEST(DecisionsUniformTest, RanksInDifferentPhasesDiffer) {
  testing::EventStream stream(3);
  for (const std::int32_t rank : {0, 1, 2}) {
    stream.add(rank, PhaseEvent{PhaseKind::kTrain});
    stream.add(rank, PhaseEvent{rank == 1 ? PhaseKind::kSave : PhaseKind::kEval});
  }
  const LawResult result = check("decisions-uniform", stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].field, "phase");
  EXPECT_EQ(result.findings[0].ranks, kOnlyRank1);
}

/// A forward of each of three ranks, the second of them in evaluation mode.
LawResult in_modes(const ForwardEvent& forward) {
  DdpJob job(3);
  job.wrap();
  for (const std::int32_t rank : {0, 1, 2}) {
    ++job.at(rank).sync;
    ForwardEvent own = forward;
    own.training = rank != 1;
    job.stream.add(rank, own);
  }
  return check("decisions-uniform", job.stream);
}

TEST(DecisionsUniformTest, AForwardThatIsReducedRunsInOneMode) {
  const LawResult result = in_modes({});
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].field, "mode");
  EXPECT_EQ(result.findings[0].ranks, kOnlyRank1);
  EXPECT_EQ(id_of(result.findings[0].cause), "eval-mode-one-rank");
  EXPECT_NE(result.findings[0].message.find("eval() on rank 1, train() on ranks 0, 2"),
            std::string::npos)
      << result.findings[0].message;
}

TEST(DecisionsUniformTest, ForwardsThatNoGradientFollowsMayRunInAnyMode) {
  EXPECT_TRUE(in_modes({.grad = false}).findings.empty());
  EXPECT_TRUE(in_modes({.synchronizing = false}).findings.empty());
  EXPECT_TRUE(in_modes({.through_wrapper = false}).findings.empty());
}

/// A forward of each of three ranks, under autocast to these types.
LawResult in_types(const std::array<AutocastType, 3>& types, const ForwardEvent& forward = {}) {
  DdpJob job(3);
  job.wrap();
  for (const std::int32_t rank : {0, 1, 2}) {
    ++job.at(rank).sync;
    ForwardEvent own = forward;
    own.autocast = types.at(static_cast<std::size_t>(rank));
    job.stream.add(rank, own);
  }
  return check("decisions-uniform", job.stream);
}

TEST(DecisionsUniformTest, AForwardThatIsReducedComputesInOneType) {
  using enum AutocastType;
  const LawResult result = in_types({kBF16, kNone, kBF16});
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].field, "autocast");
  EXPECT_EQ(result.findings[0].ranks, kOnlyRank1);
  EXPECT_EQ(id_of(result.findings[0].cause), "autocast-on-one-rank");
  EXPECT_NE(
      result.findings[0].message.find("no autocast on rank 1, autocast to bf16 on ranks 0, 2"),
      std::string::npos)
      << result.findings[0].message;
  EXPECT_EQ(in_types({kF16, kBF16, kF16}).findings.size(), 1U);
  EXPECT_TRUE(in_types({kF16, kF16, kF16}).findings.empty());
  EXPECT_TRUE(in_types({kBF16, kNone, kBF16}, {.synchronizing = false}).findings.empty());
  EXPECT_TRUE(in_types({kBF16, kNone, kBF16}, {.grad = false}).findings.empty());
}

TEST(DecisionsUniformTest, ModeAndTypeAreTwoFindings) {
  DdpJob job(2);
  job.wrap();
  for (const std::int32_t rank : {0, 1}) {
    ++job.at(rank).sync;
    job.stream.add(rank,
                   ForwardEvent{.training = rank == 0,
                                .autocast = rank == 0 ? AutocastType::kF16 : AutocastType::kNone});
  }
  EXPECT_EQ(check("decisions-uniform", job.stream).findings.size(), 2U);
}

TEST(DecisionsUniformTest, DifferentDecisionsAreDifferentQuestions) {
  testing::EventStream stream(2);
  stream.add(0, DecisionEvent{stream.name("log"), 1});
  stream.add(1, DecisionEvent{stream.name("stop"), 0});
  EXPECT_EQ(check("decisions-uniform", stream).verdict, Verdict::kNotCheckable);
}

}  // namespace
}  // namespace lockstep
