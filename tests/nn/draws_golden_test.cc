// Every scheme of initial weights over many seeds and shapes, bit for bit against torch.nn.init.
#include <map>

#include <gtest/gtest.h>

#include "tests/golden/drawn_inits.h"
#include "tests/support/test_runtime.h"

namespace lockstep {
namespace {

TEST(DrawsGoldenTest, FiveThousandInitialWeightsOfEachSchemeEqualTorch) {
  testing::TestRuntime test;
  std::map<std::string, std::int64_t> n_draws;
  for (const golden::Case& one : golden::read("draws.txt")) {
    if (one.kind.find('_') == std::string::npos) continue;
    EXPECT_EQ(golden::initialised(one, test.runtime), one.values) << one.text();
    std::int64_t count = 1;
    for (std::size_t i = 3; i < one.arguments.size(); ++i) count *= one.integer(i);
    n_draws[one.kind + " " + one.arguments.at(0)] += count;
  }
  EXPECT_EQ(n_draws.size(), 14U);
  for (const auto& [scheme, count] : n_draws) EXPECT_GE(count, 5000) << scheme;
}

}  // namespace
}  // namespace lockstep
