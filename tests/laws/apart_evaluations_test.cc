// metric-true's advice on evaluations of shares that nothing brings together, on streams written by hand.
#include "lockstep/laws/rules/detail/samples/apart_evaluations.h"

#include <array>
#include <gmock/gmock.h>
#include <span>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::check_together;
using testing::EventStream;
using ::testing::HasSubstr;
using testing::policy_of;

constexpr std::string_view kLaw = "metric-true";

/// Three ranks that share a set of twelve samples.
class Shares {
 public:
  Shares& sampled(std::int64_t n_replicas = 3,
                  std::int64_t per_rank = 4,
                  std::string_view split = "eval") {
    return each([&](std::int32_t rank) {
      stream_.add(rank,
                  EpochEvent{.split = stream_.name(split),
                             .dataset_size = 12,
                             .n_replicas = n_replicas,
                             .per_rank = per_rank});
    });
  }

  Shares& phase(PhaseKind kind) {
    return each([&](std::int32_t rank) { stream_.add(rank, PhaseEvent{kind}); });
  }

  /// All of a rank's share, batch by batch, or this many batches of two.
  Shares& drawn(std::string_view split = "eval", std::int32_t n_batches = 2) {
    const std::vector<std::int64_t> ids = {0, 1};
    return each([&](std::int32_t rank) {
      for (std::int32_t i = 0; i < n_batches; ++i)
        stream_.add(rank, SampleEvent{.split = stream_.name(split), .ids = ids});
    });
  }

  /// Draws all there is in evaluation.
  Shares& evaluated() { return sampled().phase(PhaseKind::kEval).drawn(); }

  Shares& called(CollectiveOp op = CollectiveOp::kAllReduce,
                 CallSite site = {"train.py", 31, ""},
                 std::int32_t root = -1) {
    Signature call;
    call.op = op;
    call.site = site;
    call.root = root;
    return each([&](std::int32_t rank) { stream_.add(rank, CollectiveEvent{.signature = call}); });
  }

  Shares& wrote(std::int32_t rank, SnapshotAction action) {
    stream_.add(rank, SnapshotEvent{.action = action, .detail = stream_.name("found.txt")});
    return *this;
  }

  template <typename Body>
  void add(std::int32_t rank, Body body) {
    stream_.add(rank, body);
  }

  Shares& ended(EndOutcome outcome = EndOutcome::kOk) {
    return each([&](std::int32_t rank) { stream_.add(rank, EndEvent{.outcome = outcome}); });
  }

  Shares& reported() {
    return each([&](std::int32_t rank) {
      stream_.add(rank, MetricEvent{.name = stream_.name("accuracy"), .value = 0.5});
    });
  }

  std::vector<Advice> advice() const { return check(kLaw, stream_).advice; }

  bool advised() const { return !advice().empty(); }

  const EventStream& stream() const { return stream_; }

  template <typename F>
  Shares& each(F add) {
    for (std::int32_t rank = 0; rank < 3; ++rank) add(rank);
    return *this;
  }

 private:
  EventStream stream_{3};
};

TEST(ApartEvaluationsTest, AShareWhoseResultStaysWithItsRankIsAdvised) {
  const std::vector<Advice> advice = Shares().evaluated().ended().advice();
  ASSERT_EQ(advice.size(), 1U);
  EXPECT_EQ(advice[0].id, "A-evaluated-apart");
  EXPECT_THAT(advice[0].message,
              HasSubstr("ranks 0-2 each evaluate 4 of the 12 samples of 'eval', which a sampler "
                        "shards over 3 ranks. The results are never reduced"));
}

TEST(ApartEvaluationsTest, AllRanksAtOnceAreJudgedAsOneByOne) {
  Shares apart;
  Shares together;
  const std::vector<Advice> advice =
      check_together(kLaw, apart.evaluated().ended().stream()).advice;
  ASSERT_EQ(advice.size(), 1U);
  EXPECT_THAT(advice[0].message, HasSubstr("ranks 0-2 each evaluate"));
  EXPECT_TRUE(check_together(kLaw, together.evaluated().called().ended().stream()).advice.empty());
}

TEST(ApartEvaluationsTest, ARankThatEvaluatesAloneIsNamedAlone) {
  Shares shares;
  shares.sampled();
  shares.add(0, PhaseEvent{PhaseKind::kEval});
  shares.drawn().ended();
  const std::vector<Advice> advice = shares.advice();
  ASSERT_EQ(advice.size(), 1U);
  EXPECT_THAT(advice[0].message,
              HasSubstr("rank 0 evaluates 4 of the 12 samples of 'eval', which a sampler shards "
                        "over 3 ranks. The results are never reduced"));
}

