// Parameters that no wrapper has: whether ranks share them.
#include <gtest/gtest.h>

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::DdpJob;

/// Two steps of two ranks outside of wrappers. `starts`: their weights before; `used`: their gradients.
DdpJob stepped(const std::vector<double>& starts, const std::vector<double>& used) {
  DdpJob job(2);
  job.wrapper = -1;
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    job.weight(rank) = starts[r];
    job.state(rank, StatePoint::kWrap);
    for (int step = 0; step < 2; ++step) {
      job.grad(rank, GradPoint::kUsed, used[r]);
      job.weight(rank) -= used[r];
      job.state(rank, StatePoint::kStep);
      job.state(rank, StateKind::kOptimizer, StatePoint::kStep, used[r]);
      job.stream.add(rank, StepEvent{.lr = 1.0, .layout = job.layout()});
      ++job.at(rank).opt;
    }
  }
  return job;
}

std::vector<Finding> replicas(const std::vector<double>& starts, const std::vector<double>& used) {
  return check("replicas-equal", stepped(starts, used).stream).findings;
}

TEST(UnwrappedTrainingTest, RanksThatBeganAlikeAreReplicas) {
  EXPECT_TRUE(replicas({1.0, 1.0}, {0.5, 0.5}).empty());
  const std::vector<Finding> findings = replicas({1.0, 1.0}, {0.5, 0.25});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].step, 0);
  EXPECT_EQ(findings[0].ranks, std::vector<Rank>{Rank{1}});
}

TEST(UnwrappedTrainingTest, RanksThatBeganApartAndTrainApartHaveModelsOfTheirOwn) {
  EXPECT_TRUE(replicas({1.0, 2.0}, {0.5, 0.25}).empty());
}

// Something has brought their gradients together, and nothing their weights.
TEST(UnwrappedTrainingTest, RanksThatBeganApartAndUseOneGradientWereNotBroughtTogether) {
  const std::vector<Finding> findings = replicas({1.0, 2.0}, {0.5, 0.5});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].cause, Cause::kInitNoBroadcast);
}

TEST(UnwrappedTrainingTest, MomentsMayDifferWhereGradientsDo) {
  EXPECT_TRUE(check("optimizer-equal", stepped({1.0, 1.0}, {0.5, 0.25}).stream).findings.empty());
  DdpJob job = stepped({1.0, 1.0}, {0.5, 0.5});
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    job.grad(rank, GradPoint::kUsed, 0.5);
    job.state(rank, StateKind::kOptimizer, StatePoint::kStep, 7.0 + rank);
  }
  const std::vector<Finding> findings = check("optimizer-equal", job.stream).findings;
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].step, 2);
}

/// A loop that was recorded as a wrapper ends; its parameters are stepped on as those of no wrapper.
std::vector<Finding> stepped_after(bool synchronizes) {
  DdpJob job(2);
  job.wrap(synchronizes);
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    job.forward(rank, false);
    job.grad(rank, GradPoint::kInc, 1.0 + rank);
    job.wrapper = -1;
    job.step(rank, 1.0 + rank);
    job.wrapper = 0;
  }
  return check("reduced-once", job.stream).findings;
}

TEST(UnwrappedTrainingTest, ALoopThatHasEndedPromisesNothingOfItsLastGradients) {
  EXPECT_TRUE(stepped_after(false).empty());
  EXPECT_FALSE(stepped_after(true).empty());
}

}  // namespace
}  // namespace lockstep
