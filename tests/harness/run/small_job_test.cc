// What whole jobs of a few ranks and steps ask of the system: a program that runs thousands of them
// spends more time there than in their arithmetic.
#include <gtest/gtest.h>

#include "lockstep/random/generator.h"
#include "lockstep/run.h"

#include "tests/support/count_allocations.h"

namespace lockstep {
namespace {

constexpr std::int32_t kRanks = 4;

void append_layers(nn::Sequential& model) {
  Generator generator(1);
  model.append<nn::Linear>(16, 16, generator);
  model.append<nn::ReLU>();
  model.append<nn::Linear>(16, 1, generator);
}

void train(RankContext& context, int n_steps) {
  Runtime& runtime = context.runtime();
  nn::Sequential model(runtime);
  append_layers(model);
  DistributedDataParallel ddp(model, context.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.01});
  const Variable x(Tensor::full(runtime, {8, 16}, DType::kF32, 0.25 + context.rank()));
  const Tensor target = Tensor::full(runtime, {8, 1}, DType::kF32, 1.0);
  for (int step = 0; step < n_steps; ++step) {
    optimizer.zero_grad();
    mse_loss(ddp(x), target).backward();
    optimizer.step();
  }
}

/// Blocks that one run of `body` on four ranks asks for, laws and report included.
template <typename Body>
std::int64_t blocks_of(Simulator& simulator, bool record, Body body) {
  const std::int64_t before = testing::n_allocations();
  const auto run = simulator.run({.ranks = kRanks, .record = record}, body);
  const std::int64_t n_blocks = testing::n_allocations() - before;
  EXPECT_TRUE(run.ok()) << run;
  return n_blocks;
}

class SmallJobTest : public ::testing::Test {
 protected:
  std::int64_t blocks(int n_steps, bool record) {
    return blocks_of(simulator_, record, [&](RankContext& context) { train(context, n_steps); });
  }

  /// The same for the third of three equal jobs.
  std::int64_t warm_blocks(int n_steps, bool record) {
    blocks(n_steps, record);
    blocks(n_steps, record);
    return blocks(n_steps, record);
  }

  /// What the program's own model takes, and a world without events.
  std::int64_t warm_blocks_of_model() {
    const auto body = [](RankContext& context) {
      nn::Sequential model(context.runtime());
      append_layers(model);
    };
    blocks_of(simulator_, false, body);
    return blocks_of(simulator_, false, body);
  }

  Simulator simulator_;
};

TEST_F(SmallJobTest, StepsOfAJobThatRecordsNothingAskTheSystemForNothing) {
  EXPECT_EQ(warm_blocks(20, false), warm_blocks(10, false));
}

TEST_F(SmallJobTest, WrappersAndOptimizersOfASecondJobFindMostOfTheirMemoryWarm) {
  constexpr std::int64_t kMostPerRank = 40;
  EXPECT_LE(warm_blocks(3, false) - warm_blocks_of_model(), kMostPerRank * kRanks);
}

TEST_F(SmallJobTest, AWholeCheckedJobStaysWithinItsBlocks) { EXPECT_LE(warm_blocks(3, true), 900); }

// The negative twin: what is not warm shows in the count.
TEST_F(SmallJobTest, AFirstJobAsksForMoreThanTheThird) {
  const std::int64_t first = blocks(3, true);
  EXPECT_GT(first, blocks(3, true));
}

}  // namespace
}  // namespace lockstep
