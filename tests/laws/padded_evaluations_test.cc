// metric-true's advice on evaluations that count repeated samples, on streams written by hand.
#include "lockstep/laws/rules/detail/samples/padded_evaluations.h"

#include <gmock/gmock.h>

#include <gtest/gtest.h>

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::EventStream;
using ::testing::HasSubstr;

/// Evaluations of a set of ten samples by three ranks, whose sampler pads to twelve.
class Evaluations {
 public:
  Evaluations() : stream_(3) {
    call_.op = CollectiveOp::kAllReduce;
    call_.reduce = ReduceOp::kSum;
    call_.site = {"train.py", 31, ""};
  }

  Evaluations& sampled(std::int64_t dataset_size, std::int64_t per_rank, bool pads = true) {
    each([&](std::int32_t rank) {
      stream_.add(rank,
                  EpochEvent{.split = stream_.name(split),
                             .dataset_size = dataset_size,
                             .n_replicas = 3,
                             .per_rank = per_rank,
                             .pads = pads});
    });
    return *this;
  }

  std::string split = "eval";

  Evaluations& phase(PhaseKind kind) {
    each([&](std::int32_t rank) { stream_.add(rank, PhaseEvent{kind}); });
    return *this;
  }

  Evaluations& drawn(const std::vector<std::int64_t>& ids) {
    each([&](std::int32_t rank) {
      stream_.add(rank, SampleEvent{.split = stream_.name(split), .ids = ids});
    });
    return *this;
  }

  /// Rank 2 evaluates these rows of what all draw.
  Evaluations& rows(std::int64_t n, std::string_view by = "forward", bool grad = false) {
    stream_.add(2, LossEvent{.function = stream_.name(by), .n_rows = n, .grad = grad});
    return *this;
  }

  Evaluations& called() {
    each([&](std::int32_t rank) { stream_.add(rank, CollectiveEvent{.signature = call_}); });
    return *this;
  }

  Evaluations& ended() {
    each([&](std::int32_t rank) { stream_.add(rank, EndEvent{.outcome = EndOutcome::kOk}); });
    return *this;
  }

  Evaluations& reported() {
    each([&](std::int32_t rank) {
      stream_.add(rank, MetricEvent{.name = stream_.name("accuracy"), .value = 0.5});
    });
    return *this;
  }

  Signature& call() { return call_; }

  std::vector<Advice> advice() { return check("metric-true", stream_).advice; }

  /// An evaluation that draws all, then calls.
  std::vector<Advice> evaluated(std::int64_t dataset_size,
                                std::int64_t per_rank,
                                bool pads = true) {
    return sampled(dataset_size, per_rank, pads)
        .phase(PhaseKind::kEval)
        .drawn({0, 1})
        .drawn({2, 3})
        .called()
        .advice();
  }

 private:
  template <typename F>
  void each(F add) {
    for (std::int32_t rank = 0; rank < 3; ++rank) add(rank);
  }

  EventStream stream_;
  Signature call_;
};

TEST(PaddedEvaluationsTest, ASumOverAPaddedEvaluationCountsRepeatsTwice) {
  const std::vector<Advice> advice = Evaluations().evaluated(10, 4);
  ASSERT_EQ(advice.size(), 1U);
  EXPECT_EQ(advice[0].id, "A-padding-counted");
  EXPECT_THAT(advice[0].message,
              HasSubstr("the sampler of 'eval' repeats 2 of its 10 samples to give each of 3 ranks "
                        "4, and the sum at train.py:31 counts the repeats"));
}

/// Two samples are drawn twice, in one evaluation or in two, and `evaluate` says what becomes of them.
template <typename F>
bool is_advised(F evaluate, int n_evaluations = 1) {
  Evaluations given;
  for (int i = 0; i < n_evaluations; ++i) {
    given.sampled(10, 4).phase(PhaseKind::kEval).drawn({0, 1}).drawn({2, 3});
    evaluate(given);
    given.called().phase(PhaseKind::kTrain);
  }
  return !given.advice().empty();
}

TEST(PaddedEvaluationsTest, ARankThatEvaluatesLessThanItHasDrawnLeavesRepeatsOut) {
  EXPECT_FALSE(is_advised([](Evaluations& all) { all.rows(2).rows(1); }));
  EXPECT_TRUE(is_advised([](Evaluations& all) { all.rows(2).rows(2); }));
  EXPECT_TRUE(is_advised([](Evaluations& all) { all.rows(2).rows(3); }));
  EXPECT_TRUE(is_advised([](Evaluations& all) { all.rows(0); })) << "not known";
  EXPECT_FALSE(is_advised([](Evaluations& all) { all.rows(3); }, 2)) << "each by itself";
}

TEST(PaddedEvaluationsTest, WhatTheModelHasEvaluatedNoLossFunctionNeedsToSee) {
  EXPECT_TRUE(is_advised([](Evaluations& all) { all.rows(2).rows(2).rows(3, "mse_loss"); }));
  EXPECT_FALSE(is_advised([](Evaluations& all) { all.rows(3, "mse_loss"); }));
  EXPECT_TRUE(is_advised([](Evaluations& all) { all.rows(3, "mse_loss", true); })) << "trained on";
}

