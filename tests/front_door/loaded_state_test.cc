// A load into a wrapped model or its optimizer is noticed where the ranks do not load the same, without a word of
// the program's.
#include <algorithm>
#include <gmock/gmock.h>

#include <gtest/gtest.h>

#include "lockstep/nn.h"
#include "lockstep/optim.h"
#include "lockstep/run.h"

#include "tests/harness/run/some_rows.h"

namespace lockstep {

namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// What a program does between its second step and its third, with what it had before the first.
struct Loop {
  RankContext& rank;
  nn::Linear& model;
  optim::Optimizer& optimizer;
  const nn::StateDict& weights;
  const optim::OptimizerState& moments;
};

Report trained_with(void (*act)(const Loop& loop)) {
  const auto run = run_ranks({.ranks = 3}, [act](RankContext& rank) {
    Generator seed(1);
    nn::Linear model(rank.runtime(), 3, 2, seed);
    DistributedDataParallel ddp(model, rank.world());
    optim::Adam optimizer(model.parameters(), {.lr = 0.1});
    nn::StateDict weights;
    optim::OptimizerState moments;
    for (std::int64_t step = 0; step < 4; ++step) {
      if (step == 1) {
        weights = model.state_dict().clone();
        moments = optimizer.state_dict().clone();
      }
      if (step == 2) act({rank, model, optimizer, weights, moments});
      optimizer.zero_grad();
      const Tensor y = testing::some_rows(rank, 2, step + 9);
      mse_loss(ddp(Variable(testing::some_rows(rank, 3, step))), y).backward();
      optimizer.step();
    }
  });
  return run.report;
}

const LawResult& law_of(const Report& report, std::string_view name) {
  return *std::ranges::find_if(report.laws, [&](const LawResult& one) { return one.law == name; });
}

std::string text_of(const Report& report) { return render_text(report, false); }

std::size_t n_advice(const Report& report) {
  std::size_t n = 0;
  for (const LawResult& law : report.laws) n += law.advice.size();
  return n;
}

}  // namespace

TEST(LoadedStateTest, ARankThatLoadsAloneIsNamedWithTheLoad) {
  const Report report = trained_with([](const Loop& loop) {
    if (loop.rank.rank() == 0) loop.model.load_state_dict(loop.weights);
  });
  EXPECT_FALSE(report.ok());
  const LawResult& law = law_of(report, "replicas-equal");
  ASSERT_FALSE(law.findings.empty()) << text_of(report);
  EXPECT_EQ(law.findings.front().step, 2) << text_of(report);
  EXPECT_THAT(law.findings.front().ranks, ElementsAre(Rank{0})) << text_of(report);
}

TEST(LoadedStateTest, RanksThatLoadDifferentValuesAreNamedWithTheLoad) {
  const Report report = trained_with([](const Loop& loop) {
    nn::StateDict state = loop.weights.clone();
    if (loop.rank.rank() == 2) {
      loop.rank.runtime().kernels().fill(state.at("bias"), 1.0);
    }
    loop.model.load_state_dict(state);
  });
  const LawResult& law = law_of(report, "init-equal");
  ASSERT_FALSE(law.findings.empty()) << text_of(report);
  EXPECT_EQ(law.findings.front().step, 2);
  EXPECT_THAT(law.findings.front().ranks, ElementsAre(Rank{2}));
}

TEST(LoadedStateTest, RanksThatLoadTheSameAreHealthy) {
  const Report report = trained_with([](const Loop& loop) {
    loop.model.load_state_dict(loop.weights);
    loop.optimizer.load_state_dict(loop.moments);
  });
  EXPECT_TRUE(report.ok()) << text_of(report);
  EXPECT_EQ(n_advice(report), 0U) << text_of(report);
}

// Rank 0 alone has the file, and sends what it loaded to the others.
TEST(LoadedStateTest, ALoadThatIsBroadcastAfterwardsIsHealthy) {
  const Report report = trained_with([](const Loop& loop) {
    if (loop.rank.rank() == 0) loop.model.load_state_dict(loop.weights);
    for (const Variable& parameter : loop.model.parameters()) {
      loop.rank.world().broadcast(Memory::of(parameter.data()), 0).wait_or_throw();
    }
  });
  EXPECT_TRUE(report.ok()) << text_of(report);
  EXPECT_EQ(n_advice(report), 0U) << text_of(report);
}

