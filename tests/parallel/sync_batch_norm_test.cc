// Synchronised batch norm against batch norm over the concatenated batch.
#include "lockstep/parallel/sync_batch_norm.h"

#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "tests/support/mini_world.h"

namespace lockstep {
namespace {

using testing::collectives_of;
using testing::MiniRank;
using testing::MiniResult;
using testing::run_mini_world;
using testing::values_of;
using Rows = std::vector<std::vector<double>>;
using Values = std::vector<double>;

Tensor tensor_of(Runtime& runtime, const Rows& rows, std::int64_t width, DType dtype) {
  Values flat;
  for (const Values& row : rows) flat.insert(flat.end(), row.begin(), row.end());
  return Tensor::of(runtime, {static_cast<std::int64_t>(rows.size()), width}, dtype, flat);
}

/// What a layer made of x and the gradient dy.
struct Outcome {
  Values out;
  Values grad_x;
  Values grad_weight;
  Values grad_bias;
  Values running_mean;
  Values running_var;
  double n_batches = 0.0;
};

Values grad_or_nothing(const Variable& variable) {
  return variable.grad().defined() ? values_of(variable.grad()) : Values();
}

Outcome run_layer(nn::Module& layer, const Tensor& x, const Tensor& dy) {
  const Variable input(x, true);
  const Variable out = layer.forward(input);
  sum(mul(out, Variable(dy))).backward();
  const std::vector<NamedVariable> parameters = layer.named_parameters();
  const std::vector<NamedVariable> buffers = layer.named_buffers();
  return {.out = values_of(out.data()),
          .grad_x = grad_or_nothing(input),
          .grad_weight = grad_or_nothing(parameters[0].variable),
          .grad_bias = grad_or_nothing(parameters[1].variable),
          .running_mean = values_of(buffers[0].variable.data()),
          .running_var = values_of(buffers[1].variable.data()),
          .n_batches = buffers[2].variable.data().at(0)};
}

struct Batch {
  std::vector<Rows> x;   ///< By rank.
  std::vector<Rows> dy;  ///< By rank.

  std::int32_t n_ranks() const { return static_cast<std::int32_t>(x.size()); }