TEST(ApartEvaluationsTest, OnlyWhatIsDividedHasShares) {
  EXPECT_FALSE(Shares().sampled(1, 12).phase(PhaseKind::kEval).drawn().ended().advised());
  EXPECT_FALSE(Shares().sampled(1, 4).phase(PhaseKind::kEval).drawn().ended().advised());
  EXPECT_FALSE(Shares().sampled(3, 12).phase(PhaseKind::kEval).drawn("eval", 6).ended().advised());
  EXPECT_FALSE(Shares().evaluated().sampled(1, 12).ended().advised()) << "no longer divided";
}

TEST(ApartEvaluationsTest, OnlyWhatIsDrawnInEvaluationIsEvaluated) {
  EXPECT_FALSE(Shares().sampled().phase(PhaseKind::kEval).ended().advised());
  EXPECT_FALSE(Shares().sampled().drawn().ended().advised());
  EXPECT_FALSE(Shares().sampled().phase(PhaseKind::kEval).drawn("other").ended().advised());
  EXPECT_FALSE(Shares()
                   .sampled()
                   .phase(PhaseKind::kEval)
                   .phase(PhaseKind::kTrain)
                   .drawn()
                   .ended()
                   .advised());
}

TEST(ApartEvaluationsTest, ABatchBetweenTwoStepsIsNoEvaluation) {
  Shares shares;
  shares.sampled();
  for (std::int32_t i = 0; i < 2; ++i)
    shares.phase(PhaseKind::kEval).drawn("eval", 1).phase(PhaseKind::kTrain);
  EXPECT_FALSE(shares.ended().advised());
  Shares again;
  again.phase(PhaseKind::kEval).sampled().drawn("eval", 1).sampled().drawn("eval", 1).ended();
  EXPECT_FALSE(again.advised()) << "two passes, neither of which comes to its end";
}

TEST(ApartEvaluationsTest, WhatIsKeptMeanwhileInterruptsNoEvaluation) {
  Shares shares;
  shares.sampled().phase(PhaseKind::kEval).drawn("eval", 1);
  shares.phase(PhaseKind::kSave).drawn("eval", 1);
  EXPECT_TRUE(shares.ended().advised());
}

TEST(ApartEvaluationsTest, WhatIsTrainedOnAsWellIsNoEvaluation) {
  Shares before;
  Shares after;
  Shares again;
  EXPECT_FALSE(before.sampled().drawn().evaluated().ended().advised());
  EXPECT_FALSE(after.evaluated().phase(PhaseKind::kTrain).drawn().ended().advised());
  again.evaluated().phase(PhaseKind::kTrain).drawn().evaluated().ended();
  EXPECT_FALSE(again.advised());
}

TEST(ApartEvaluationsTest, TheNameOfASplitDoesNotMatter) {
  EXPECT_TRUE(
      Shares().sampled(3, 4, "train").phase(PhaseKind::kEval).drawn("train").ended().advised());
}

TEST(ApartEvaluationsTest, AnEvaluationCountsOnceTheProgramHasGoneOn) {
  EXPECT_FALSE(Shares().evaluated().advised()) << "it may still call";
  EXPECT_FALSE(Shares().evaluated().phase(PhaseKind::kSave).advised());
  EXPECT_TRUE(Shares().evaluated().phase(PhaseKind::kTrain).advised());
  EXPECT_FALSE(Shares().evaluated().ended(EndOutcome::kException).advised()) << "on the way to it";
}

TEST(ApartEvaluationsTest, CallsThatCombineValuesBringThemTogether) {
  for (const CollectiveOp op : {CollectiveOp::kAllReduce,
                                CollectiveOp::kReduce,
                                CollectiveOp::kAllGather,
                                CollectiveOp::kGather,
                                CollectiveOp::kReduceScatter,
                                CollectiveOp::kAllToAll,
                                CollectiveOp::kSend,
                                CollectiveOp::kRecv}) {
    EXPECT_FALSE(Shares().evaluated().called(op).ended().advised()) << static_cast<int>(op);
  }
  for (const CollectiveOp op : {CollectiveOp::kBarrier, CollectiveOp::kScatter}) {
    EXPECT_TRUE(Shares().evaluated().called(op).ended().advised()) << static_cast<int>(op);
  }
}

