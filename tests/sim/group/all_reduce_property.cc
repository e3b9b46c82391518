// All-reduce against references that share no code with it.
#include <cstdint>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/sim/group/group_fixture.h"

namespace lockstep::sim {
namespace {

using testing::run_groups;

template <typename T>
using Vectors = std::vector<std::vector<T>>;  // By rank.

template <typename T>
Vectors<T> all_reduced(Vectors<T> data, ReductionOrder order, std::uint64_t seed) {
  run_groups({.n_ranks = static_cast<std::int32_t>(data.size()), .group = {.order = order}},
             *make_random(seed),
             [&](ProcessGroup& group, RankHandle& rank) {
               auto& mine = data[to_index(rank.rank())];
               RC_ASSERT(group.all_reduce(Memory::of(std::span(mine))).wait() == CommStatus::kOk);
             });
  return data;
}

// Left to right.
float in_rank_order(const Vectors<float>& data, std::size_t i) {
  float sum = data[0][i];
  for (std::size_t r = 1; r < data.size(); ++r) sum += data[r][i];
  return sum;
}

// Neighbours, level by level; the odd one out is carried.
float in_pairs(const Vectors<float>& data, std::size_t i) {
  std::vector<float> level;
  for (const auto& row : data) level.push_back(row[i]);
  while (level.size() > 1) {
    std::vector<float> sums;
    for (std::size_t k = 0; k + 1 < level.size(); k += 2) sums.push_back(level[k] + level[k + 1]);
    if (level.size() % 2 == 1) sums.push_back(level.back());
    level = sums;
  }
  return level[0];
}

template <typename T>
Vectors<T> any_vectors(const rc::Gen<T>& gen) {
  const auto n_ranks = *rc::gen::inRange<std::size_t>(1, 9);
  const auto count = *rc::gen::inRange<std::size_t>(1, 40);
  Vectors<T> data(n_ranks);
  for (auto& row : data) row = *rc::gen::container<std::vector<T>>(count, gen);
  return data;
}

rc::Gen<float> any_fraction() {
  return rc::gen::map(rc::gen::inRange(-100000, 100000),
                      [](int k) { return static_cast<float>(k) / 1237.0F; });
}

std::uint32_t bits(float value) {
  std::uint32_t word = 0;
  std::memcpy(&word, &value, sizeof(word));
  return word;
}

RC_GTEST_PROP(AllReduceProperty, IntegersAreExactInEveryOrder, ()) {
  const auto data =
      any_vectors<std::int64_t>(rc::gen::inRange<std::int64_t>(-1'000'000, 1'000'000));
  const auto order = *rc::gen::element(
      ReductionOrder::kRank, ReductionOrder::kGlooRing, ReductionOrder::kPairwise);
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const auto reduced = all_reduced(data, order, seed);
  for (std::size_t i = 0; i < data[0].size(); ++i) {
    std::int64_t sum = 0;
    for (const auto& row : data) sum += row[i];
    for (const auto& row : reduced) RC_ASSERT(row[i] == sum);
  }
}

RC_GTEST_PROP(AllReduceProperty, FloatsFollowTheNamedOrderBitForBit, ()) {
  const auto data = any_vectors<float>(any_fraction());
  const auto pairs = *rc::gen::arbitrary<bool>();
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const auto reduced =
      all_reduced(data, pairs ? ReductionOrder::kPairwise : ReductionOrder::kRank, seed);
  for (std::size_t i = 0; i < data[0].size(); ++i) {
    const float expected = pairs ? in_pairs(data, i) : in_rank_order(data, i);
    for (const auto& row : reduced) RC_ASSERT(bits(row[i]) == bits(expected));
  }
}

// Gloo's ring: every element is summed along the ring from some rank on, ending at the chunk's
// owner.
RC_GTEST_PROP(AllReduceProperty, TheRingSumsEachElementAlongOneRotation, ()) {
  const auto data = any_vectors<float>(any_fraction());
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const std::size_t n = data.size();
  const auto reduced = all_reduced(data, ReductionOrder::kGlooRing, seed);
  for (std::size_t i = 0; i < data[0].size(); ++i) {
    bool legal = false;
    for (std::size_t c = 0; c < n; ++c) {
      float sum = data[(c + n - 1) % n][i];
      for (std::size_t k = 1; k < n; ++k) sum = data[(c + n - 1 - k) % n][i] + sum;
      legal = legal || bits(sum) == bits(reduced[0][i]);
    }
    RC_ASSERT(legal);
    for (const auto& row : reduced) RC_ASSERT(bits(row[i]) == bits(reduced[0][i]));
  }
}

}  // namespace
}  // namespace lockstep::sim
