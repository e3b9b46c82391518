// Healthy programs that are often reported as bugs: no law may say a word about them.
#include <gtest/gtest.h>

#include "lockstep/nn/batch_norm.h"
#include "lockstep/random/generator.h"
#include "lockstep/run.h"

#include "tests/harness/run/some_rows.h"

namespace lockstep::testing {

namespace {

std::unique_ptr<nn::Sequential> small_mlp(RankContext& context, std::uint64_t seed) {
  auto model = std::make_unique<nn::Sequential>(context.runtime());
  Generator generator(seed);
  model->append<nn::Linear>(3, 5, generator);
  model->append<nn::ReLU>();
  model->append<nn::Linear>(5, 2, generator);
  return model;
}

void expect_quiet(const Report& report) {
  EXPECT_TRUE(report.ok()) << render_text(report, false);
  for (const LawResult& law : report.laws) EXPECT_TRUE(law.findings.empty()) << law.law;
}

}  // namespace

TEST(HealthyTest, OneSeedPerRankBeforeWrappingIsQuiet) {
  const auto run = run_ranks({.ranks = 3}, [](RankContext& context) {
    const auto model = small_mlp(context, 100 + static_cast<std::uint64_t>(context.rank()));
    DistributedDataParallel ddp(*model, context.world());
    optim::Sgd optimizer(model->parameters(), {.lr = 0.1, .momentum = 0.9});
    for (std::int64_t step = 0; step < 4; ++step) {
      optimizer.zero_grad();
      mse_loss(ddp(Variable(some_rows(context, 3, step))), some_rows(context, 2, step + 50))
          .backward();
      optimizer.step();
    }
  });

  expect_quiet(run.report);
}

TEST(HealthyTest, LocalBatchNormInTrainingIsQuiet) {
  const auto run = run_ranks({.ranks = 2}, [](RankContext& context) {
    nn::Sequential model(context.runtime());
    Generator generator(1);
    model.append<nn::Linear>(3, 4, generator);
    model.append<nn::BatchNorm1d>(4);
    model.append<nn::Linear>(4, 2, generator);
    DistributedDataParallel ddp(model, context.world(), {.broadcast_buffers = false});
    optim::Sgd optimizer(model.parameters(), {.lr = 0.1});
    for (std::int64_t step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      mse_loss(ddp(Variable(some_rows(context, 3, step))), some_rows(context, 2, step + 9))
          .backward();
      optimizer.step();
    }
  });

  expect_quiet(run.report);
}

class AccumulationTest : public ::testing::TestWithParam<bool> {};

TEST_P(AccumulationTest, AccumulationIsQuietWithAndWithoutNoSync) {
  const bool no_sync = GetParam();
  const auto run = run_ranks({.ranks = 4}, [no_sync](RankContext& context) {
    const auto model = small_mlp(context, 3);
    DistributedDataParallel ddp(*model, context.world());
    optim::Sgd optimizer(model->parameters(), {.lr = 0.05});
    for (std::int64_t step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      for (std::int64_t micro = 0; micro < 3; ++micro) {
        std::optional<NoSync> guard;
        if (no_sync && micro < 2) guard.emplace(ddp);
        const Variable x(some_rows(context, 3, step * 3 + micro));
        mse_loss(ddp(x), some_rows(context, 2, step)).backward();
      }
      optimizer.step();
    }
  });

  expect_quiet(run.report);
}

INSTANTIATE_TEST_SUITE_P(NoSync, AccumulationTest, ::testing::Bool());

// The generator's step sends gradients through the discriminator, whose reducer averages them too;
// they are thrown away before the discriminator's own step.
TEST(HealthyTest, AGanWithTwoWrappedModelsIsQuiet) {
  const auto run = run_ranks({.ranks = 2}, [](RankContext& context) {
    Generator seed(11);
    nn::Sequential generator(context.runtime());
    generator.append<nn::Linear>(2, 3, seed);
    nn::Sequential discriminator(context.runtime());
    discriminator.append<nn::Linear>(3, 4, seed);
    discriminator.append<nn::Tanh>();
    discriminator.append<nn::Linear>(4, 1, seed);
    DistributedDataParallel g(generator, context.world());
    DistributedDataParallel d(discriminator, context.world());
    optim::Sgd step_g(generator.parameters(), {.lr = 0.1});
    optim::Sgd step_d(discriminator.parameters(), {.lr = 0.1});
    const Tensor real_label = Tensor::full(context.runtime(), {4, 1}, DType::kF32, 1.0);
    const Tensor fake_label = Tensor::zeros(context.runtime(), {4, 1}, DType::kF32);
    for (std::int64_t step = 0; step < 3; ++step) {
      const Variable noise(some_rows(context, 2, step));
      step_d.zero_grad();
      const Variable fake = g(noise);
      const Variable real(some_rows(context, 3, step + 20));
      add(mse_loss(d(real), real_label), mse_loss(d(fake.detach()), fake_label)).backward();
      step_d.step();

      step_g.zero_grad();
      mse_loss(d(fake), real_label).backward();
      step_g.step();
    }
  });

  expect_quiet(run.report);
}

TEST(HealthyTest, OneBroadcastCalledFromTwoLinesIsQuiet) {
  const auto run = run_ranks({.ranks = 2}, [](RankContext& context) {
    std::vector<float> data(3, static_cast<float>(context.rank()));
    const Memory memory = Memory::of(std::span(data));
    // The two calls differ in nothing but their line: that is the point.
    if (context.rank() == 0) {  // NOLINT(bugprone-branch-clone)
      context.world().broadcast(memory, 0).wait_or_throw();
    } else {
      context.world().broadcast(memory, 0).wait_or_throw();
    }
    return data[0];
  });

  expect_quiet(run.report);
  EXPECT_EQ(run.results[1], 0.0F);
}

// The negative twin of this file: the same loop with one line missing is noticed.
TEST(HealthyTest, ALoopThroughTheInnerModelIsReported) {
  const auto run = run_ranks({.ranks = 2}, [](RankContext& context) {
    const auto model = small_mlp(context, 3);
    DistributedDataParallel ddp(*model, context.world());
    optim::Sgd optimizer(model->parameters(), {.lr = 0.1});
    for (std::int64_t step = 0; step < 2; ++step) {
      optimizer.zero_grad();
      mse_loss(ddp.module()(Variable(some_rows(context, 3, step))), some_rows(context, 2, 5))
          .backward();
      optimizer.step();
    }
  });

  EXPECT_EQ(name_of(run.report.outcome), "findings");
  EXPECT_GE(run.report.n_findings(), 1U) << render_text(run.report, false);
}

}  // namespace lockstep::testing