TEST(ApartEvaluationsTest, WhatRank0BroadcastsIsItsShareAndWhatOthersBroadcastIsMore) {
  const CallSite site = {"train.py", 31, ""};
  EXPECT_TRUE(Shares().evaluated().called(CollectiveOp::kBroadcast, site, 0).ended().advised());
  EXPECT_FALSE(Shares().evaluated().called(CollectiveOp::kBroadcast, site, 1).ended().advised());
}

TEST(ApartEvaluationsTest, ACallBringsThemTogetherWhereItIsMade) {
  Shares shares;
  shares.evaluated().each([&](std::int32_t rank) {
    const Signature sum = {.op = CollectiveOp::kAllReduce};
    shares.add(rank, CollectiveEvent{.phase = CollectivePhase::kCompleted, .signature = sum});
  });
  EXPECT_TRUE(shares.ended().advised());
}

TEST(ApartEvaluationsTest, CallsOfAWrapperAreNotTheProgramsOwn) {
  const CallSite wrapper = {"train.py", 31, "ddp.backward"};
  EXPECT_TRUE(Shares().evaluated().called(CollectiveOp::kAllReduce, wrapper).ended().advised());
}

TEST(ApartEvaluationsTest, ACallBeforeTheEvaluationBringsNothingOfItTogether) {
  EXPECT_TRUE(Shares().called().evaluated().ended().advised());
  EXPECT_TRUE(Shares().sampled().phase(PhaseKind::kEval).called().drawn().ended().advised());
}

TEST(ApartEvaluationsTest, ACallThatComesLaterMayBringSeveralEvaluationsTogether) {
  EXPECT_FALSE(Shares()
                   .evaluated()
                   .phase(PhaseKind::kTrain)
                   .evaluated()
                   .phase(PhaseKind::kTrain)
                   .called()
                   .ended()
                   .advised());
}

TEST(ApartEvaluationsTest, ALineThatTrainingCallsAnywayDoesSoOnlyBetweenEvaluationAndTraining) {
  EXPECT_TRUE(Shares().called().evaluated().phase(PhaseKind::kTrain).called().ended().advised());
  EXPECT_FALSE(Shares().called().evaluated().called().phase(PhaseKind::kTrain).ended().advised());
  EXPECT_FALSE(Shares()
                   .called()
                   .evaluated()
                   .phase(PhaseKind::kTrain)
                   .called(CollectiveOp::kAllReduce, {"train.py", 32, ""})
                   .ended()
                   .advised());
}

TEST(ApartEvaluationsTest, SixtyFourLinesOfTrainingAreKept) {
  for (const std::int32_t line : {64, 65}) {
    Shares shares;
    for (std::int32_t i = 1; i <= 65; ++i) shares.called(CollectiveOp::kAllReduce, {"t.py", i, ""});
    shares.evaluated().phase(PhaseKind::kTrain);
    shares.called(CollectiveOp::kAllReduce, {"t.py", line, ""});
    EXPECT_EQ(shares.ended().advised(), line == 64);
  }
}

TEST(ApartEvaluationsTest, EachSplitIsJudgedByItself) {
  Shares shares;
  shares.sampled(3, 4, "valid").sampled(3, 4, "test");
  shares.phase(PhaseKind::kEval).drawn("valid").called().drawn("test").ended();
  ASSERT_EQ(shares.advice().size(), 1U);
  EXPECT_THAT(shares.advice()[0].message, HasSubstr("samples of 'test'"));
}

TEST(ApartEvaluationsTest, RanksThatEachWriteAFileMayBringThemTogetherThere) {
  EXPECT_FALSE(Shares().evaluated().wrote(1, SnapshotAction::kWrite).ended().advised());
  EXPECT_FALSE(Shares().evaluated().wrote(1, SnapshotAction::kExtend).ended().advised());
  EXPECT_FALSE(Shares().evaluated().wrote(2, SnapshotAction::kPart).ended().advised());
  EXPECT_TRUE(Shares().evaluated().wrote(0, SnapshotAction::kWrite).ended().advised());
  EXPECT_TRUE(Shares().evaluated().wrote(1, SnapshotAction::kOpen).ended().advised());
  EXPECT_TRUE(Shares().wrote(1, SnapshotAction::kWrite).evaluated().ended().advised());
}

TEST(ApartEvaluationsTest, MetricsThatAreReportedAreJudgedInstead) {
  EXPECT_FALSE(Shares().evaluated().reported().ended().advised());
}

