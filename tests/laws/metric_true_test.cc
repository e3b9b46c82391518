// metric-true on streams written by hand.
#include <numeric>

#include <gtest/gtest.h>

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::EventStream;

using EvalIds = std::vector<std::int64_t>;
using Parts = std::vector<double>;

/// Evaluations of a few ranks: sample i is worth i.
struct Evaluation {
  explicit Evaluation(std::int32_t n_ranks) : stream(n_ranks) {}

  void add(std::int32_t rank,
           const EvalIds& ids,
           double numerator,
           double denominator,
           bool with_parts = true) {
    stream.add(rank, PhaseEvent{PhaseKind::kEval});
    stream.add(rank, SampleEvent{.split = stream.name("eval"), .ids = ids});
    const Parts parts(ids.begin(), ids.end());
    stream.add(rank,
               MetricEvent{.name = stream.name("accuracy"),
                           .value = numerator / denominator,
                           .numerator = numerator,
                           .denominator = denominator,
                           .parts = with_parts ? std::span<const double>(parts)
                                               : std::span<const double>()});
  }

  LawResult judged() const { return check("metric-true", stream); }

  EventStream stream;
};

TEST(MetricTrueTest, HoldsForTheMeanOverDifferentSamples) {
  for (const bool with_parts : {true, false}) {
    Evaluation evaluation(2);
    evaluation.add(0, {0, 2, 4}, 10, 5, with_parts);
    evaluation.add(1, {1, 3, 0}, 10, 5, with_parts);  // Padded with sample 0, which counts once.
    EXPECT_EQ(evaluation.judged().verdict, Verdict::kHolds);
    EXPECT_GE(evaluation.judged().n_checked, 2);
  }
}

TEST(MetricTrueTest, RepeatedSamplesMustNotCountTwice) {
  for (const bool with_parts : {true, false}) {
    Evaluation evaluation(2);
    evaluation.add(0, {0, 2, 4}, 13, 6, with_parts);
    evaluation.add(1, {1, 3, 3}, 13, 6, with_parts);
    const LawResult result = evaluation.judged();
    ASSERT_EQ(result.findings.size(), 1U);
    EXPECT_EQ(id_of(result.findings[0].cause), "pad-duplicates-eval");
    EXPECT_EQ(result.findings[0].field, "accuracy");
    EXPECT_EQ(result.findings[0].ranks.size(), 2U);
  }
}

// What was looked at for the first evaluation is not a part of the second one.
TEST(MetricTrueTest, EveryEvaluationIsJudgedByItsOwnSamples) {
  Evaluation evaluation(2);
  evaluation.add(0, {0, 2, 4}, 10, 5);
  evaluation.add(1, {1, 3, 0}, 10, 5);
  evaluation.add(0, {5, 7, 9}, 26, 4);  // 5 + 7 + 9 + 5: sample 5 is counted twice.
  evaluation.add(1, {5}, 26, 4);
  const LawResult result = evaluation.judged();
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(id_of(result.findings[0].cause), "pad-duplicates-eval");
}

// Four parts of 1 are added up with at most (4 + 2) roundings of 2^-24 of their mean.
TEST(MetricTrueTest, TheValueMayDifferByTheRoundingOfItsAdditionsOnly) {
  for (const double roundings : {5.0, 8.0}) {
    EventStream stream(1);
    const EvalIds ids = {0, 1, 2, 3};
    const Parts parts = {0.5, 1.25, 1.5, 0.75};
    stream.add(0, PhaseEvent{PhaseKind::kEval});
    stream.add(0, SampleEvent{.split = stream.name("eval"), .ids = ids});
    const double value = 1.0 + roundings * 0x1p-24;
    stream.add(0,
               MetricEvent{.name = stream.name("loss"),
                           .value = value,
                           .numerator = 4.0 * value,
                           .denominator = 4.0,
                           .parts = parts});
    EXPECT_EQ(check("metric-true", stream).findings.size(), roundings > 6.0 ? 1U : 0U);
  }
}

// Whole numbers are added up without rounding: one repeat in a hundred thousand shows.
TEST(MetricTrueTest, OneRepeatAmongManyCountsShows) {
  constexpr std::int64_t kN = 100'000;
  for (const bool repeats : {false, true}) {
    EventStream stream(1);
    EvalIds ids(kN);
    for (std::int64_t i = 0; i < kN; ++i) ids[static_cast<std::size_t>(i)] = i;
    if (repeats) ids.push_back(0);
    Parts parts(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) parts[i] = ids[i] % 2 == 0 ? 1.0 : 0.0;
    const double correct = repeats ? 50'001 : 50'000;
    stream.add(0, PhaseEvent{PhaseKind::kEval});
    stream.add(0, SampleEvent{.split = stream.name("eval"), .ids = ids});
    stream.add(0,
               MetricEvent{.name = stream.name("accuracy"),
                           .value = correct / static_cast<double>(ids.size()),
                           .numerator = correct,
                           .denominator = static_cast<double>(ids.size()),
                           .parts = parts});
    EXPECT_EQ(check("metric-true", stream).findings.size(), repeats ? 1U : 0U);
  }
}

TEST(MetricTrueTest, ARanksOwnShareIsNotTheWhole) {
  for (const bool with_parts : {true, false}) {
    Evaluation evaluation(2);
    evaluation.add(0, {0, 2}, 2, 2, with_parts);
    evaluation.add(1, {1, 5}, 6, 2, with_parts);
    const LawResult result = evaluation.judged();
    ASSERT_EQ(result.findings.size(), 1U);
    EXPECT_EQ(id_of(result.findings[0].cause), "local-metric-logged");
  }
}

