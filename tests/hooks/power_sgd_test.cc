// PowerSGD where its arithmetic is exact, its collectives, its counters and its refusals.
#include <cmath>
#include <gmock/gmock.h>

#include <gtest/gtest.h>

#include "lockstep/hooks/compress_hooks.h"
#include "lockstep/hooks/power_sgd_hook.h"

#include "tests/hooks/replica_runs.h"

namespace lockstep {
namespace {

using testing::collectives_of;
using testing::make_bucket;
using testing::MiniRank;
using testing::MiniResult;
using testing::run_and_wait;
using testing::run_mini_world;
using testing::run_to_the_end;
using testing::values_of;
using Texts = std::vector<std::string>;
using Values = std::vector<double>;

constexpr PowerSgdOptions kAtOnce{
    .start_iter = 0, .min_compression_rate = 1.0, .error_feedback = false, .warm_start = false};

GradBucket matrix_bucket(Runtime& runtime, const Shape& shape, const Values& values) {
  GradBucket bucket = make_bucket(runtime, std::vector<Shape>{shape});
  runtime.kernels().copy(bucket.gradients()[0], Tensor::of(runtime, shape, DType::kF32, values));
  return bucket;
}

// A matrix with one row that is not zero has rank 1, and P is that row's unit vector exactly.
TEST(PowerSgdTest, AMatrixWithOneRowArrivesExactly) {
  const Values local = {0, 0, 0, 0, 3, -8, 5, 2, 0, 0, 0, 0};
  Values mean = local;
  for (double& value : mean) value *= 1.5;

  run_to_the_end(2, [&](MiniRank& rank) {
    PowerSgdHook hook(rank.group, kAtOnce);
    Values mine = local;
    for (double& value : mine) value *= rank.rank + 1;

    EXPECT_EQ(values_of(run_and_wait(hook, matrix_bucket(rank.runtime, {3, 4}, mine))), mean);
  });
}

// With Q along the first column and that column along the first row, the first row is sent exactly
// and the others are kept exactly.
TEST(PowerSgdTest, WhatIsSentAndWhatIsKeptAddUpToTheGradientExactly) {
  run_to_the_end(1, [](MiniRank& rank) {
    PowerSgdHook hook(rank.group, {.start_iter = 2, .min_compression_rate = 1.0});
    PowerSgdState state;
    state.iteration = 2;
    state.ps[0] = Tensor::zeros(rank.runtime, {3}, DType::kF32);
    state.qs[0] = Tensor::of(rank.runtime, {4}, DType::kF32, Values{1, 0, 0, 0});
    hook.set_state(state);
    const Values gradient = {4, 7, -3, 1, 0, 5, 2, -6, 0, 9, 8, 1};

    const Tensor sent = run_and_wait(hook, matrix_bucket(rank.runtime, {3, 4}, gradient));
    const Tensor& kept = hook.state().errors.at(0);

    EXPECT_EQ(values_of(sent), (Values{4, 7, -3, 1, 0, 0, 0, 0, 0, 0, 0, 0}));
    EXPECT_EQ(values_of(kept), (Values{0, 0, 0, 0, 0, 5, 2, -6, 0, 9, 8, 1}));
  });
}

TEST(PowerSgdTest, WhatWasKeptIsAddedToTheNextGradient) {
  run_to_the_end(1, [](MiniRank& rank) {
    PowerSgdHook hook(rank.group, {.start_iter = 2, .min_compression_rate = 1.0});
    PowerSgdState state;
    state.iteration = 2;
    state.errors[0] = Tensor::of(rank.runtime, {9}, DType::kF32, Values(9, 1.0));
    hook.set_state(state);

    // Zeros plus ones: the mean of rank 1 is a constant, which rounding barely moves.
    const Tensor sent = run_and_wait(hook, matrix_bucket(rank.runtime, {3, 3}, Values(9, 0.0)));
    for (const double value : values_of(sent)) EXPECT_NEAR(value, 1.0, 16 * 0x1p-24);
  });
}

TEST(PowerSgdTest, ThreeAllReducesInOrderTheFirstEvenWhenEmpty) {
  const MiniResult run = run_mini_world({.n_ranks = 2}, [](MiniRank& rank) {
    PowerSgdOptions options = kAtOnce;
    options.orthogonalization_epsilon = 1.0;
    PowerSgdHook hook(rank.group, options);
    static_cast<void>(run_and_wait(hook, make_bucket(rank.runtime, std::vector<Shape>{{8, 4}})));
    static_cast<void>(
        run_and_wait(hook, make_bucket(rank.runtime, std::vector<Shape>{{5}, {8, 4}, {2, 2, 5}})));
  });

  ASSERT_TRUE(run.ok()) << run.error(0);
  EXPECT_EQ(
      collectives_of(*run.trace, 0),
      (Texts{"AR f32[0]", "AR f32[8]", "AR f32[4]", "AR f32[5]", "AR f32[10]", "AR f32[14]"}));
}

TEST(PowerSgdTest, CountsIterationsByLastBucketsAndElementsBeforeAndAfter) {
  run_to_the_end(1, [](MiniRank& rank) {
    PowerSgdHook hook(rank.group, {.start_iter = 2, .orthogonalization_epsilon = 1.0});
    for (int step = 0; step < 3; ++step) {
      static_cast<void>(run_and_wait(
          hook, make_bucket(rank.runtime, std::vector<Shape>{{3}}, DType::kF32, 0, false)));
      static_cast<void>(run_and_wait(
          hook, make_bucket(rank.runtime, std::vector<Shape>{{10, 10}}, DType::kF32, 1, true)));
    }

    EXPECT_EQ(hook.state().iteration, 3);
    EXPECT_EQ(hook.state().n_elems_before, 103);
    EXPECT_EQ(hook.state().n_elems_after, 23);
  });
}

TEST(PowerSgdTest, ZerosBecomeNanUnlessEpsilonIsPositive) {
  run_to_the_end(1, [](MiniRank& rank) {
    PowerSgdHook bare(rank.group, kAtOnce);
    PowerSgdOptions options = kAtOnce;
    options.orthogonalization_epsilon = 1e-8;
    PowerSgdHook guarded(rank.group, options);
    const auto zeros = [&] { return make_bucket(rank.runtime, std::vector<Shape>{{3, 4}}); };

    EXPECT_TRUE(std::isnan(run_and_wait(bare, zeros()).at(0)));
    EXPECT_EQ(run_and_wait(guarded, zeros()).at(0), 0.0);
  });
}

TEST(PowerSgdTest, AnotherSeedOnOneRankChangesTheApproximationButNotTheReplicas) {
  std::vector<testing::Bytes> results(2);
  const auto run = [&](std::uint32_t seed_of_rank_1) {
    run_to_the_end(2, [&](MiniRank& rank) {
      PowerSgdOptions options = kAtOnce;
      options.seed = rank.rank == 0 ? 0 : seed_of_rank_1;
      PowerSgdHook hook(rank.group, options);
      GradBucket bucket = make_bucket(rank.runtime, std::vector<Shape>{{6, 6}});
      testing::fill_normal(bucket.buffer(), static_cast<std::uint64_t>(rank.rank));
      results[static_cast<std::size_t>(rank.rank)] = testing::bytes_of(run_and_wait(hook, bucket));
    });
    EXPECT_EQ(results[0], results[1]);
    return results[0];
  };

  EXPECT_NE(run(0), run(7));
}

TEST(PowerSgdTest, ARankThatLostItsStateIsAMismatch) {
  const MiniResult run = run_mini_world({.n_ranks = 2}, [](MiniRank& rank) {
    PowerSgdHook hook(rank.group, {.start_iter = 2});
    if (rank.rank == 0) {
      PowerSgdState state;
      state.iteration = 2;
      hook.set_state(state);
    }
    static_cast<void>(run_and_wait(hook, make_bucket(rank.runtime, std::vector<Shape>{{9, 9}})));
  });

  EXPECT_THAT(run.error(1), ::testing::HasSubstr("mismatch"));
}

TEST(PowerSgdTest, RefusesWhatPytorchRefuses) {
  const MiniResult run = run_mini_world({.n_ranks = 1}, [](MiniRank& rank) {
    EXPECT_THROW(PowerSgdHook(rank.group, {.start_iter = 1}), ContractViolation);
    EXPECT_THROW(PowerSgdHook(rank.group, {.start_iter = 1, .error_feedback = false}),
                 ContractViolation);
    EXPECT_NO_THROW(
        PowerSgdHook(rank.group, {.start_iter = 0, .error_feedback = false, .warm_start = false}));
    CompressWrapper hook(std::make_unique<PowerSgdHook>(rank.group, kAtOnce), DType::kF16);
    static_cast<void>(run_and_wait(hook, make_bucket(rank.runtime, std::vector<Shape>{{3, 4}})));
  });

  EXPECT_THAT(run.error(0), ::testing::HasSubstr("no 16-bit products"));
}

}  // namespace
}  // namespace lockstep
