// Divergence, step by step and rank by rank, on streams written by hand.
#include "lockstep/compare/divergence.h"

#include <gtest/gtest.h>

#include "tests/support/event_stream.h"

namespace lockstep {
namespace {

using testing::EventStream;

/// Ranks that report the parameters `a`, `b` and `head` after steps; `head` is declared local.
struct ReplicaJob {
  explicit ReplicaJob(std::int32_t n_ranks) : stream(n_ranks) {
    for (std::int32_t rank = 0; rank < n_ranks; ++rank) {
      stream.at(rank) = {.attempt = 0, .wrapper = 0, .sync = -1, .micro = 0, .opt = 0, .epoch = 0};
      stream.add(rank,
                 WrapEvent{.params = stream.layout({"a", "b", "head"}),
                           .ignored = stream.layout({"head"}),
                           .n_ranks = n_ranks});
    }
  }

  /// The rank's next synchronising step leaves these digests.
  void step(std::int32_t rank, std::uint64_t a, std::uint64_t b, std::uint64_t head = 0) {
    const std::uint64_t digests[] = {a, b, head};
    ++stream.at(rank).sync;
    stream.add(rank,
               StateEvent{.kind = StateKind::kParam,
                          .point = StatePoint::kStep,
                          .layout = stream.layout({"a", "b", "head"}),
                          .digests = digests});
    ++stream.at(rank).opt;
  }

  EventStream stream;
};

TEST(DivergenceTest, NamesTheMinorityAndWhatDiffers) {
  ReplicaJob job(3);
  for (const std::int32_t rank : {0, 1, 2}) job.step(rank, 1, 2);
  job.step(0, 3, 4);
  job.step(1, 3, 4);
  job.step(2, 9, 8);

  const std::vector<DivergenceStep> steps = divergence_of(job.stream.trace());

  ASSERT_EQ(steps.size(), 2U);
  for (const DivergenceCell& cell : steps[0].ranks) EXPECT_EQ(cell.n_tensors, 0);
  EXPECT_EQ(steps[1].step, 1);
  EXPECT_EQ(steps[1].ranks[0].n_tensors, 0);
  EXPECT_EQ(steps[1].ranks[1].n_tensors, 0);
  EXPECT_EQ(steps[1].ranks[2].n_tensors, 2);
  EXPECT_EQ(steps[1].ranks[2].first, "a");
}

TEST(DivergenceTest, OnATieTheSideWithoutTheLowestRankDiffers) {
  ReplicaJob job(2);
  job.step(0, 1, 7);
  job.step(1, 1, 5);
  const std::vector<DivergenceStep> steps = divergence_of(job.stream.trace());
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].ranks[0].n_tensors, 0);
  EXPECT_EQ(steps[0].ranks[1].n_tensors, 1);
  EXPECT_EQ(steps[0].ranks[1].first, "b");
}

TEST(DivergenceTest, LeavesOutWhatIsDeclaredLocal) {
  ReplicaJob job(2);
  job.step(0, 1, 2, 10);
  job.step(1, 1, 2, 20);
  const std::vector<DivergenceStep> steps = divergence_of(job.stream.trace());
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].ranks[1].n_tensors, 0);
}

// It lags behind in its own step number: the synchronising forward decides what to compare.
TEST(DivergenceTest, ARankThatSkippedAStepIsComparedWithTheSameForward) {
  ReplicaJob job(3);
  for (const std::int32_t rank : {0, 1, 2}) job.step(rank, 1, 2);
  job.stream.at(2).opt = 0;
  for (const std::int32_t rank : {0, 1, 2}) job.step(rank, 3, rank == 2 ? 2 : 4);
  const std::vector<DivergenceStep> steps = divergence_of(job.stream.trace());
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[1].step, 1);
  EXPECT_EQ(steps[1].ranks[2].n_tensors, 1);
}

TEST(DivergenceTest, ARankThatRecordsNothingIsDistinguishedFromAnEqualOne) {
  ReplicaJob job(2);
  job.step(0, 1, 2);
  const std::vector<DivergenceStep> steps = divergence_of(job.stream.trace());
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].ranks[0].n_tensors, 0);
  EXPECT_EQ(steps[0].ranks[1].n_tensors, DivergenceCell::kNothing);
  EXPECT_TRUE(divergence_of(EventStream(2).trace()).empty());
}

}  // namespace
}  // namespace lockstep