TEST(LoadedStateTest, MomentsThatOneRankLoadsAreNoticed) {
  const Report report = trained_with([](const Loop& loop) {
    if (loop.rank.rank() == 1) loop.optimizer.load_state_dict(loop.moments);
  });
  EXPECT_FALSE(report.ok());
  const LawResult& law = law_of(report, "optimizer-equal");
  ASSERT_FALSE(law.findings.empty()) << text_of(report);
  EXPECT_THAT(law.findings.front().ranks, ElementsAre(Rank{1})) << text_of(report);
  EXPECT_EQ(id_of(law.findings.front().cause), "opt-state-root-only");
}

TEST(LoadedStateTest, DifferentMomentsAreNoticedAsTheyAreLoaded) {
  const Report report = trained_with([](const Loop& loop) {
    optim::OptimizerState state = loop.moments.clone();
    if (loop.rank.rank() == 2) state.state[1].tensors[0] = state.state[2].tensors[0];
    loop.optimizer.load_state_dict(state);
  });
  const LawResult& law = law_of(report, "optimizer-equal");
  ASSERT_FALSE(law.findings.empty()) << text_of(report);
  EXPECT_THAT(law.findings.front().ranks, ElementsAre(Rank{2})) << text_of(report);
  EXPECT_EQ(law.findings.front().step, 2) << text_of(report);
  EXPECT_EQ(id_of(law.findings.front().cause), "opt-state-root-only");
}

// Rank 0 goes back alone and sends what it has; a step later all ranks go back, to something else.
TEST(LoadedStateTest, LoadsOfOneRankAndOfAllAreNotComparedWithEachOther) {
  const auto run = run_ranks({.ranks = 2}, [](RankContext& rank) {
    Generator seed(1);
    nn::Linear model(rank.runtime(), 3, 1, seed);
    DistributedDataParallel ddp(model, rank.world());
    optim::Sgd optimizer(model.parameters(), {.lr = 0.1});
    const nn::StateDict first = model.state_dict().clone();
    nn::StateDict second;
    for (std::int64_t step = 0; step < 5; ++step) {
      if (step == 1) second = model.state_dict().clone();
      if (step == 2 && rank.rank() == 0) model.load_state_dict(first);
      if (step == 2) {
        for (const Variable& parameter : model.parameters()) {
          rank.world().broadcast(Memory::of(parameter.data()), 0).wait_or_throw();
        }
      }
      if (step == 4) model.load_state_dict(second);
      optimizer.zero_grad();
      const Tensor y = testing::some_rows(rank, 1, step + 9);
      mse_loss(ddp(Variable(testing::some_rows(rank, 3, step))), y).backward();
      optimizer.step();
    }
  });
  EXPECT_TRUE(run.ok()) << text_of(run.report);
}

// What one rank loads before it wraps, the wrapper sends to all.
TEST(LoadedStateTest, ALoadBeforeTheWrapperNeedsNoOtherRank) {
  const auto run = run_ranks({.ranks = 2}, [](RankContext& rank) {
    Generator seed(1);
    nn::Linear from(rank.runtime(), 3, 1, seed);
    nn::Linear model(rank.runtime(), 3, 1);
    if (rank.rank() == 0) model.load_state_dict(from.state_dict());
    DistributedDataParallel ddp(model, rank.world());
    optim::Sgd optimizer(model.parameters(), {.lr = 0.1});
    const Tensor y = testing::some_rows(rank, 1, 9);
    mse_loss(ddp(Variable(testing::some_rows(rank, 3, 0))), y).backward();
    optimizer.step();
  });
  EXPECT_TRUE(run.ok()) << text_of(run.report);
  EXPECT_THAT(law_of(run.report, "init-equal").findings, IsEmpty());
}

}  // namespace lockstep
