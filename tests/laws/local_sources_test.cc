#include "lockstep/laws/rules/detail/mean/local_sources.h"

#include <gtest/gtest.h>

namespace lockstep::laws {
namespace {

Event at_wrapper(std::int32_t rank, std::int32_t wrapper, std::int32_t opt = 0) {
  Event event;
  event.rank = Rank{rank};
  event.at.wrapper = wrapper;
  event.at.opt = opt;
  return event;
}

constexpr RankRange kRank0{0, 1};
constexpr RankRange kBoth{0, 2};

/// The batches that the next gradient of wrapper 0 on rank 0 comes from.
Batches batches_of(LocalSources& sources, std::int32_t opt = 0) {
  OpenReduction open;
  const Local local = sources.source_of(open, at_wrapper(0, 0, opt), GradEvent{}, kRank0);
  return open.batches[local.batches];
}

TEST(LocalSourcesTest, BatchesAddUpToTheNextReduction) {
  LocalSources sources;
  const Event event = at_wrapper(0, 0);
  sources.on_batch(event, {.n_samples = 4, .denominator = 4.0}, kRank0);
  sources.on_batch(event, {.n_samples = 3, .denominator = 3.0}, kRank0);
  EXPECT_EQ(batches_of(sources).n_samples, 7);
  EXPECT_FALSE(batches_of(sources).same_denominators);
  sources.on_reduction(event, kNoLayout, kRank0);
  EXPECT_EQ(batches_of(sources).n_samples, 7) << "its other tensors come from the same batches";
  sources.on_batch(event, {.n_samples = 2, .denominator = 2.0}, kRank0);
  EXPECT_EQ(batches_of(sources).n_samples, 2);
}

TEST(LocalSourcesTest, BatchesOfAnEvaluationFeedNoGradient) {
  LocalSources sources;
  const Event event = at_wrapper(0, 0);
  sources.on_phase(event, {.kind = PhaseKind::kEval});
  sources.on_batch(event, {.n_samples = 9}, kRank0);
  EXPECT_EQ(batches_of(sources).n_batches, 0);
  sources.on_phase(event, {.kind = PhaseKind::kTrain});
  sources.on_batch(event, {.n_samples = 9}, kRank0);
  EXPECT_EQ(batches_of(sources).n_batches, 1);
}

TEST(LocalSourcesTest, ABatchOutsideAnyWrapperFeedsAllOfThem) {
  LocalSources sources;
  sources.on_batch(at_wrapper(0, -1), {.n_samples = 5}, kRank0);
  EXPECT_EQ(batches_of(sources).n_samples, 5);
  sources.on_batch(at_wrapper(0, 0), {.n_samples = 1}, kRank0);
  EXPECT_EQ(batches_of(sources).n_samples, 1) << "its own come first";
}

TEST(LocalSourcesTest, AGradientAddsToAReductionOfTheSameStepOnly) {
  LocalSources sources;
  OpenReduction open;
  const Event event = at_wrapper(0, 0, 3);
  EXPECT_FALSE(sources.source_of(open, event, GradEvent{}, kRank0).adds_to_earlier);
  sources.on_reduction(event, kNoLayout, kRank0);
  EXPECT_TRUE(sources.source_of(open, event, GradEvent{}, kRank0).adds_to_earlier);
  const Event later = at_wrapper(0, 0, 4);
  EXPECT_FALSE(sources.source_of(open, later, GradEvent{}, kRank0).adds_to_earlier);
}

TEST(LocalSourcesTest, RanksShareUntilOneOfThemDiffers) {
  LocalSources sources;
  const Event event = at_wrapper(0, 0);
  sources.on_batch(event, {.n_samples = 4}, kBoth);
  EXPECT_TRUE(sources.shares(event, kBoth));
  sources.on_batch(at_wrapper(1, 0), {.n_samples = 4}, {1, 1});
  EXPECT_FALSE(sources.shares(event, kBoth));

  LocalSources others;
  others.on_phase(at_wrapper(1, 0), {.kind = PhaseKind::kEval});
  EXPECT_FALSE(others.shares(event, kBoth)) << "rank 1 evaluates";
}

}  // namespace
}  // namespace lockstep::laws
