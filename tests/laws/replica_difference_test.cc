#include "lockstep/laws/rules/detail/parameters/replica_difference.h"

#include <array>
#include <bit>
#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::laws {
namespace {

/// Two ranks whose `weight` differs after step 2.
class ReplicaDifferenceTest : public ::testing::Test {
 protected:
  ReplicaDifferenceTest() {
    const std::array<NameId, 1> tensors = {names_.intern("weight")};
    layout_ = names_.intern_layout(tensors);
    open_.place = {.wrapper = {0, 0}, .sync = 2, .opt = 2};
    open_.tensor = tensors[0];
    open_.finding.event = name_of(StatePoint::kStep);
    open_.finding.ranks = {Rank{1}};
  }

  Event here(std::int32_t rank, const EventBody& body) const {
    Event event;
    event.rank = Rank{rank};
    event.at.wrapper = open_.place.wrapper.wrapper;
    event.at.sync = open_.place.sync;
    event.at.opt = open_.place.opt;
    event.body = body;
    return event;
  }

  void wrap(WrapEvent event) {
    event.params = event.params == kNoLayout ? layout_ : event.params;
    event.n_ranks = 2;
    wrappers_.on_wrap(here(0, event), event);
  }

  void step(std::int32_t rank, double lr) {
    steps_.on_event(here(rank, StepEvent{.lr = lr}), {rank, 1});
  }

  void gradient(std::int32_t rank, GradPoint point, std::uint64_t digest) {
    const std::array<std::uint64_t, 1> digests = {digest};
    const GradEvent grad{.point = point, .layout = layout_, .digests = digests};
    steps_.on_event(here(rank, grad), {rank, 1});
  }

  void equal_evidence() {
    wrap({});
    for (const std::int32_t rank : {0, 1}) {
      step(rank, 0.1);
      gradient(rank, GradPoint::kUsed, 5);
    }
  }

  std::set<WrapperKey> hooked_;

  using Values = std::array<double, 2>;
  static constexpr Values kAveraged = {5.0, 2.0};

  /// A gradient of two elements. Their sum and difference are as linear as the real sketches.
  void gradient(std::int32_t rank, GradPoint point, const Values& values) {
    const auto [a, b] = values;
    const std::array<std::uint64_t, 1> digests = {std::bit_cast<std::uint64_t>(1000 * a + b)};
    const std::array<Sketch, 1> sketches = {
        Sketch{std::abs(a) + std::abs(b), {a + b, a - b, a + b, b - a}}};
    const std::array<std::int64_t, 1> n_elems = {2};
    const GradEvent grad{.point = point,
                         .layout = layout_,
                         .digests = digests,
                         .sketches = sketches,
                         .n_elems = n_elems,
                         .dtype = DType::kF64};
    steps_.on_event(here(rank, grad), {rank, 1});
  }

  /// A step of both ranks, which had the same average and used what is given here.
  void differ_after_reduction(const Values& averaged,
                              const Values& first,
                              const Values& second,
                              double scale = 1.0) {
    wrap({});
    for (const std::int32_t rank : {0, 1}) {
      steps_.on_event(here(rank, ForwardEvent{}), {rank, 1});
      gradient(rank, GradPoint::kPost, averaged);
      gradient(rank, GradPoint::kUsed, rank == 0 ? first : second);
      steps_.on_event(here(rank, StepEvent{.lr = 0.1, .scale = scale}), {rank, 1});
    }
  }

  Cause cause() {
    const DifferenceExplainer explainer(
        {wrappers_, forwards_, starts_, rewritten_, steps_, loads_, reads_, hooked_, 2, names_});
    explainer.explain(open_);
    return open_.finding.cause;
  }

