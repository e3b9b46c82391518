// outer-step on streams written by hand.
#include <gtest/gtest.h>

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::DdpJob;

/// Two outer steps of a few ranks; the second one of rank 1 may differ.
struct OuterJob {
  explicit OuterJob(std::int32_t n_ranks) : job(n_ranks) { job.wrap(); }

  OuterStepEvent right(std::int64_t step) {
    return {.kind = job.stream.name("sgd"),
            .n_ranks = job.n_ranks(),
            .step = step,
            .denominator = static_cast<double>(job.n_ranks()),
            .lr = 0.75,
            .momentum = 0.5,
            .nesterov = true,
            .layout = job.layout()};
  }

  template <typename Change>
  LawResult judged(Change change, double weight = 1.0) {
    for (std::int32_t rank = 0; rank < job.n_ranks(); ++rank) {
      for (std::int64_t step = 0; step < 2; ++step) {
        OuterStepEvent event = right(step);
        if (step == 1) change(rank, event);
        job.at(rank);
        job.stream.add(rank, event);
        job.state(rank, StateKind::kParam, StatePoint::kOuter, rank == 1 ? weight : 1.0);
      }
    }
    return check("outer-step", job.stream);
  }

  DdpJob job;
};

const std::vector<Rank> kSecond = {Rank{1}};

TEST(OuterStepTest, HoldsForOneStepOnAllRanks) {
  const LawResult result = OuterJob(3).judged([](std::int32_t, OuterStepEvent&) {});
  EXPECT_EQ(result.verdict, Verdict::kHolds);
  EXPECT_GT(result.n_checked, 0);
}

TEST(OuterStepTest, WithoutOuterStepsItSaysWhatToAdd) {
  const LawResult result = check("outer-step", DdpJob(2).stream);
  EXPECT_EQ(result.verdict, Verdict::kNotCheckable);
  EXPECT_NE(result.missing.find("outer_step"), std::string::npos);
}

TEST(OuterStepTest, NamesWhatOneRankDoesDifferently) {
  const auto field_of = [](auto change) {
    const LawResult result = OuterJob(3).judged([&](std::int32_t rank, OuterStepEvent& event) {
      if (rank == 1) change(event);
    });
    EXPECT_EQ(result.findings.size(), 1U);
    if (result.findings.empty()) return std::string();
    EXPECT_EQ(result.findings[0].ranks, kSecond);
    return result.findings[0].field;
  };
  EXPECT_EQ(field_of([](OuterStepEvent& e) { e.step = 5; }), "step");
  EXPECT_EQ(field_of([](OuterStepEvent& e) { e.lr = 0.5; }), "lr");
  EXPECT_EQ(field_of([](OuterStepEvent& e) { e.momentum = 0.25; }), "momentum");
  EXPECT_EQ(field_of([](OuterStepEvent& e) { e.nesterov = false; }), "nesterov");
  EXPECT_EQ(field_of([](OuterStepEvent& e) { e.layout = kNoLayout; }), "names");
}

TEST(OuterStepTest, NamesAStepAgainstTheDirectionOfTheRanks) {
  const LawResult result =
      OuterJob(2).judged([](std::int32_t, OuterStepEvent& event) { event.lr = -0.75; });
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(id_of(result.findings[0].cause), "outer-step-reversed");
  EXPECT_EQ(result.findings[0].ranks.size(), 2U);
}

TEST(OuterStepTest, NamesAnotherDenominatorThanTheRanks) {
  for (const double denominator : {1.0, 9.0}) {
    const LawResult result = OuterJob(3).judged(
        [&](std::int32_t, OuterStepEvent& event) { event.denominator = denominator; });
    ASSERT_EQ(result.findings.size(), 1U);
    EXPECT_EQ(id_of(result.findings[0].cause), "outer-step-denominator");
    EXPECT_EQ(result.findings[0].ranks.size(), 3U);
  }
}

TEST(OuterStepTest, NamesTheRankThatDiffersAfterwards) {
  const LawResult result = OuterJob(3).judged([](std::int32_t, OuterStepEvent&) {}, 2.0);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].tensor, "weight");
  EXPECT_EQ(result.findings[0].ranks, kSecond);
}

// Pairs that average among themselves need not agree with each other.
TEST(OuterStepTest, GroupsAreJudgedEachByItself) {
  DdpJob job(4);
  job.wrap();
  for (std::int32_t rank = 0; rank < 4; ++rank) {
    const std::int32_t first = rank - rank % 2;
    const std::int32_t members[] = {first, first + 1};
    job.stream.add(rank, GroupEvent{.group = 1, .members = members});
    job.stream.add(rank,
                   OuterStepEvent{.kind = job.stream.name("average"),
                                  .group = 1,
                                  .n_ranks = 2,
                                  .denominator = 2.0,
                                  .lr = 1.0,
                                  .layout = job.layout()});
    job.state(rank, StateKind::kParam, StatePoint::kOuter, first);
  }
  EXPECT_EQ(check("outer-step", job.stream).verdict, Verdict::kHolds);
}

}  // namespace
}  // namespace lockstep
