// The sharded optimizer against the undivided one, its calls, its state, its groups.
#include "lockstep/parallel/zero.h"

#include <gtest/gtest.h>

#include "lockstep/optim/adam.h"
#include "lockstep/optim/sgd.h"

#include "tests/ddp/tiny_model.h"
#include "tests/support/mini_world.h"

namespace lockstep {
namespace {

using optim::ParamGroup;
using testing::collectives_of;
using testing::data_of;
using testing::MiniRank;
using testing::MiniResult;
using testing::run_mini_world;
using testing::TinyModel;
using Texts = std::vector<std::string>;
using Values = std::vector<double>;
using Make = ZeroRedundancyOptimizer::Make;

const Make kSgd = [](std::vector<ParamGroup> groups) -> std::unique_ptr<optim::Optimizer> {
  return std::make_unique<optim::Sgd>(std::move(groups),
                                      optim::SgdOptions{.lr = 0.1, .momentum = 0.9});
};
const Make kAdam = [](std::vector<ParamGroup> groups) -> std::unique_ptr<optim::Optimizer> {
  return std::make_unique<optim::Adam>(std::move(groups), optim::AdamOptions{.lr = 0.01});
};
const Make kAdamW = [](std::vector<ParamGroup> groups) -> std::unique_ptr<optim::Optimizer> {
  return std::make_unique<optim::AdamW>(std::move(groups), optim::AdamWOptions{});
};

/// Parameters of 1, 2, 3, ... elements.
std::vector<Variable> parameters_of(Runtime& runtime, std::size_t n) {
  TinyModel model(runtime);
  for (std::size_t i = 0; i < n; ++i) {
    model.parameter("p", Values(i + 1, 0.3 * static_cast<double>(i + 1)));
  }
  std::vector<Variable> variables;
  for (const NamedVariable& p : model.parameters) variables.push_back(p.variable);
  return variables;
}

void set_gradients(const std::vector<Variable>& parameters, int step) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Variable& p = parameters[i];
    const double value = 0.1 * static_cast<double>((step * 7 + static_cast<int>(i) * 3) % 11 - 5);
    p.set_grad(Tensor::full(p.runtime(), p.shape(), DType::kF32, value));
  }
}

std::vector<Values> values_of(const std::vector<Variable>& parameters) {
  std::vector<Values> all;
  for (const Variable& p : parameters) all.push_back(data_of(p));
  return all;
}

std::vector<Values> undivided(const Make& make, std::size_t n, int n_steps) {
  testing::TestRuntime test;
  const std::vector<Variable> parameters = parameters_of(test.runtime, n);
  std::vector<ParamGroup> groups(1);
  groups.front().parameters = parameters;
  const std::unique_ptr<optim::Optimizer> optimizer = make(std::move(groups));
  for (int step = 0; step < n_steps; ++step) {
    set_gradients(parameters, step);
    optimizer->step();
  }
  return values_of(parameters);
}

TEST(ZeroTest, EqualsTheUndividedOptimizerBitForBit) {
  for (const Make& make : {kSgd, kAdam, kAdamW}) {
    const std::vector<Values> expected = undivided(make, 5, 4);
    for (const std::int32_t n_ranks : {1, 2, 3, 7}) {
      for (const bool view : {false, true}) {
        const MiniResult result = run_mini_world({.n_ranks = n_ranks}, [&](MiniRank& rank) {
          const std::vector<Variable> parameters = parameters_of(rank.runtime, 5);
          ZeroRedundancyOptimizer zero(
              parameters, make, rank.group, {.parameters_as_bucket_view = view});
          for (int step = 0; step < 4; ++step) {
            set_gradients(parameters, step);
            zero.step();
          }
          EXPECT_EQ(values_of(parameters), expected) << n_ranks << " " << view;
        });
        EXPECT_TRUE(result.ok()) << result.error(0);
      }
    }
  }
}

// The twin: gradients that differ between ranks leave every rank with its owner's result.
TEST(ZeroTest, UnequalGradientsAreNoticed) {
  const std::vector<Values> expected = undivided(kSgd, 3, 1);
  std::vector<std::vector<Values>> got(2);
  run_mini_world({}, [&](MiniRank& rank) {
    const std::vector<Variable> parameters = parameters_of(rank.runtime, 3);
    ZeroRedundancyOptimizer zero(parameters, kSgd, rank.group);
    set_gradients(parameters, rank.rank);
    zero.step();
    got[static_cast<std::size_t>(rank.rank)] = values_of(parameters);
  });
  EXPECT_EQ(got[0], got[1]);
  EXPECT_NE(got[0], expected);
}

