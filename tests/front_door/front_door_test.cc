// A program that includes the headers of include/lockstep alone: the lines that their comments
// show.
#include <lockstep/comm.h>
#include <lockstep/data.h>
#include <lockstep/ddp.h>
#include <lockstep/explore.h>
#include <lockstep/lockstep.h>
#include <lockstep/nn.h>
#include <lockstep/optim.h>
#include <lockstep/rapidcheck.h>
#include <lockstep/report.h>
#include <lockstep/scenario.h>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(FrontDoorTest, GradientsAreAveragedOverTheRanks) {
  const auto run = run_ranks({.ranks = 4}, [](RankContext& rank) {
    Generator seed(static_cast<std::uint64_t>(rank.rank()));
    nn::Linear model(rank.runtime(), 16, 1, seed);
    DistributedDataParallel ddp(model, rank.world(), {.bucket_cap_mb = 1.0});
    optim::Sgd optimizer(model.parameters(), {.lr = 0.1});
    const Variable rows = Variable(Tensor::full(rank.runtime(), {2, 16}, DType::kF32, 1.0));
    const Tensor targets = Tensor::full(rank.runtime(), {2, 1}, DType::kF32, 1.0);
    optimizer.zero_grad();
    mse_loss(ddp(rows), targets).backward();
    optimizer.step();
    return model.weight().data().at(0);
  });

  EXPECT_TRUE(run.ok()) << render_text(run.report, /*color=*/false);
  EXPECT_EQ(run.results[0], run.results[3]);
}

TEST(FrontDoorTest, RanksAddUpATensor) {
  const auto run = run_ranks({.ranks = 3}, [](RankContext& rank) {
    const Tensor sum = Tensor::full(rank.runtime(), {4}, DType::kF32, 1.0);
    const CommStatus status = rank.world().all_reduce(Memory::of(sum)).wait();
    return status == CommStatus::kOk ? sum.at(0) : -1.0;
  });

  EXPECT_EQ(run.results[2], 3.0);
}

TEST(FrontDoorTest, RanksShareTheSamplesOfAnEpoch) {
  const auto run = run_ranks({.ranks = 8}, [](RankContext& rank) {
    data::DistributedSampler sampler(rank, {.size = 100});
    sampler.set_epoch(1);
    std::vector<std::int64_t> my_samples;
    sampler.indices(my_samples);
    return my_samples.size();
  });

  EXPECT_TRUE(run.ok()) << render_text(run.report, /*color=*/false);
  EXPECT_EQ(run.results[3], 13U);
}

TEST(FrontDoorTest, AKilledRankIsInTheReport) {
  RunOptions options{.ranks = 2};
  options.faults = {
      {.kind = sim::FaultKind::kSigkill, .rank = 1, .step = 0, .at = EventKind::kStep}};
  const auto run = run_ranks(options, [](RankContext& rank) {
    Generator seed(0);
    nn::Linear model(rank.runtime(), 2, 1, seed);
    DistributedDataParallel ddp(model, rank.world());
    optim::Sgd optimizer(model.parameters(), {.lr = 0.1});
    for (int step = 0; step < 2; ++step) {
      optimizer.zero_grad();
      sum(ddp(Variable(Tensor::full(rank.runtime(), {1, 2}, DType::kF32, 1.0)))).backward();
      optimizer.step();
    }
  });

  EXPECT_FALSE(run.ok());
}

}  // namespace
}  // namespace lockstep
