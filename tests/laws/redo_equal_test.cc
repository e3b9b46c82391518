// redo-equal on streams written by hand.
#include <algorithm>

#include <gtest/gtest.h>

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::check_together;
using testing::EventStream;

/// Micro-steps of a few ranks with the tensors `a` and `b`: contributions as digests.
struct TwiceComputed {
  explicit TwiceComputed(std::int32_t n_ranks) : stream(n_ranks) {
    for (std::int32_t rank = 0; rank < n_ranks; ++rank) at(rank).wrapper = at(rank).micro = 0;
  }

  Position& at(std::int32_t rank) { return stream.at(rank); }

  void add(std::int32_t rank, GradPoint point, std::uint64_t a, std::uint64_t b) {
    const std::uint64_t digests[] = {a, b};
    // A digest of 0 stands for a tensor that got nothing.
    const std::uint8_t undefined[] = {
        static_cast<std::uint8_t>((a == 0 ? 1U : 0U) + (b == 0 ? 2U : 0U))};
    stream.add(rank,
               GradEvent{.point = point,
                         .layout = stream.layout({"a", "b"}),
                         .digests = digests,
                         .undefined = undefined});
  }

  /// One backward and its repetition.
  void micro_step(std::int32_t rank, std::uint64_t a, std::uint64_t again) {
    add(rank, GradPoint::kInc, a, 7);
    add(rank, GradPoint::kRedo, again, 7);
    ++at(rank).micro;
  }

  /// The same one by one and together.
  LawResult judged() const {
    LawResult result = check("redo-equal", stream);
    const LawResult together = check_together("redo-equal", stream);
    EXPECT_EQ(together.verdict, result.verdict);
    EXPECT_EQ(together.n_checked, result.n_checked);
    EXPECT_EQ(together.findings.size(), result.findings.size());
    for (std::size_t i = 0; i < std::min(together.findings.size(), result.findings.size()); ++i) {
      EXPECT_EQ(together.findings[i].message, result.findings[i].message);
      EXPECT_EQ(together.findings[i].ranks, result.findings[i].ranks);
    }
    return result;
  }

  EventStream stream;
};

TEST(RedoEqualTest, HoldsWhereTheSecondTimeGivesTheSame) {
  TwiceComputed job(2);
  for (const std::int32_t rank : {0, 1, 0, 1}) job.micro_step(rank, 5, 5);
  const LawResult result = job.judged();
  EXPECT_EQ(result.verdict, Verdict::kHolds);
  EXPECT_EQ(result.n_checked, 4 * 2);
}

TEST(RedoEqualTest, NamesRankStepMicroStepAndTensor) {
  TwiceComputed job(3);
  for (std::int32_t rank = 0; rank < 3; ++rank) {
    job.at(rank).opt = 4;
    job.micro_step(rank, 5, 5);
    job.micro_step(rank, 5, rank == 1 ? 6 : 5);
    job.micro_step(rank, 5, rank == 1 ? 8 : 5);
  }
  const LawResult result = job.judged();
  ASSERT_EQ(result.findings.size(), 1U);  // The first place of a rank; the rest may follow from it.
  EXPECT_EQ(result.findings[0].step, 4);
  EXPECT_EQ(result.findings[0].tensor, "a");
  EXPECT_EQ(result.findings[0].ranks, std::vector<Rank>{Rank{1}});
  EXPECT_EQ(id_of(result.findings[0].cause), "sdc-before-reduce");
  EXPECT_EQ(result.findings[0].message, "recomputing micro-step 1 gave different bits");
}

TEST(RedoEqualTest, RanksWithTheSameDifferenceShareAFindingThatBlamesNoHardware) {
  TwiceComputed job(2);
  for (const std::int32_t rank : {0, 1}) {
    job.add(rank, GradPoint::kInc, 1, 2);
    job.add(rank, GradPoint::kRedo, 3, 4);
  }
  const LawResult result = job.judged();
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].ranks.size(), 2U);
  EXPECT_EQ(id_of(result.findings[0].cause), "");
  EXPECT_EQ(result.findings[0].message,
            "recomputing micro-step 0 gave different bits, also in 1 more tensor; the same on "
            "several ranks, as with an operation that sums in no fixed order");
}

TEST(RedoEqualTest, EachRankIsComparedWithItsOwnContribution) {
  TwiceComputed job(3);
  for (int micro = 0; micro < 2; ++micro) {
    for (std::int32_t rank = 0; rank < 3; ++rank) {
      const auto own = static_cast<std::uint64_t>(5 + rank);
      job.micro_step(rank, own, micro == 1 && rank == 2 ? 6 : own);
    }
  }
  const LawResult result = job.judged();
  EXPECT_EQ(result.n_checked, 3 * 2 * 2);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].ranks, std::vector<Rank>{Rank{2}});
}

TEST(RedoEqualTest, ARankThatComputesAgainByItselfIsComparedWithWhatItRecordedTogether) {
  TwiceComputed job(2);
  job.add(0, GradPoint::kInc, 5, 7);
  job.add(1, GradPoint::kInc, 6, 7);
  job.add(1, GradPoint::kRedo, 5, 7);
  const LawResult result = job.judged();
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].ranks, std::vector<Rank>{Rank{1}});
}

TEST(RedoEqualTest, AContributionThatIsThereOnlyOnceDiffers) {
  TwiceComputed job(1);
  job.add(0, GradPoint::kInc, 1, 0);
  job.add(0, GradPoint::kRedo, 1, 9);
  const LawResult result = job.judged();
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].tensor, "b");
}

TEST(RedoEqualTest, ATensorWithoutAContributionBothTimesIsNotCompared) {
  TwiceComputed job(1);
  job.add(0, GradPoint::kInc, 1, 0);
  job.add(0, GradPoint::kRedo, 1, 0);
  EXPECT_EQ(job.judged().n_checked, 1);
}

TEST(RedoEqualTest, WithoutARepetitionOfTheSameMicroStepThereIsNothingToCompare) {
  TwiceComputed job(1);
  job.add(0, GradPoint::kInc, 1, 2);
  EXPECT_EQ(job.judged().verdict, Verdict::kNotCheckable);

  ++job.at(0).micro;
  job.add(0, GradPoint::kRedo, 3, 4);
  EXPECT_EQ(job.judged().verdict, Verdict::kNotCheckable);
}

}  // namespace
}  // namespace lockstep
