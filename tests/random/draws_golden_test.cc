// Every distribution over many seeds and sizes, bit for bit against a real torch.Generator.
#include <map>

#include <gtest/gtest.h>

#include "tests/golden/drawn.h"

namespace lockstep {
namespace {

TEST(DrawsGoldenTest, FiveThousandDrawsOfEachDistributionEqualTorch) {
  std::map<std::string, std::size_t> n_draws;
  for (const golden::Case& one : golden::read("draws.txt")) {
    if (golden::n_drawn(one) == 0) continue;
    EXPECT_EQ(golden::drawn(one), one.values) << one.text();
    n_draws[one.kind + " " + one.arguments.at(0)] += golden::n_drawn(one);
  }
  EXPECT_EQ(n_draws.size(), 14U);
  for (const auto& [distribution, count] : n_draws) EXPECT_GE(count, 5000U) << distribution;
}

TEST(DrawsGoldenTest, ANeighbouringSeedIsNoticed) {
  std::size_t equal = 0;
  std::size_t compared = 0;
  for (golden::Case& one : golden::read("draws.txt")) {
    if (one.kind != "uniform" && one.kind != "normal" && one.kind != "exponential") continue;
    one.arguments[1] = std::to_string(static_cast<std::int64_t>(golden::seed_of(one) ^ 1U));
    equal += golden::drawn(one) == one.values ? 1U : 0U;
    ++compared;
  }
  EXPECT_GT(compared, 50U);
  EXPECT_EQ(equal, 0U);
}

}  // namespace
}  // namespace lockstep
