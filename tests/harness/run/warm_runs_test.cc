// What one call of run_ranks leaves warm for the next: all that a small world needs, and nothing large.
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>

#include "lockstep/run.h"

#include "tests/support/count_allocations.h"

namespace lockstep {
namespace {

/// Blocks that a world of four idle ranks asks for.
std::int64_t blocks_of_call() {
  const std::int64_t before = testing::n_allocations();
  EXPECT_TRUE(run_ranks({.ranks = 4}, [](RankContext& context) {
                context.world().barrier().wait_or_throw();
              }).ok());
  return testing::n_allocations() - before;
}

std::int64_t warm_blocks() {
  blocks_of_call();
  blocks_of_call();
  return blocks_of_call();
}

/// On a thread that has run nothing yet.
std::int64_t cold_blocks() {
  std::int64_t n_blocks = 0;
  std::thread([&] { n_blocks = blocks_of_call(); }).join();
  return n_blocks;
}

TEST(WarmRunsTest, ASecondCallAsksForLessThanTheFirst) {
  const std::int64_t warm = warm_blocks();
  EXPECT_LT(warm, cold_blocks());
  EXPECT_EQ(warm, blocks_of_call());
}

/// Blocks of a call after a world of `ranks`, which changes what a simulator keeps.
std::int64_t blocks_after(std::int32_t ranks) {
  run_ranks({.ranks = ranks},
            [](RankContext& context) { context.world().barrier().wait_or_throw(); });
  return blocks_of_call();
}

TEST(WarmRunsTest, ALargeWorldGivesItsMemoryBack) {
  const std::int64_t after_small = blocks_after(64);
  EXPECT_GT(blocks_after(65), after_small);
}

TEST(WarmRunsTest, LargeTensorsGiveTheirMemoryBack) {
  const auto fill = [](std::int64_t n_floats) {
    return [n_floats](RankContext& context) {
      Tensor::full(context.runtime(), {n_floats}, DType::kF32, 1.0);
    };
  };
  const std::int64_t warm = warm_blocks();
  run_ranks({.ranks = 4}, fill(std::int64_t{1} << 20U));  // Four megabytes.
  EXPECT_LE(blocks_of_call(), warm);
  run_ranks({.ranks = 4}, fill(std::int64_t{5} << 20U));
  EXPECT_GT(blocks_of_call(), warm);
}

TEST(WarmRunsTest, AProgramThatThrowsGivesItsMemoryBack) {
  const std::int64_t warm = warm_blocks();
  EXPECT_THROW(run_ranks({.ranks = 4},
                         [](RankContext& context) {
                           if (context.rank() == 1) throw std::logic_error("the program's own");
                         }),
               std::logic_error);
  EXPECT_GT(blocks_of_call(), warm);
}

TEST(WarmRunsTest, ACallInTheMidstOfUnwindingIsKept) {
  warm_blocks();

  struct RunsAtItsEnd {
    ~RunsAtItsEnd() { blocks_of_call(); }
  };

  const std::int64_t warm = blocks_of_call();
  EXPECT_THROW(
      {
        const RunsAtItsEnd runs;
        throw std::logic_error("unwinds");
      },
      std::logic_error);
  EXPECT_EQ(blocks_of_call(), warm);
}

TEST(WarmRunsTest, ARunAfterOthersHasTheResultsOfOneAlone) {
  const auto program = [](RankContext& context) {
    Tensor values = Tensor::full(context.runtime(), {17}, DType::kF32, 0.1 * (context.rank() + 1));
    context.world().all_reduce(Memory::of(values)).wait_or_throw();
    return values.at(16);
  };
  Simulator alone;
  const auto expected = alone.run({.ranks = 3}, program);
  warm_blocks();
  const auto run = run_ranks({.ranks = 3}, program);
  EXPECT_EQ(run.results, expected.results);
  EXPECT_EQ(run.report.trace_digest, expected.report.trace_digest);
  EXPECT_EQ(run.schedule, expected.schedule);
}

}  // namespace
}  // namespace lockstep