  static Rows joined(const std::vector<Rows>& parts) {
    Rows all;
    for (const Rows& part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
  }
};

std::vector<Outcome> synchronised(const Batch& batch,
                                  const nn::BatchNormOptions& options,
                                  MiniResult* result = nullptr) {
  std::vector<Outcome> outcomes(batch.x.size());
  const MiniResult ran = run_mini_world({.n_ranks = batch.n_ranks()}, [&](MiniRank& rank) {
    const auto r = static_cast<std::size_t>(rank.rank);
    nn::SyncBatchNorm layer(rank.runtime, 2, rank.group, options);
    outcomes[r] = run_layer(layer,
                            tensor_of(rank.runtime, batch.x[r], 2, options.dtype),
                            tensor_of(rank.runtime, batch.dy[r], 2, options.dtype));
  });
  for (std::size_t r = 0; r < batch.x.size(); ++r) EXPECT_EQ(ran.error(r), "");
  if (result != nullptr) *result = ran;
  return outcomes;
}

Outcome whole(const Batch& batch, const nn::BatchNormOptions& options) {
  testing::TestRuntime test;
  nn::BatchNorm1d layer(test.runtime, 2, options);
  return run_layer(layer,
                   tensor_of(test.runtime, Batch::joined(batch.x), 2, options.dtype),
                   tensor_of(test.runtime, Batch::joined(batch.dy), 2, options.dtype));
}

Values concatenated(const std::vector<Outcome>& outcomes, Values Outcome::*part) {
  Values all;
  for (const Outcome& outcome : outcomes) {
    all.insert(all.end(), (outcome.*part).begin(), (outcome.*part).end());
  }
  return all;
}

Values added(const std::vector<Outcome>& outcomes, Values Outcome::*part) {
  Values total(2);
  for (const Outcome& outcome : outcomes) {
    for (std::size_t c = 0; c < (outcome.*part).size(); ++c) total[c] += (outcome.*part)[c];
  }
  return total;
}

// Ranks of 2 and 6 rows, each with variance 1 a column, means -3 and 1 (a quarter and three
// quarters of the rows): mean 0, variance 1 + 3 = 4, and every step of the merge is exact.
Batch exact_batch() {
  return {.x = {{{-4, -2}, {-2, -4}}, {{0, 2}, {2, 0}, {0, 2}, {2, 0}, {2, 2}, {0, 0}}},
          .dy = {{{1, 0}, {-1, 2}}, {{0, 4}, {4, 0}, {-2, 0}, {0, -2}, {2, 2}, {-4, 2}}}};
}

const nn::BatchNormOptions kExact{.eps = 0.0, .momentum = 0.5};

TEST(SyncBatchNormTest, EqualsTheConcatenatedBatchWhereNothingRounds) {
  const Batch batch = exact_batch();
  const std::vector<Outcome> parts = synchronised(batch, kExact);
  const Outcome all = whole(batch, kExact);
  EXPECT_EQ(concatenated(parts, &Outcome::out), all.out);
  EXPECT_EQ(all.out[0], -2.0) << "(-4 - 0) / 2";
  EXPECT_EQ(concatenated(parts, &Outcome::grad_x), all.grad_x);
  EXPECT_EQ(added(parts, &Outcome::grad_weight), all.grad_weight);
  EXPECT_EQ(added(parts, &Outcome::grad_bias), all.grad_bias);
  for (const Outcome& part : parts) {
    EXPECT_EQ(part.running_mean, Values({0, 0}));
    EXPECT_EQ(part.running_mean, all.running_mean);
    EXPECT_EQ(part.running_var, all.running_var) << "32 / 7, halved and added to a half";
    EXPECT_EQ(part.n_batches, 1.0);
  }
}

TEST(SyncBatchNormTest, TheExactCaseIsExactInEveryOperation) {
  testing::ExactTestRuntime test;
  Kernels& kernels = *test.kernels;
  const Tensor rows = Tensor::of(test.runtime, {2, 3}, DType::kF32, Values{-3, 1, 2, 1, 1, 6});
  const std::array merged{Tensor::zeros(test.runtime, {1}, DType::kF32),
                          Tensor::zeros(test.runtime, {1}, DType::kF32)};
  kernels.batch_norm_merge_stats(merged, {}, rows, {.momentum = 0.5, .eps = 0.0});
  EXPECT_EQ(merged[0].at(0), 0.0);
  EXPECT_EQ(merged[1].at(0), 0.5);
}

// The twins: what else one might merge. None of them is the batch's variance of 4.
TEST(SyncBatchNormTest, SimplerMergesAreWrong) {
  const Values means = {-3, 1};
  const Values variances = {1, 1};
  EXPECT_NE((means[0] + means[1]) / 2, 0.0) << "the mean of means forgets the counts";
  EXPECT_NE((variances[0] + variances[1]) / 2, 4.0) << "the mean of variances forgets the means";
  testing::TestRuntime test;
  const auto merge = [&](const Values& rows) {
    const std::array merged{Tensor::zeros(test.runtime, {1}, DType::kF32),
                            Tensor::zeros(test.runtime, {1}, DType::kF32)};
    const auto n = static_cast<std::int64_t>(rows.size() / 3);
    test.kernels->batch_norm_merge_stats(
        merged, {}, Tensor::of(test.runtime, {n, 3}, DType::kF32, rows), {.eps = 0.0});
    return Values{merged[0].at(0), merged[1].at(0)};
  };
  EXPECT_EQ(merge({-3, 1, 2, 1, 1, 6}), Values({0, 0.5}));
  EXPECT_NE(merge({-3, 1, 4, 1, 1, 4}), Values({0, 0.5})) << "equal counts";
  EXPECT_NE(merge({-3, 1, 1, 1, 1, 5}), Values({0, 0.5})) << "counts less one";
  EXPECT_EQ(merge({-3, 1, 2, 0, 0, 0, 1, 1, 6}), Values({0, 0.5})) << "an empty batch is left out";
  EXPECT_NE(merge({-3, 1, 2, 0, 1, 1, 1, 1, 6}), Values({0, 0.5})) << "one that counts is not";
}

TEST(SyncBatchNormTest, AnEmptyBatchTakesPartAndAddsNothing) {
  Batch batch = exact_batch();
  const Outcome all = whole(batch, kExact);
  batch.x.insert(batch.x.begin() + 1, Rows());
  batch.dy.insert(batch.dy.begin() + 1, Rows());
  MiniResult result;
  const std::vector<Outcome> parts = synchronised(batch, kExact, &result);
  EXPECT_EQ(concatenated(parts, &Outcome::out), all.out);
  EXPECT_EQ(concatenated(parts, &Outcome::grad_x), all.grad_x);
  EXPECT_EQ(parts[1].grad_weight, Values()) << "no gradient at all, as in PyTorch";
  EXPECT_EQ(parts[1].running_var, all.running_var);
  for (std::int32_t r = 0; r < 3; ++r) {
    EXPECT_EQ(collectives_of(*result.trace, r),
              std::vector<std::string>({"AG f32[5]", "AR f32[4]"}));
  }
}

TEST(SyncBatchNormTest, ARankWithoutTheForwardBlocksTheOthers) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    nn::SyncBatchNorm layer(rank.runtime, 2, rank.group);
    if (rank.rank == 1) return;
    layer.forward(Variable(Tensor::zeros(rank.runtime, {2, 2}, DType::kF32)));
  });
  EXPECT_NE(result.error(0).find("all_gather"), std::string::npos) << result.error(0);
}

