// Differentiable collectives against gradients worked out by hand.
#include "lockstep/parallel/exchange_functions.h"

#include <vector>

#include <gtest/gtest.h>

#include "lockstep/functional/functions.h"

#include "tests/support/mini_world.h"

namespace lockstep {
namespace {

using testing::MiniRank;
using testing::run_mini_world;
using testing::values_of;
using Values = std::vector<double>;

constexpr std::int32_t kRanks = 3;

/// Two numbers of rank r: r + 1, 10 (r + 1).
Tensor own(MiniRank& rank) {
  const double r = rank.rank + 1.0;
  return Tensor::of(rank.runtime, {2, 1}, DType::kF32, Values{r, 10.0 * r});
}

/// What each rank's values came out as, and the gradient of sum(weights * result), with weights
/// that count up from 100 r.
struct Exchanged {
  Values out;
  Values grad;
};

template <typename Exchange>
std::vector<Exchanged> outcomes(Exchange exchange) {
  std::vector<Exchanged> all(kRanks);
  const auto ran = run_mini_world({.n_ranks = kRanks}, [&](MiniRank& rank) {
    const Variable x(own(rank), true);
    const Variable out = exchange(x, rank.group);
    Values weights;
    for (std::int64_t i = 0; i < out.data().n_elems(); ++i) {
      weights.push_back(100.0 * rank.rank + static_cast<double>(i));
    }
    const Tensor factors = Tensor::of(rank.runtime, out.shape(), DType::kF32, weights);
    sum(mul(out, Variable(factors))).backward();
    all[static_cast<std::size_t>(rank.rank)] = {values_of(out.data()), values_of(x.grad())};
  });
  for (std::size_t r = 0; r < kRanks; ++r) EXPECT_EQ(ran.error(r), "");
  return all;
}

TEST(ExchangeFunctionsTest, ASumsGradientIsTheSumOfAllRanksGradients) {
  const auto all =
      outcomes([](const Variable& x, ProcessGroup& group) { return all_reduce(x, group); });
  for (const Exchanged& one : all) {
    EXPECT_EQ(one.out, (Values{6.0, 60.0}));
    EXPECT_EQ(one.grad, (Values{300.0, 303.0}));  // Weights 0, 100, 200 and 1, 101, 201.
  }
}

TEST(ExchangeFunctionsTest, AMeansGradientIsTheMeanOfAllRanksGradients) {
  const auto all = outcomes(
      [](const Variable& x, ProcessGroup& group) { return all_reduce(x, group, ReduceOp::kAvg); });
  for (const Exchanged& one : all) {
    EXPECT_EQ(one.out, (Values{2.0, 20.0}));
    EXPECT_EQ(one.grad, (Values{100.0, 101.0}));
  }
}

TEST(ExchangeFunctionsTest, AGathersGradientIsWhatAllRanksSayOfTheOwnRows) {
  const auto all =
      outcomes([](const Variable& x, ProcessGroup& group) { return all_gather(x, group); });
  for (std::size_t r = 0; r < kRanks; ++r) {
    EXPECT_EQ(all[r].out, (Values{1.0, 10.0, 2.0, 20.0, 3.0, 30.0}));
    // Rows 2 r and 2 r + 1 have the weights 100 s + row on rank s.
    const double first = 300.0 + 3.0 * 2.0 * static_cast<double>(r);
    EXPECT_EQ(all[r].grad, (Values{first, first + 3.0})) << "rank " << r;
  }
}

TEST(ExchangeFunctionsTest, TheArgumentKeepsItsValues) {
  const auto ran = run_mini_world({.n_ranks = kRanks}, [&](MiniRank& rank) {
    const Variable x(own(rank), true);
    const Values before = values_of(x.data());
    EXPECT_NE(values_of(all_reduce(x, rank.group).data()), before);
    EXPECT_EQ(values_of(x.data()), before);
  });
  EXPECT_EQ(ran.error(0), "");
}

TEST(ExchangeFunctionsTest, WhatHasNoSuchGradientIsRefused) {
  const auto ran = run_mini_world({.n_ranks = 1}, [&](MiniRank& rank) {
    const Variable x(own(rank), true);
    EXPECT_THROW(static_cast<void>(all_reduce(x, rank.group, ReduceOp::kMax)), ContractViolation);
    EXPECT_THROW(static_cast<void>(all_gather(sum(x), rank.group)), ContractViolation);
  });
  EXPECT_EQ(ran.error(0), "");
}

}  // namespace
}  // namespace lockstep