  NameTable names_;
  LayoutId layout_ = kNoLayout;
  ReplicaDifference open_;
  Wrappers wrappers_;
  ForwardKinds forwards_;
  Starts starts_;
  Rewritten rewritten_;
  StepEvidences steps_;
  Loads loads_;
  UnevenReads reads_;
};

TEST_F(ReplicaDifferenceTest, WithoutEvidenceNothingIsClaimed) {
  wrap({});
  EXPECT_EQ(cause(), Cause::kNone);
  EXPECT_EQ(open_.finding.message, "differs from the other replicas");
}

TEST_F(ReplicaDifferenceTest, ResultsOfAHookThatDifferAreTheHooks) {
  for (const bool hooked : {false, true}) {
    open_.finding.message.clear();
    wrap({});
    if (hooked) hooked_.insert(open_.place.wrapper);
    for (const std::int32_t rank : {0, 1}) {
      steps_.on_event(here(rank, ForwardEvent{}), {rank, 1});
      gradient(rank, GradPoint::kPost, 5 + static_cast<std::uint64_t>(rank));
      gradient(rank, GradPoint::kUsed, 5 + static_cast<std::uint64_t>(rank));
      step(rank, 0.1);
    }
    EXPECT_EQ(cause(), Cause::kNone);
    EXPECT_EQ(open_.finding.message.find("communication hook") != std::string::npos, hooked)
        << open_.finding.message;
  }
}

TEST_F(ReplicaDifferenceTest, LearningRatesThatDifferExplainIt) {
  wrap({});
  step(0, 0.1);
  step(1, 0.2);
  EXPECT_EQ(cause(), Cause::kLrPerRank);
}

TEST_F(ReplicaDifferenceTest, EqualEvidenceAndOneTensorOfOneRankIsAFlippedBit) {
  equal_evidence();
  for (const bool is_of_few : {true, false}) {  // It may be the model's only tensor.
    open_.is_of_few = is_of_few;
    EXPECT_EQ(cause(), Cause::kSdcAfterReduce);
  }
  EXPECT_NE(open_.finding.message.find("the gradients the step used were equal"),
            std::string::npos);
  EXPECT_EQ(open_.finding.message.find("flipped bit"), std::string::npos);
}

TEST_F(ReplicaDifferenceTest, OptionsThatDifferExplainWhatEqualGradientsBecame) {
  for (const double of_last : {0.0, 0.1}) {
    steps_ = StepEvidences();
    equal_evidence();
    for (const std::int32_t rank : {0, 1}) {
      const std::array<double, 1> values = {rank == 1 ? of_last : 0.0};
      steps_.on_event(here(rank, OptimizerEvent{.layout = layout_, .values = values}), {rank, 1});
    }
    EXPECT_EQ(cause(), of_last == 0.0 ? Cause::kSdcAfterReduce : Cause::kOptimizerOptionsDiffer);
    open_.n_parted = 2;  // All tensors of the model.
    EXPECT_EQ(cause(), Cause::kReplicaDrift);
    open_.n_parted = 1;
  }
}

TEST_F(ReplicaDifferenceTest, EqualEvidenceAndAFewTensorsAreAWriteOfTheProgram) {
  equal_evidence();
  open_.n_parted = 2;
  open_.is_of_few = true;
  EXPECT_EQ(cause(), Cause::kParameterNudged);
  EXPECT_TRUE(open_.finding.message.ends_with(
      "; 2 tensors differ: too many for a flipped bit, too few for different arithmetic"))
      << open_.finding.message;
  open_.is_of_few = false;
  EXPECT_EQ(cause(), Cause::kReplicaDrift);
}

TEST_F(ReplicaDifferenceTest, EqualEvidenceAndATensorThatSeveralRanksHaveOtherwiseIsNoFlippedBit) {
  equal_evidence();
  open_.finding.ranks = {Rank{1}, Rank{2}};
  open_.is_of_few = true;
  EXPECT_EQ(cause(), Cause::kParameterNudged);
  EXPECT_NE(open_.finding.message.find("; several ranks differ"), std::string::npos);
}

// No gradient is the other rank's, and nothing says that anyone has clipped.
TEST_F(ReplicaDifferenceTest, GradientsThatAllRanksChangedInTheirOwnWaysWereNotClipped) {
  differ_after_reduction(kAveraged, {4.5, 2.25}, {5.5, 1.75});
  EXPECT_EQ(cause(), Cause::kNone);
  EXPECT_TRUE(open_.finding.message.ends_with(
      "; each rank changed the averaged gradients differently before the step"))
      << open_.finding.message;
}

TEST_F(ReplicaDifferenceTest, GradientsThatSomeRanksChangedOtherwiseThanByAFactorWereNotClipped) {
  differ_after_reduction(kAveraged, kAveraged, {5.5, 1.75});
  EXPECT_EQ(cause(), Cause::kNone);
  EXPECT_TRUE(open_.finding.message.ends_with(
      "; some ranks changed the averaged gradients before the step"))
      << open_.finding.message;
}

TEST_F(ReplicaDifferenceTest, GradientsThatOneRankScaledAfterAnEqualReductionWereClippedThere) {
  differ_after_reduction(kAveraged, kAveraged, {2.5, 1.0});
  EXPECT_EQ(cause(), Cause::kClipOneRank);
}

TEST_F(ReplicaDifferenceTest, TheLossScaleIsTakenOffOnAllRanks) {
  const Values scaled = {kAveraged[0] * 1024, kAveraged[1] * 1024};
  differ_after_reduction(scaled, kAveraged, {2.5, 1.0}, 1024.0);
  EXPECT_EQ(cause(), Cause::kClipOneRank);
  steps_ = StepEvidences();
  differ_after_reduction(scaled, {4.5, 2.25}, {5.5, 1.75}, 1024.0);
  EXPECT_EQ(cause(), Cause::kNone);
}

// Noise of its own on each rank, and clipping: on one, to other limits, or alike. After noise, factors differ.
TEST_F(ReplicaDifferenceTest, OnlyClippingThatDiffersExplainsWhyGradientsDo) {
  struct Call {
    std::int32_t rank;
    double limit;
    double factor;
  };

  const auto cause_where = [&](const std::vector<Call>& calls) {
    steps_ = StepEvidences();
    for (const auto& [rank, limit, factor] : calls) {
      const ClipEvent clip{.limit = limit, .factor = factor, .layout = layout_};
      steps_.on_event(here(rank, clip), {rank, 1});
    }
    differ_after_reduction(kAveraged, {4.5, 2.25}, {5.5, 1.75});
    return cause();
  };
  EXPECT_EQ(cause_where({{1, 2.0, 0.5}}), Cause::kClipOneRank);
  EXPECT_EQ(cause_where({{0, 1.0, 0.25}, {1, 2.0, 0.5}}), Cause::kClipOneRank);
  EXPECT_EQ(cause_where({{0, 2.0, 0.5}, {1, 2.0, 0.5}}), Cause::kNone);
  EXPECT_EQ(cause_where({{0, 2.0, 0.5}, {1, 2.0, 0.625}}), Cause::kNone);
  EXPECT_EQ(cause_where({{0, 2.0, 0.5}, {0, 1.0, 0.5}, {1, 2.0, 0.5}, {1, 1.0, 0.5}}),
            Cause::kNone);
}

TEST_F(ReplicaDifferenceTest, ABackwardThatReducesNothingAfterOneThatDoesIsAContributionTooLate) {
  for (const bool comes_after : {true, false}) {
    steps_ = StepEvidences();
    wrap({});
    for (const std::int32_t rank : {0, 1}) {
      const auto backward = [&](bool reduced, std::uint64_t index) {
        Event event = here(rank, BackwardEvent{.reduced = reduced});
        event.at.micro = 0;
        event.index = index;
        steps_.on_event(event, {rank, 1});
      };
      steps_.on_event(here(rank, ForwardEvent{}), {rank, 1});
      step(rank, 0.1);
      backward(true, 7);
      backward(false, comes_after ? 8 : 6);  // Else it ran inside the forward.
      gradient(rank, GradPoint::kPost, 5);
      gradient(rank, GradPoint::kUsed, 5U + static_cast<std::uint64_t>(rank));
    }
    EXPECT_EQ(cause(), comes_after ? Cause::kLastMicroUnsynced : Cause::kNone);
  }
}

// A step that an optimizer takes inside a forward comes before the reduction that the forward is to have.
TEST_F(ReplicaDifferenceTest, AStepWithoutAnyReductionUsesWhatNoRankShared) {
  for (const auto& [reduced, synchronizing] :
       {std::pair(false, false), std::pair(true, false), std::pair(false, true)}) {
    steps_ = StepEvidences();
    open_.finding.message.clear();
    wrap({});
    for (const std::int32_t rank : {0, 1}) {
      Event backward = here(rank, BackwardEvent{.reduced = reduced && rank == 0});
      backward.at.micro = 0;
      steps_.on_event(backward, {rank, 1});
      steps_.on_event(here(rank, ForwardEvent{.synchronizing = synchronizing}), {rank, 1});
      step(rank, 0.1);
      gradient(rank, GradPoint::kUsed, 5U + static_cast<std::uint64_t>(rank));
    }
    const bool local = !reduced && !synchronizing;
    EXPECT_EQ(cause(), local ? Cause::kLastMicroUnsynced : Cause::kNone);
    const bool said = open_.finding.message.find("no backward of the step reduced gradients") !=
                      std::string::npos;
    EXPECT_EQ(said, local);
  }
}

TEST_F(ReplicaDifferenceTest, GradientsThatARankClearsAfterTheReductionAreMissingInItsStep) {
  for (const bool clears : {false, true}) {
    steps_ = StepEvidences();
    wrap({});
    for (const std::int32_t rank : {0, 1}) {
      steps_.on_event(here(rank, ZeroGradEvent{}), {rank, 1});  // Before the forward, as usual.
      steps_.on_event(here(rank, ForwardEvent{}), {rank, 1});
      gradient(rank, GradPoint::kPost, 5);
    }
    if (clears) steps_.on_event(here(1, ZeroGradEvent{}), {1, 1});
    gradient(0, GradPoint::kUsed, 5);
    const std::array<std::uint64_t, 1> digests = {0};
    const std::array<std::uint8_t, 1> undefined = {1};
    steps_.on_event(here(1,
                         GradEvent{.point = GradPoint::kUsed,
                                   .layout = layout_,
                                   .digests = digests,
                                   .undefined = undefined}),
                    {1, 1});
    step(0, 0.1);
    step(1, 0.1);
    EXPECT_EQ(cause(), clears ? Cause::kClearedBeforeStep : Cause::kUnusedNoneVsZero);
  }
}

// What a rank has none of counts as zeros where a wrapper reduces, and is left out where the program does.
TEST_F(ReplicaDifferenceTest, AGradientThatSomeRanksHaveNoneOfIsLeftOutByALoop) {
  const auto cause_in = [this](bool synchronizes) {
    wrap({.synchronizes = synchronizes});
    gradient(0, GradPoint::kUsed, 5);
    const std::array<std::uint64_t, 1> digests = {0};
    const std::array<std::uint8_t, 1> undefined = {1};
    const GradEvent none{
        .point = GradPoint::kUsed, .layout = layout_, .digests = digests, .undefined = undefined};
    steps_.on_event(here(1, none), {1, 1});
    return cause();
  };
  EXPECT_EQ(cause_in(true), Cause::kUnusedNoneVsZero);
  EXPECT_EQ(cause_in(false), Cause::kAbsentGradientsSkipped);
}

TEST_F(ReplicaDifferenceTest, AForwardPastTheWrapperComesFirst) {
  wrap({});
  for (const std::int32_t rank : {0, 1}) {
    steps_.on_event(here(rank, ForwardEvent{.through_wrapper = false}), {rank, 1});
    step(rank, 0.1);
    gradient(rank, GradPoint::kUsed, 5U + static_cast<std::uint64_t>(rank));
  }
  EXPECT_EQ(cause(), Cause::kBypassWrapper);
}

TEST_F(ReplicaDifferenceTest, WhatDifferedAtTheStartIsExplainedByIt) {
  wrap({.synchronizes = false});
  for (const std::int32_t rank : {0, 1}) {
    const std::array<std::uint64_t, 1> digests = {static_cast<std::uint64_t>(rank)};
    const StateEvent state{.point = StatePoint::kWrap, .layout = layout_, .digests = digests};
    starts_.on_state(here(rank, state), state, {rank, 1});
  }
  step(0, 0.1);
  step(1, 0.2);
  EXPECT_EQ(cause(), Cause::kInitNoBroadcast);
  loads_.on_event(here(0, StateEvent{.point = StatePoint::kLoad}), {0, 1});
  EXPECT_EQ(cause(), Cause::kLoadRank0Only);
}

TEST(LoadsTest, ReadersAreThoseSinceTheLastWrapperUnlessAllHaveRead) {
  Event event;
  event.body = SnapshotEvent{.action = SnapshotAction::kRead};
  Loads loads;
  EXPECT_TRUE(loads.lone_readers(0, 2).empty());
  loads.on_event(event, {0, 1});
  EXPECT_EQ(loads.lone_readers(0, 2), std::vector<Rank>{Rank{0}});
  EXPECT_TRUE(loads.lone_readers(1, 2).empty());
  loads.on_event(event, {1, 1});
  EXPECT_TRUE(loads.lone_readers(0, 2).empty());
  EXPECT_EQ(loads.lone_readers(0, 3), (std::vector<Rank>{Rank{0}, Rank{1}}));

  Event written = event;
  written.body = SnapshotEvent{.action = SnapshotAction::kPart};
  loads.on_event(written, {2, 1});
  Event wrap = event;
  wrap.body = WrapEvent{};
  loads.on_event(wrap, {0, 1});
  EXPECT_EQ(loads.lone_readers(0, 3), std::vector<Rank>{Rank{1}});
  EXPECT_FALSE(loads.into({0, 0}));
}

TEST_F(ReplicaDifferenceTest, AParameterThatTheWrapperHasNeverSeenIsNew) {
  const std::array<NameId, 1> others = {names_.intern("other")};
  wrap({.params = names_.intern_layout(others)});
  EXPECT_EQ(cause(), Cause::kParamReplaced);
}

TEST_F(ReplicaDifferenceTest, AParameterBesideFrozenOnesIsNotFrozen) {
  const std::array<NameId, 1> others = {names_.intern("other")};
  wrap({.frozen = names_.intern_layout(others)});
  step(0, 0.1);
  step(1, 0.2);
  EXPECT_EQ(cause(), Cause::kLrPerRank);
}

TEST_F(ReplicaDifferenceTest, AParameterThatWasFrozenWhenItWasWrappedIsReducedByNothing) {
  wrap({.frozen = layout_});
  step(0, 0.1);
  step(1, 0.2);
  EXPECT_EQ(cause(), Cause::kNongradParamDrift);
}

TEST_F(ReplicaDifferenceTest, WhatTheProgramKeepsEqualByItselfHasDrifted) {
  wrap({});
  open_.auxiliary = true;
  EXPECT_EQ(cause(), Cause::kEmaDrift);
}

}  // namespace
}  // namespace lockstep::laws
