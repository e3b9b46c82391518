// What a rank loads into a wrapped model must be what the others load: note_loaded() says when to look.
#include <algorithm>

#include <gtest/gtest.h>

#include "lockstep/random/generator.h"
#include "lockstep/run.h"

#include "tests/harness/run/some_rows.h"

namespace lockstep::testing {

namespace {

/// Trains a step, writes `loaded` of the rank into the model, says so, and trains another.
Report trained_after(double (*loaded)(std::int32_t rank)) {
  const auto run = run_ranks({.ranks = 3}, [loaded](RankContext& context) {
    nn::Sequential model(context.runtime());
    Generator generator(1);
    model.append<nn::Linear>(3, 2, generator);
    DistributedDataParallel ddp(model, context.world());
    optim::Sgd optimizer(model.parameters(), {.lr = 0.1});
    const auto step = [&](std::int64_t number) {
      optimizer.zero_grad();
      mse_loss(ddp(Variable(some_rows(context, 3, number))), some_rows(context, 2, number + 9))
          .backward();
      optimizer.step();
    };
    step(0);
    for (const Variable& parameter : optimizer.parameters()) {
      context.runtime().kernels().fill(parameter.data(), loaded(context.rank()));
    }
    ddp.note_loaded();
    step(1);
  });
  return run.report;
}

}  // namespace

TEST(NoteLoadedTest, RanksThatLoadTheSameAreHealthy) {
  const Report report = trained_after([](std::int32_t) { return 0.5; });
  EXPECT_TRUE(report.ok()) << render_text(report, false);
}

TEST(NoteLoadedTest, ARankThatLoadsSomethingElseIsNamedWithTheLoad) {
  const Report report = trained_after([](std::int32_t rank) { return rank == 1 ? 0.25 : 0.5; });
  const auto law = std::find_if(report.laws.begin(), report.laws.end(), [](const LawResult& one) {
    return one.law == "init-equal";
  });
  ASSERT_NE(law, report.laws.end());
  ASSERT_FALSE(law->findings.empty()) << render_text(report, false);
  const Finding& first = law->findings.front();
  EXPECT_EQ(id_of(first.cause), "load-rank0-only");
  EXPECT_EQ(first.ranks, (std::vector<Rank>{Rank{1}}));
  EXPECT_EQ(first.step, 1);
}

}  // namespace lockstep::testing
