#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "lockstep/random/permutation.h"

namespace lockstep {
namespace {

std::vector<std::int64_t> identity(std::size_t n) {
  std::vector<std::int64_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

RC_GTEST_PROP(PermutationProperty, EveryNumberAppearsOnce, (std::uint64_t seed)) {
  const auto n = *rc::gen::inRange<std::size_t>(0, 2000);
  Generator generator(seed);
  std::vector<std::int64_t> order(n);
  if (seed % 2 == 0) {
    shuffle_upwards(generator, order);
  } else {
    shuffle_inside_out(generator, order);
  }
  std::sort(order.begin(), order.end());
  RC_ASSERT(order == identity(n));
}

RC_GTEST_PROP(PermutationProperty, OnlyTheLow32BitsOfTheSeedCount, (std::uint64_t seed)) {
  Generator whole(seed);
  Generator low(seed & 0xffffffffU);
  RC_ASSERT(randperm(whole, 50) == randperm(low, 50));
}

}  // namespace
}  // namespace lockstep