// n rows of rounding arithmetic: the error of each mean, sum and quotient is below (n + 16) u of
// the sum of magnitudes; values are within 8, deviations within 16, the variance above 1/4.
TEST(SyncBatchNormTest, IsWithinTheRoundingOfTheConcatenatedBatch) {
  Batch batch;
  std::uint32_t state = 7;
  const auto draw = [&state] {
    state = state * 1664525U + 1013904223U;
    return static_cast<double>(state >> 8U) / 1048576.0 - 8.0;
  };
  std::size_t n_rows = 0;
  for (const std::size_t n : {5U, 1U, 9U}) {
    batch.x.emplace_back();
    batch.dy.emplace_back();
    for (std::size_t i = 0; i < n; ++i) {
      batch.x.back().push_back({draw(), draw()});
      batch.dy.back().push_back({draw(), draw()});
    }
    n_rows += n;
  }
  const nn::BatchNormOptions options{.dtype = DType::kF64};
  const std::vector<Outcome> parts = synchronised(batch, options);
  const Outcome all = whole(batch, options);
  const double n = static_cast<double>(n_rows);
  const double bound = (n + 16) * std::ldexp(1.0, -53) * n * 16 * 16 * 16;
  const auto expect_near = [bound](const Values& a, const Values& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], bound) << i;
  };
  expect_near(concatenated(parts, &Outcome::out), all.out);
  expect_near(concatenated(parts, &Outcome::grad_x), all.grad_x);
  expect_near(added(parts, &Outcome::grad_weight), all.grad_weight);
  expect_near(added(parts, &Outcome::grad_bias), all.grad_bias);
  expect_near(parts[2].running_mean, all.running_mean);
  expect_near(parts[2].running_var, all.running_var);
  EXPECT_LT(bound, 1e-9) << "tight enough to tell another formula apart";
}

TEST(SyncBatchNormTest, WithoutMomentumRunningStatisticsAreAverages) {
  Values running;
  run_mini_world({}, [&](MiniRank& rank) {
    nn::SyncBatchNorm layer(rank.runtime, 1, rank.group, {.eps = 0.0, .momentum = std::nullopt});
    for (const double shift : {0.0, 4.0}) {
      const Values x = {shift + rank.rank, shift + rank.rank};
      layer.forward(Variable(Tensor::of(rank.runtime, {2, 1}, DType::kF64, x).to(DType::kF32)));
    }
    running = values_of(layer.named_buffers()[0].variable.data());
  });
  EXPECT_EQ(running, Values({2.5})) << "batch means 0.5 and 4.5";
}

