// Is the gradient of every step the mean over all tokens of its window, on all ranks and in all
// micro-steps? Two loops over sequences of different lengths: one averages means, one averages
// tokens.
#include <cstdint>
#include <lockstep/certify.h>
#include <lockstep/lockstep.h>
#include <span>
#include <vector>

#include <gtest/gtest.h>

namespace {

using lockstep::Certificate;
using lockstep::Deviation;
using lockstep::Objective;
using lockstep::Probe;
using lockstep::RankContext;

constexpr int kMicroSteps = 2;

/// Tokens of the two sequences that a rank reads in a micro-step.
std::vector<std::int64_t> lengths(const RankContext& rank, int micro) {
  return {1 + rank.rank(), 3 + 5 * micro};
}

void mean_of_means(RankContext& rank, Probe& probe) {
  lockstep::DistributedDataParallel ddp(probe.model(), rank.world());
  lockstep::optim::Sgd optimizer(probe.model().parameters(), {.lr = 0.1});
  for (int micro = 0; micro < kMicroSteps; ++micro) {
    const auto batch = probe.sequences(lengths(rank, micro));
    const auto loss = lockstep::mse_loss(ddp(batch.x), batch.y);  // mean over this batch's tokens
    lockstep::scale(loss, 1.0 / kMicroSteps).backward();
  }
  optimizer.step();
}

void mean_of_tokens(RankContext& rank, Probe& probe) {
  lockstep::DistributedDataParallel ddp(probe.model(), rank.world());
  lockstep::optim::Sgd optimizer(probe.model().parameters(), {.lr = 0.1});
  double n_tokens = 0;  // of the window, on all ranks
  for (int micro = 0; micro < kMicroSteps; ++micro) {
    for (const std::int64_t length : lengths(rank, micro)) n_tokens += static_cast<double>(length);
  }
  rank.world().all_reduce(lockstep::Memory::of(std::span(&n_tokens, 1))).wait_or_throw();
  for (int micro = 0; micro < kMicroSteps; ++micro) {
    const auto batch = probe.sequences(lengths(rank, micro));
    // DDP divides by the ranks; the loss is multiplied by them first.
    lockstep::mse_loss(ddp(batch.x), batch.y, n_tokens / rank.world_size()).backward();
  }
  optimizer.step();
}

TEST(AveragingTest, TellsAMeanOfMeansFromAMeanOfTokens) {
  const auto objective = Objective::token_mean();
  const Certificate means = lockstep::certify({.ranks = 2, .objective = objective}, mean_of_means);
  EXPECT_EQ(means.fault().deviation, Deviation::kMeanOfBatches) << means;

  const Certificate tokens =
      lockstep::certify({.ranks = 2, .objective = objective}, mean_of_tokens);
  EXPECT_TRUE(tokens.certified()) << tokens;
}

}  // namespace