TEST(MetricTrueTest, AMeanOfTheRanksMeansIsNamed) {
  Evaluation evaluation(2);
  for (const std::int32_t rank : {0, 1}) {
    evaluation.add(rank, rank == 0 ? EvalIds{0, 1, 2} : EvalIds{7}, 4, 1);
  }
  const LawResult result = evaluation.judged();
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(id_of(result.findings[0].cause), "prereduced-metric");
}

TEST(MetricTrueTest, EveryRankMayEvaluateEverything) {
  Evaluation evaluation(3);
  for (const std::int32_t rank : {0, 1, 2}) evaluation.add(rank, {0, 1, 2, 3}, 6, 4);
  EXPECT_EQ(evaluation.judged().verdict, Verdict::kHolds);
}

// Two ranks, then three after a restart: each attempt is judged by its own number of ranks.
TEST(MetricTrueTest, ARestartWithMoreRanksIsJudgedAsAWhole) {
  for (const double reported : {6.0, 5.0}) {
    Evaluation evaluation(3);
    evaluation.add(0, {0, 2}, 6, 4);
    evaluation.add(1, {1, 3}, 6, 4);
    for (const std::int32_t rank : {0, 1, 2}) {
      evaluation.stream.at(rank).attempt = 1;
      evaluation.stream.add(rank, EnvironmentEvent{.world = 3});
    }
    for (const std::int32_t rank : {0, 1, 2}) {
      evaluation.add(rank, rank == 0 ? EvalIds{0, 3} : EvalIds{rank}, rank < 2 ? 6 : reported, 4);
    }
    const LawResult result = check("metric-true", evaluation.stream, {.n_ranks = 2});
    EXPECT_EQ(result.findings.size(), reported == 6.0 ? 0U : 1U);
    if (reported == 6.0) continue;
    EXPECT_EQ(result.findings.at(0).ranks, std::vector<Rank>{Rank{2}});
  }
}

/// Two ranks train on samples 4 and 6, and 5 and 7; then they evaluate a split of this size.
LawResult after_training(std::int64_t split_size, const EvalIds& rank0, const EvalIds& rank1) {
  Evaluation evaluation(2);
  const double sum = std::accumulate(rank0.begin(), rank0.end(), 0.0) +
                     std::accumulate(rank1.begin(), rank1.end(), 0.0);
  for (const std::int32_t rank : {0, 1}) {
    EventStream& stream = evaluation.stream;
    stream.add(rank, SampleEvent{.split = stream.name("train"), .ids = EvalIds{0, 1}});
    stream.add(rank,
               SampleEvent{.split = stream.name("train"), .ids = EvalIds{4 + rank, 6 + rank}});
    stream.add(rank, EpochEvent{.split = stream.name("eval"), .dataset_size = split_size});
    evaluation.add(
        rank, rank == 0 ? rank0 : rank1, sum, static_cast<double>(rank0.size() + rank1.size()));
  }
  return evaluation.judged();
}

TEST(MetricTrueTest, AnEvaluationOfTheLastTrainingBatchIsNamed) {
  for (const std::int64_t split_size : {3, 10}) {
    const LawResult result = after_training(split_size, {4, 6}, {5, 7});
    ASSERT_EQ(result.findings.size(), 1U) << split_size;
    EXPECT_EQ(id_of(result.findings[0].cause), "last-batch-evaluated");
    EXPECT_EQ(result.findings[0].ranks.size(), 2U);
  }
}

TEST(MetricTrueTest, IdsOfTwoSetsMayBeAlikeByChance) {
  EXPECT_TRUE(after_training(4, {4, 6}, {5, 7}).findings.empty());
  EXPECT_TRUE(after_training(3, {4, 6}, {5, 8}).findings.empty());
  const LawResult of_one_rank = after_training(10, {4, 6}, {5, 8});
  ASSERT_EQ(of_one_rank.findings.size(), 1U);
  EXPECT_EQ(id_of(of_one_rank.findings[0].cause), "tail-dropped-eval");
}

TEST(MetricTrueTest, CountsOfSomethingElseSayNothing) {
  Evaluation evaluation(2);  // Perplexity over 90 tokens of 4 samples.
  for (const std::int32_t rank : {0, 1}) {
    evaluation.add(rank, rank == 0 ? EvalIds{0, 2} : EvalIds{1, 3}, 45, 90, false);
  }
  EXPECT_EQ(evaluation.judged().verdict, Verdict::kHolds);
}

TEST(MetricTrueTest, WhatRankZeroAloneReportsIsNotCheckable) {
  Evaluation evaluation(2);
  for (int epoch = 0; epoch < 100; ++epoch) evaluation.add(0, {0, 2}, 2, 2);
  EXPECT_EQ(evaluation.judged().verdict, Verdict::kNotCheckable);
}

TEST(MetricTrueTest, DifferentValuesWithoutSamplesDiffer) {
  EventStream stream(3);
  for (const std::int32_t rank : {0, 1, 2}) {
    stream.add(rank, MetricEvent{.name = stream.name("loss"), .value = rank == 1 ? 10.0 : 0.0});
  }
  const LawResult result = check("metric-true", stream);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].ranks, std::vector<Rank>{Rank{1}});
}
}  // namespace
}  // namespace lockstep
