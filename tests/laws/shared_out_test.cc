// Loops that reduce gradients by themselves, and ranks that share the steps of one model out: what laws say
// of which parameters.
#include <gtest/gtest.h>

#include "tests/support/ddp_job.h"

namespace lockstep {
namespace {

using testing::check;
using testing::check_together;
using testing::DdpJob;
using testing::EventStream;

using Texts = std::vector<std::string>;

/// Gradients that a rank contributes or uses: all defined, of these values.
void add_gradients(EventStream& stream,
                   std::int32_t rank,
                   GradPoint point,
                   LayoutId layout,
                   const std::vector<double>& values) {
  std::vector<std::uint64_t> digests;
  for (const double value : values) digests.push_back(std::bit_cast<std::uint64_t>(value));
  const std::vector<std::int64_t> n_elems(values.size(), 1);
  const std::vector<std::uint8_t> defined(1, 0);
  stream.add(rank,
             GradEvent{.point = point,
                       .layout = layout,
                       .digests = digests,
                       .n_elems = n_elems,
                       .undefined = defined});
}

/// Two ranks whose wrapper reduces `a` and `b`. Rank 0's optimizer has `a`; rank 1's has what is given, of
/// this wrapper.
EventStream shared_out(const Texts& of_rank_1, std::int32_t wrapper = 0) {
  EventStream stream(2);
  const LayoutId all = stream.layout({"a", "b"});
  const std::array<LayoutId, 2> own = {stream.layout({"a"}), stream.layout({of_rank_1[0].c_str()})};
  for (const std::int32_t rank : {0, 1}) {
    stream.at(rank).wrapper = 0;
    stream.add(rank, WrapEvent{.params = all, .n_ranks = 2});
  }
  for (int step = 0; step < 2; ++step) {
    for (const std::int32_t rank : {0, 1}) {
      stream.add(rank, ForwardEvent{});
      add_gradients(stream, rank, GradPoint::kInc, all, {1.0 + rank, 2.0 + rank});
      const LayoutId layout = own.at(static_cast<std::size_t>(rank));
      stream.at(rank).wrapper = rank == 1 ? wrapper : 0;
      add_gradients(stream, rank, GradPoint::kUsed, layout, {1.5});
      stream.add(rank, StepEvent{.lr = 0.5, .layout = layout});
      ++stream.at(rank).opt;
      stream.at(rank).wrapper = 0;
    }
  }
  return stream;
}

TEST(SharedOutTest, AParameterInAnotherRanksOptimizerCountsAsOptimised) {
  for (const LawResult& judged : {check("trained-set", shared_out({"b"})),
                                  check_together("trained-set", shared_out({"b"}))}) {
    EXPECT_EQ(judged.verdict, Verdict::kHolds);
    EXPECT_TRUE(judged.advice.empty());
  }
}

TEST(SharedOutTest, ANameInAnotherWrapperIsAnotherParameters) {
  EXPECT_EQ(check("trained-set", shared_out({"b"}, 1)).advice.size(), 1U);
}

TEST(SharedOutTest, AParameterInNoRanksOptimizerIsReported) {
  const LawResult judged = check("trained-set", shared_out({"a"}));
  ASSERT_EQ(judged.advice.size(), 1U);
  EXPECT_EQ(judged.advice[0].id, "A-not-optimised");
  EXPECT_NE(judged.advice[0].message.find("1 parameter (first: `b`)"), std::string::npos)
      << judged.advice[0].message;
}

/// The first step is of no wrapper: only then the loop is known. Ranks have used other gradients in it.
EventStream begun_by_hand(const char* trained_first) {
  EventStream stream(2);
  const LayoutId reduced = stream.layout({"a"});
  const LayoutId first = stream.layout({trained_first});
  for (const std::int32_t rank : {0, 1}) {
    stream.at(rank).wrapper = -1;
    add_gradients(stream, rank, GradPoint::kUsed, first, {1.0 + rank});
    stream.add(rank, StepEvent{.lr = 0.5, .layout = first});
    stream.at(rank).wrapper = 0;
    stream.at(rank).opt = 1;
    stream.add(rank, WrapEvent{.params = reduced, .n_ranks = 2, .synchronizes = false});
    add_gradients(stream, rank, GradPoint::kInc, reduced, {1.0 + rank});
    add_gradients(stream, rank, GradPoint::kUsed, reduced, {1.5});
    stream.add(rank, StepEvent{.lr = 0.5, .layout = reduced});
  }
  return stream;
}

TEST(SharedOutTest, ALoopLeavesNothingOutOfWhatItReducesFromItsSecondStepOn) {
  EXPECT_TRUE(check("trained-set", begun_by_hand("a")).advice.empty());
  const LawResult judged = check("trained-set", begun_by_hand("b"));
  ASSERT_EQ(judged.advice.size(), 1U);
  EXPECT_EQ(judged.advice[0].id, "A-unwrapped");
}

/// A step of a loop, to which ranks contribute `added` and in which they use `used`.
DdpJob looped(const std::array<double, 2>& added, const std::array<double, 2>& used) {
  DdpJob job(2);
  job.wrap(false);
  for (const std::int32_t rank : {0, 1}) {
    const auto i = static_cast<std::size_t>(rank);
    job.forward(rank, false);
    job.grad(rank, GradPoint::kInc, added.at(i));
    job.stream.add(rank, BackwardEvent{.reduced = false});
    job.step(rank, used.at(i));
  }
  return job;
}

TEST(SharedOutTest, ALoopIsReportedForStepsThatDifferAndNotForMissingReductions) {
  const DdpJob job = looped({1.0, 2.0}, {0.5, 1.0});
  for (const LawResult& judged :
       {check("reduced-once", job.stream), check_together("reduced-once", job.stream)}) {
    ASSERT_EQ(judged.findings.size(), 1U);
    EXPECT_EQ(judged.findings[0].message,
              "the ranks stepped with different gradients: the program's manual reduction did not "
              "make them equal");
  }
}

TEST(SharedOutTest, ALoopWhoseRanksHadTheSameGradientsBeforeHasReducedThem) {
  const DdpJob job = looped({1.0, 1.0}, {1.0, 1.0});
  EXPECT_EQ(check("reduced-once", job.stream).verdict, Verdict::kHolds);
  EXPECT_EQ(check_together("reduced-once", job.stream).verdict, Verdict::kHolds);
}

}  // namespace
}  // namespace lockstep