TEST(ZeroTest, BroadcastsShareByShareOrBucketByBucket) {
  const auto calls = [](bool view, std::size_t n) {
    const MiniResult result = run_mini_world({.n_ranks = 3}, [&](MiniRank& rank) {
      const std::vector<Variable> parameters = parameters_of(rank.runtime, n);
      ZeroRedundancyOptimizer zero(
          parameters, kSgd, rank.group, {.parameters_as_bucket_view = view});
      set_gradients(parameters, 0);
      zero.step();
    });
    EXPECT_TRUE(result.ok()) << result.error(0);
    EXPECT_EQ(collectives_of(*result.trace, 0), collectives_of(*result.trace, 2));
    return collectives_of(*result.trace, 0);
  };
  // 4 to rank 0, 3 to rank 1, 2 to rank 2, then 1 to rank 2, which holds the fewest.
  EXPECT_EQ(calls(false, 4), Texts({"B f32[4]", "B f32[3]", "B f32[2]", "B f32[1]"}));
  EXPECT_EQ(calls(true, 4), Texts({"B f32[4]", "B f32[3]", "B f32[3]"}));
  EXPECT_EQ(calls(true, 2), Texts({"B f32[2]", "B f32[1]", "B f32[1]"})) << "one zero of no rank";
  EXPECT_EQ(calls(false, 2), Texts({"B f32[2]", "B f32[1]"}));
}

TEST(ZeroTest, AnAddedGroupIsDealtOutAndTrained) {
  std::vector<std::vector<Values>> got(2);
  const MiniResult result = run_mini_world({}, [&](MiniRank& rank) {
    const std::vector<Variable> parameters = parameters_of(rank.runtime, 4);
    const auto first = parameters.begin();
    ZeroRedundancyOptimizer zero(std::vector<Variable>{first, first + 2},
                                 kSgd,
                                 rank.group,
                                 {.parameters_as_bucket_view = true});
    ParamGroup late;
    late.parameters = {first + 2, first + 4};
    late.lr = 0.5;
    zero.add_param_group(std::move(late));
    EXPECT_EQ(zero.partition()[0], (std::vector<std::vector<std::size_t>>{{1}, {2}}));
    EXPECT_EQ(zero.partition()[1], (std::vector<std::vector<std::size_t>>{{0}, {3}}));
    for (int step = 0; step < 2; ++step) {
      set_gradients(parameters, step);
      zero.step();
    }
    got[static_cast<std::size_t>(rank.rank)] = values_of(parameters);
  });
  ASSERT_TRUE(result.ok()) << result.error(0);

  testing::TestRuntime test;
  const std::vector<Variable> parameters = parameters_of(test.runtime, 4);
  std::vector<ParamGroup> groups(2);
  groups[0].parameters = {parameters.begin(), parameters.begin() + 2};
  groups[1].parameters = {parameters.begin() + 2, parameters.end()};
  groups[1].lr = 0.5;
  const std::unique_ptr<optim::Optimizer> whole = kSgd(std::move(groups));
  for (int step = 0; step < 2; ++step) {
    set_gradients(parameters, step);
    whole->step();
  }
  EXPECT_EQ(got[0], values_of(parameters));
  EXPECT_EQ(got[1], values_of(parameters));
}

TEST(ZeroTest, AConsolidatedStateResumesTheRun) {
  const std::vector<Values> expected = undivided(kAdam, 4, 3);
  const MiniResult result = run_mini_world({.n_ranks = 2}, [&](MiniRank& rank) {
    const std::vector<Variable> parameters = parameters_of(rank.runtime, 4);
    optim::OptimizerState saved;
    {
      ZeroRedundancyOptimizer zero(parameters, kAdam, rank.group);
      for (int step = 0; step < 2; ++step) {
        set_gradients(parameters, step);
        zero.step();
      }
      for (const std::int32_t to : {0, 1}) {
        zero.consolidate_state_dict(to);
        if (rank.rank == to) saved = zero.state_dict();
      }
    }
    ZeroRedundancyOptimizer resumed(parameters, kAdam, rank.group);
    resumed.set_lr(0.5);  // The rate is loaded, too.
    resumed.load_state_dict(saved);
    set_gradients(parameters, 2);
    resumed.step();
    EXPECT_EQ(values_of(parameters), expected);
  });
  EXPECT_TRUE(result.ok()) << result.error(0) << result.error(1);
}

// What PyTorch does too: the shadowed step is a step, which announces itself.
TEST(ZeroTest, AsTheFirstJoinableItBreaksTheContext) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    const std::vector<Variable> parameters = parameters_of(rank.runtime, 2);
    ZeroRedundancyOptimizer zero(parameters, kSgd, rank.group);
    Join context({&zero});
    context.run([&] {
      for (int step = 0; step <= rank.rank; ++step) {
        set_gradients(parameters, step);
        zero.step();
      }
    });
  });
  EXPECT_FALSE(result.ok());
}

}  // namespace
}  // namespace lockstep