TEST(PaddedEvaluationsTest, RowsAreNotCountedOverTwoDataSets) {
  EXPECT_TRUE(is_advised([](Evaluations& all) {
    all.split = "more";
    all.drawn({7});
    all.split = "eval";
    all.rows(3);
  }));
}

TEST(PaddedEvaluationsTest, TheLastEvaluationEndsWithTheRank) {
  Evaluations given;
  given.sampled(10, 4).phase(PhaseKind::kEval).drawn({0, 1}).drawn({2, 3}).rows(3).called().ended();
  EXPECT_TRUE(given.advice().empty());
}

TEST(PaddedEvaluationsTest, WhereNothingIsRepeatedNothingIsSaid) {
  EXPECT_TRUE(Evaluations().evaluated(12, 4).empty());
  EXPECT_TRUE(Evaluations().evaluated(13, 4).empty()) << "the sampler drops";
  EXPECT_TRUE(Evaluations().evaluated(10, 4, false).empty()) << "its ranks overlap otherwise";
}

TEST(PaddedEvaluationsTest, ARepeatedSampleOfTheTrainingSetIsNoMatter) {
  for (const bool trains : {false, true}) {
    Evaluations evaluations;
    evaluations.split = trains ? "train" : "test";
    EXPECT_EQ(evaluations.evaluated(10, 4).empty(), trains);
  }
}

TEST(PaddedEvaluationsTest, OnlyASumOfTheProgramsOwnCounts) {
  const auto said_of = [](auto change) {
    Evaluations evaluations;
    change(evaluations.call());
    return !evaluations.evaluated(10, 4).empty();
  };
  EXPECT_TRUE(said_of([](Signature& call) { call.op = CollectiveOp::kReduce; }));
  EXPECT_TRUE(said_of([](Signature& call) { call.reduce = ReduceOp::kAvg; }));
  EXPECT_FALSE(said_of([](Signature& call) { call.op = CollectiveOp::kAllGather; }));
  EXPECT_FALSE(said_of([](Signature& call) { call.op = CollectiveOp::kBroadcast; }));
  EXPECT_FALSE(said_of([](Signature& call) { call.reduce = ReduceOp::kMax; }));
  EXPECT_FALSE(said_of([](Signature& call) { call.site.scope = "ddp.forward"; }));
}

TEST(PaddedEvaluationsTest, ASumInTheMiddleOrAfterTheEvaluationIsAnotherOne) {
  EXPECT_TRUE(
      Evaluations().sampled(10, 4).phase(PhaseKind::kEval).drawn({0, 1}).called().advice().empty());
  EXPECT_TRUE(Evaluations()
                  .sampled(10, 4)
                  .phase(PhaseKind::kEval)
                  .drawn({0, 1, 2, 3})
                  .phase(PhaseKind::kTrain)
                  .called()
                  .advice()
                  .empty());
  EXPECT_TRUE(Evaluations().sampled(10, 4).drawn({0, 1, 2, 3}).called().advice().empty())
      << "no evaluation has begun";
}

TEST(PaddedEvaluationsTest, EveryEvaluationIsCountedByItself) {
  Evaluations twice;
  twice.sampled(10, 4).phase(PhaseKind::kEval).drawn({0, 1}).phase(PhaseKind::kTrain);
  twice.sampled(10, 4).phase(PhaseKind::kEval).drawn({0, 1}).called();
  EXPECT_TRUE(twice.advice().empty()) << "two halves are not a whole";
  twice.drawn({2, 3}).called().called();
  EXPECT_EQ(twice.advice().size(), 1U);
}

TEST(PaddedEvaluationsTest, AProgramThatReportsItsMetricsIsJudgedByThem) {
  Evaluations reporting;
  reporting.sampled(10, 4).phase(PhaseKind::kEval).drawn({0, 1, 2, 3}).called().reported();
  EXPECT_TRUE(reporting.advice().empty());
}

/// What is said where rank 1's events came first, and then a sum over these ranks.
bool advised_after_sum_of(laws::RankRange who) {
  NameTable names;
  const NameId split = names.intern("eval");
  const std::vector<std::int64_t> ids = {0, 1, 2, 3};
  Event event;
  event.rank = Rank{1};
  laws::PaddedEvaluations evaluations;
  evaluations.on_epoch(event, {.split = split, .dataset_size = 10, .n_replicas = 3, .per_rank = 4});
  evaluations.on_phase(event, {PhaseKind::kEval});
  evaluations.on_samples(event, {.split = split, .ids = ids});
  evaluations.on_collective({.signature = {.op = CollectiveOp::kAllReduce}}, who);
  return !evaluations.advice(names).empty();
}

TEST(PaddedEvaluationsTest, ASumOverAllRanksIsOneOfEach) {
  EXPECT_TRUE(advised_after_sum_of({.first = 0, .n = 3}));
  EXPECT_TRUE(advised_after_sum_of({.first = 1, .n = 1}));
  EXPECT_FALSE(advised_after_sum_of({.first = 0, .n = 1})) << "not of rank 1";
  EXPECT_FALSE(advised_after_sum_of({.first = 2, .n = 1}));
}

}  // namespace
}  // namespace lockstep
