// What a finding says of files that ranks read before their parameters differed.
#include <string>

#include <gtest/gtest.h>

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::DdpJob;

void touch(DdpJob& job, std::int32_t rank, SnapshotAction action, std::uint64_t digest) {
  job.at(rank);
  job.stream.add(
      rank,
      SnapshotEvent{.action = action, .detail = job.stream.name("best.pt"), .digest = digest});
}

/// Rank 0 saves the best weights, all load them, and rank 1 has read what `rank_1_reads`.
std::string said(std::uint64_t rank_1_reads,
                 bool written_now,
                 int n_steps_between = 0,
                 Cause cause = Cause::kParameterNudged) {
  DdpJob job(2);
  job.wrap();
  job.begin();
  if (!written_now) touch(job, 0, SnapshotAction::kPart, 8);
  job.train_step({2.0, 6.0});
  if (written_now) touch(job, 0, SnapshotAction::kPart, 8);
  touch(job, 0, SnapshotAction::kRead, 8);
  touch(job, 1, SnapshotAction::kRead, rank_1_reads);
  for (int i = 0; i < n_steps_between; ++i) job.train_step({1.0, 3.0});
  job.weight(1) = 9.0;
  job.found(1);
  job.train_step({1.0, 3.0});
  job.train_step({1.0, 3.0});
  const LawResult result = check("replicas-equal", job.stream);
  EXPECT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings.at(0).cause, cause);
  return result.findings.at(0).message;
}

TEST(UnevenReadsTest, AFileThatWasWrittenBetweenTwoReadsIsNamedWithItsRanks) {
  const std::string early = said(7, true, 0, Cause::kReadBeforeCommit);
  EXPECT_TRUE(
      early.ends_with("; rank 1 read different bytes from best.pt than rank 0, while rank 0 wrote "
                      "it: the readers did not wait for the write"))
      << early;
  EXPECT_TRUE(said(7, false).ends_with("; rank 1 read different bytes from best.pt than rank 0"))
      << said(7, false);
}

TEST(UnevenReadsTest, ReadsOfTheSameBytesOrOfAnotherStepExplainNothing) {
  EXPECT_EQ(said(8, true).find("best.pt"), std::string::npos);
  EXPECT_EQ(said(7, true, 1).find("best.pt"), std::string::npos);
}

}  // namespace
}  // namespace lockstep
