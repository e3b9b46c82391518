#include "lockstep/laws/rules/detail/parameters/step_evidence.h"

#include <array>

#include <gtest/gtest.h>

namespace lockstep::laws {
namespace {

Event event_at(std::int32_t rank, const StepPlace& place, const EventBody& body) {
  Event event;
  event.rank = Rank{rank};
  event.at.attempt = place.wrapper.attempt;
  event.at.wrapper = place.wrapper.wrapper;
  event.at.sync = place.sync;
  event.at.opt = place.opt;
  event.body = body;
  return event;
}

constexpr StepPlace kHere{.wrapper = {0, 0}, .sync = 3, .opt = 3};

class StepEvidencesTest : public ::testing::Test {
 protected:
  void add(std::int32_t rank, const StepPlace& place, const EventBody& body) {
    steps_.on_event(event_at(rank, place, body), {rank, 1});
  }

  StepEvidences steps_;
};

TEST_F(StepEvidencesTest, RanksWithDifferentGradientsDifferInThoseTensorsOnly) {
  const std::array<std::uint64_t, 2> one = {7, 8};
  const std::array<std::uint64_t, 2> other = {7, 9};
  add(0, kHere, GradEvent{.point = GradPoint::kUsed, .digests = one});
  add(1, kHere, GradEvent{.point = GradPoint::kUsed, .digests = other});
  const StepEvidence* const evidence = steps_.find(kHere);
  ASSERT_NE(evidence, nullptr);
  EXPECT_FALSE(evidence->used.differs(0));
  EXPECT_TRUE(evidence->used.differs(1));
  EXPECT_FALSE(evidence->post.known());
}

TEST_F(StepEvidencesTest, RatesAndSkippedStepsAreKeptApart) {
  add(0, kHere, StepEvent{.lr = 0.1});
  add(1, kHere, StepEvent{.lr = 0.2});
  EXPECT_TRUE(steps_.find(kHere)->rates_differ);
  EXPECT_FALSE(steps_.find(kHere)->skips_differ);
  add(2, kHere, StepEvent{.lr = 0.1, .scale = 2.0, .skipped = true});
  EXPECT_TRUE(steps_.find(kHere)->skips_differ);
  EXPECT_TRUE(steps_.find(kHere)->scaled);
}

TEST_F(StepEvidencesTest, OnlyTheOptimizersStateAfterAStepIsEvidence) {
  const std::array<std::uint64_t, 1> digest = {1};
  for (const std::int32_t rank : {0, 1}) {
    add(rank, kHere, StateEvent{.kind = StateKind::kParam, .digests = digest});
    add(rank, kHere, StateEvent{.kind = StateKind::kOptimizer, .point = StatePoint::kSave});
  }
  EXPECT_EQ(steps_.find(kHere), nullptr);
  for (const std::int32_t rank : {0, 1}) {
    add(rank,
        kHere,
        StateEvent{.kind = StateKind::kOptimizer, .point = StatePoint::kStep, .digests = digest});
  }
  EXPECT_TRUE(steps_.find(kHere)->optimizer.known());
}

TEST_F(StepEvidencesTest, EarlierStepsOfAWrapperAreForgottenUnlessTheyAreKept) {
  StepPlace earlier = kHere;
  earlier.sync = 1;
  StepPlace kept = kHere;
  kept.sync = 2;
  const StepPlace elsewhere{.wrapper = {0, 1}, .sync = 0, .opt = 0};
  for (const StepPlace& place : {earlier, kept, kHere, elsewhere}) {
    add(0, place, ForwardEvent{});
  }
  steps_.keep(kept);
  EXPECT_TRUE(steps_.keeps_any_of(kept.wrapper, kept.sync));
  EXPECT_FALSE(steps_.keeps_any_of(kept.wrapper, earlier.sync));
  steps_.forget_before(kHere);
  EXPECT_EQ(steps_.find(earlier), nullptr);
  EXPECT_NE(steps_.find(kept), nullptr);
  EXPECT_NE(steps_.find(kHere), nullptr);
  EXPECT_NE(steps_.find(elsewhere), nullptr) << "of another wrapper";
  steps_.keep_nothing();
  steps_.forget_before(kHere);
  EXPECT_EQ(steps_.find(kept), nullptr);
}

}  // namespace
}  // namespace lockstep::laws