TEST(ApartEvaluationsTest, AJobThatStillRunsIsNotAdvised) {
  Shares shares;
  shares.evaluated().phase(PhaseKind::kTrain);
  LawPolicy policy = policy_of(3);
  policy.more_follows = true;
  EXPECT_TRUE(check(kLaw, shares.stream(), policy).advice.empty());
  policy.more_follows = false;
  EXPECT_EQ(check(kLaw, shares.stream(), policy).advice.size(), 1U);
}

/// Events in an order given here, of one rank each: rank 1's come first.
class Watched {
 public:
  Watched() { sampled(1).phase(1, PhaseKind::kEval); }

  Watched& sampled(std::int32_t rank, std::int64_t n_replicas = 3) {
    evaluations_.on_epoch(
        of(rank), {.split = split_, .dataset_size = 12, .n_replicas = n_replicas, .per_rank = 4});
    return *this;
  }

  Watched& phase(std::int32_t rank, PhaseKind kind) {
    evaluations_.on_phase(of(rank), {kind});
    return *this;
  }

  Watched& drawn(std::int32_t rank, std::span<const std::int64_t> ids) {
    evaluations_.on_samples(of(rank), {.split = split_, .ids = ids});
    return *this;
  }

  Watched& half(std::int32_t rank) { return drawn(rank, std::span(kIds).first(2)); }

  Watched& all(std::int32_t rank) { return drawn(rank, kIds); }

  Watched& called(laws::RankRange who) {
    evaluations_.on_collective({.signature = {.op = CollectiveOp::kAllReduce}}, who);
    return *this;
  }

  Watched& ended(std::int32_t rank) {
    evaluations_.on_end(of(rank), {.outcome = EndOutcome::kOk});
    return *this;
  }

  bool advised() const { return !evaluations_.advice(names_).empty(); }

 private:
  static constexpr std::array<std::int64_t, 4> kIds = {0, 1, 2, 3};

  static Event of(std::int32_t rank) {
    Event event;
    event.rank = Rank{rank};
    return event;
  }

  NameTable names_;
  NameId split_ = names_.intern("eval");
  laws::ApartEvaluations evaluations_;
};

TEST(ApartEvaluationsTest, WhatOtherRanksDoIsNotOfTheRankThatIsWatched) {
  EXPECT_FALSE(Watched().half(1).phase(0, PhaseKind::kEval).all(0).ended(1).advised());
  EXPECT_TRUE(Watched().half(1).phase(0, PhaseKind::kEval).half(1).ended(1).advised());
  EXPECT_TRUE(Watched().half(1).sampled(0, 1).half(1).ended(1).advised());
  EXPECT_TRUE(Watched().half(1).all(0).half(1).ended(1).advised()) << "rank 0 trains on it";
  EXPECT_FALSE(Watched().all(1).phase(0, PhaseKind::kTrain).ended(0).advised());
}

bool advised_after_call_of(laws::RankRange who) {
  return Watched().all(1).called(who).ended(1).advised();
}

TEST(ApartEvaluationsTest, ACallOfAllRanksIsOneOfEach) {
  EXPECT_FALSE(advised_after_call_of({.first = 0, .n = 3}));
  EXPECT_FALSE(advised_after_call_of({.first = 1, .n = 1}));
  EXPECT_TRUE(advised_after_call_of({.first = 0, .n = 1})) << "not of rank 1";
  EXPECT_TRUE(advised_after_call_of({.first = 2, .n = 1}));
}

TEST(ApartEvaluationsTest, ARankThatEvaluatesAloneHasAShareToo) {
  EventStream stream(3);
  const std::vector<std::int64_t> ids = {0, 1, 2, 3};
  stream.add(
      1,
      EpochEvent{.split = stream.name("eval"), .dataset_size = 12, .n_replicas = 3, .per_rank = 4});
  stream.add(1, PhaseEvent{PhaseKind::kEval});
  stream.add(1, SampleEvent{.split = stream.name("eval"), .ids = ids});
  for (std::int32_t rank = 0; rank < 3; ++rank)
    stream.add(rank, EndEvent{.outcome = EndOutcome::kOk});
  const auto advice = check(kLaw, stream).advice;
  ASSERT_EQ(advice.size(), 1U);
  EXPECT_THAT(advice[0].message, HasSubstr("rank 1 evaluates 4 of the 12"));
}

}  // namespace
}  // namespace lockstep