TEST(SyncBatchNormTest, EvaluationAndGroupsOfOneSendNothing) {
  const MiniResult evaluated = run_mini_world({}, [](MiniRank& rank) {
    nn::SyncBatchNorm layer(rank.runtime, 1, rank.group, {.eps = 0.0});
    layer.eval();
    const Variable out =
        layer.forward(Variable(Tensor::of(rank.runtime, {2, 1}, DType::kF32, Values{1.0, 3.0})));
    EXPECT_EQ(values_of(out.data()), Values({1, 3})) << "running statistics 0 and 1";
  });
  EXPECT_TRUE(evaluated.ok()) << evaluated.error(0);
  EXPECT_TRUE(collectives_of(*evaluated.trace, 0).empty());

  const MiniResult alone = run_mini_world({.n_ranks = 1}, [](MiniRank& rank) {
    nn::SyncBatchNorm layer(rank.runtime, 1, rank.group, {.eps = 0.0});
    const Variable out =
        layer.forward(Variable(Tensor::of(rank.runtime, {2, 1}, DType::kF32, Values{1.0, 3.0})));
    EXPECT_EQ(values_of(out.data()), Values({-1, 1}));
  });
  EXPECT_TRUE(alone.ok()) << alone.error(0);
  EXPECT_TRUE(collectives_of(*alone.trace, 0).empty());
}

TEST(SyncBatchNormTest, NormalisesTheChannelsOfImages) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    nn::SyncBatchNorm layer(rank.runtime, 2, rank.group, {.eps = 0.0});
    const Tensor x = Tensor::of(rank.runtime, {1, 2, 1, 2}, DType::kF32, Values{1, 3, 12, 8});
    EXPECT_EQ(values_of(layer.forward(Variable(x)).data()), Values({-1, 1, 1, -1}));
  });
  EXPECT_TRUE(result.ok()) << result.error(0);
}

TEST(SyncBatchNormTest, ConvertingSharesParametersAndBuffers) {
  run_mini_world({.n_ranks = 1}, [](MiniRank& rank) {
    nn::BatchNorm1d plain(rank.runtime, 3, {.momentum = 0.25});
    const std::unique_ptr<nn::Module> layer = nn::convert_sync_batchnorm(plain, rank.group);
    ASSERT_NE(layer, nullptr);
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_TRUE(layer->named_parameters()[i].variable == plain.named_parameters()[i].variable);
    }
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(layer->named_buffers()[i].variable.data().shares_memory_with(
          plain.named_buffers()[i].variable.data()));
    }
    EXPECT_EQ(dynamic_cast<nn::SyncBatchNorm&>(*layer).options().momentum, 0.25);
    EXPECT_EQ(nn::convert_sync_batchnorm(*layer, rank.group), nullptr) << "it is one already";
  });
}

TEST(SyncBatchNormTest, RefusesWhatPyTorchRefuses) {
  const MiniResult flat = run_mini_world({}, [](MiniRank& rank) {
    nn::SyncBatchNorm layer(rank.runtime, 1, rank.group);
    layer.forward(Variable(Tensor::zeros(rank.runtime, {4}, DType::kF32)));
  });
  EXPECT_EQ(flat.error(0), "expected at least 2D input (got 1D input)");
  const MiniResult none = run_mini_world({}, [](MiniRank& rank) {
    nn::SyncBatchNorm layer(rank.runtime, 0, rank.group);
    layer.forward(Variable(Tensor::zeros(rank.runtime, {4, 0}, DType::kF32)));
  });
  EXPECT_EQ(none.error(0), "SyncBatchNorm number of input channels should be non-zero");
}

}  // namespace
}  // namespace lockstep
