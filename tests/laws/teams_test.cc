// Wrappers over parts of the world, on streams written by hand.
#include <gtest/gtest.h>

#include "lockstep/trace/cohort.h"

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::DdpJob;
using testing::policy_of;

/// Ranks 0, 1 and 2, 3 are wrapped in pairs; both wrappers are the first of their ranks. Each pair
/// trains on its own: `odd` is added to rank 3's weight in the second step.
DdpJob pairs(double odd) {
  DdpJob job(4);
  for (std::int32_t rank = 0; rank < 4; ++rank) {
    const std::int32_t first = rank - rank % 2;
    const std::int32_t members[] = {first, first + 1};
    job.stream.add(rank, GroupEvent{.group = 1 + first, .members = members});
    job.weight(rank) = first;
    job.at(rank);
    job.stream.add(rank,
                   WrapEvent{.params = job.layout(),
                             .buffer_policy = BufferPolicy::kBroadcast0,
                             .group = 1 + first,
                             .n_ranks = 2});
    job.state(rank, StatePoint::kForward);
  }
  for (int step = 0; step < 2; ++step) {
    for (std::int32_t rank = 0; rank < 4; ++rank) {
      const double pair = rank / 2 + 1.0;
      job.forward(rank);
      job.reduce(rank, pair + rank % 2, pair + rank % 2, pair + 0.5);
      if (rank == 3 && step == 1) job.weight(rank) += odd;
      job.step(rank, pair + 0.5);
    }
  }
  for (std::int32_t rank = 0; rank < 4; ++rank) job.end(rank);
  return job;
}

std::vector<LawResult> judged_as(const DdpJob& job, bool together) {
  LawSet laws = std::move(LawSet::make(policy_of(job.n_ranks())).value());
  if (together) {
    Cohort cohort;
    cohort.begin(job.n_ranks(), laws, nullptr);
    job.stream.play(cohort);
    cohort.flush(job.stream.trace().names());
  } else {
    job.stream.play(laws);
  }
  return laws.finish(job.stream.trace().names());
}

TEST(TeamsTest, PairsThatTrainApartAreNoReplicasOfEachOther) {
  for (const bool together : {false, true}) {
    for (const LawResult& result : judged_as(pairs(0.0), together)) {
      EXPECT_NE(result.verdict, Verdict::kBroken) << result.law;
      const bool compared = result.law == "replicas-equal" && result.n_checked == 4;
      EXPECT_EQ(compared, result.law == "replicas-equal");
    }
  }
}

TEST(TeamsTest, ARankThatDiffersFromItsPartnerIsNamed) {
  for (const bool together : {false, true}) {
    for (const LawResult& result : judged_as(pairs(1.0), together)) {
      if (result.law != "replicas-equal") continue;
      ASSERT_EQ(result.findings.size(), 1U);
      EXPECT_EQ(result.findings[0].ranks, std::vector<Rank>{Rank{3}});
      EXPECT_EQ(result.findings[0].step, 1);
    }
  }
}

}  // namespace
}  // namespace lockstep
