// norm-true: by what ranks multiply their parts of the gradients of a divided model.
#include <gmock/gmock.h>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::DdpJob;
using ::testing::HasSubstr;

/// The factors of each step, by rank.
LawResult multiplied(const std::vector<std::vector<double>>& factors) {
  DdpJob job(static_cast<std::int32_t>(factors.front().size()));
  for (std::size_t step = 0; step < factors.size(); ++step) {
    for (std::int32_t rank = 0; rank < job.n_ranks(); ++rank) {
      job.at(rank).wrapper = -1;
      job.at(rank).opt = static_cast<std::int32_t>(step);
      job.stream.add(rank,
                     ClipEvent{.kind = ClipKind::kPart,
                               .factor = factors[step][static_cast<std::size_t>(rank)]});
    }
  }
  return check("norm-true", job.stream);
}

TEST(PartFactorsTest, RanksWithFactorsOfTheirOwnAreFoundAtTheFirstSuchStep) {
  const LawResult result = multiplied({{1.0, 1.0, 1.0}, {0.5, 0.25, 0.5}, {0.5, 0.125, 1.0}});
  ASSERT_EQ(result.findings.size(), 1U);
  const Finding& finding = result.findings[0];
  EXPECT_EQ(id_of(finding.cause), "clip-own-part");
  EXPECT_EQ(finding.step, 1);
  EXPECT_EQ(finding.ranks, (std::vector<Rank>{Rank{0}, Rank{1}, Rank{2}}));
  EXPECT_THAT(finding.message, HasSubstr("0.5 on rank 0, 0.25 on rank 1, 0.5 on rank 2"));
}

TEST(PartFactorsTest, OneFactorOnAllRanksIsFineWhateverItIs) {
  const LawResult result = multiplied({{0.5, 0.5}, {1.0, 1.0}, {3.0, 3.0}});
  EXPECT_EQ(result.verdict, Verdict::kHolds);
  EXPECT_EQ(result.n_checked, 3);
}

// What one factor measures as, on the gradients of two ranks.
TEST(PartFactorsTest, WhatRoundingMakesOfAFactorIsNoOtherFactor) {
  EXPECT_TRUE(multiplied({{0.25, 0.25 * (1.0 + 0x1p-23)}}).findings.empty());
  EXPECT_EQ(multiplied({{0.25, 0.25 * (1.0 + 0x1p-20)}}).findings.size(), 1U);
}

TEST(PartFactorsTest, ARankOfWhichNoFactorIsKnownIsNotComparedWithOthers) {
  DdpJob job(3);
  for (const std::int32_t rank : {0, 1}) {
    job.stream.add(rank, ClipEvent{.kind = ClipKind::kPart, .factor = rank == 0 ? 0.5 : 1.0});
  }
  EXPECT_TRUE(check("norm-true", job.stream).findings.empty());
}

}  // namespace
}  // namespace lockstep
