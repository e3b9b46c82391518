#include "lockstep/optim/cosine_annealing.h"

#include <bit>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/optim/sgd.h"

#include "tests/golden/golden_file.h"
#include "tests/support/test_runtime.h"

namespace lockstep::optim {
namespace {

std::vector<std::string> rates(double lr, std::int64_t t_max, double eta_min, std::size_t n) {
  testing::TestRuntime test;
  const Variable parameter(Tensor::zeros(test.runtime, {1}, DType::kF32), true);
  Sgd sgd({parameter}, {.lr = lr});
  CosineAnnealingLr schedule(sgd, t_max, eta_min);
  std::vector<std::string> bits;
  for (std::size_t i = 0; i < n; ++i) {
    bits.push_back(hex64(std::bit_cast<std::uint64_t>(sgd.lr())));
    schedule.step();
  }
  return bits;
}

TEST(CosineAnnealingTest, GivesTheRatesOfPyTorchBitForBit) {
  const std::vector<golden::Case> cases = golden::read("cosine.txt");
  ASSERT_EQ(cases.size(), 4U);
  for (const golden::Case& one : cases) {
    std::istringstream words(one.values);
    std::vector<std::string> expected;
    for (std::string word; words >> word;) expected.push_back(word);

    const double lr = parse_double(one.arguments[0]).value();
    const double eta_min = parse_double(one.arguments[2]).value();
    EXPECT_EQ(rates(lr, one.integer(1), eta_min, expected.size()), expected) << one.text();
    // The twin: half a period that is one step longer is noticed.
    EXPECT_NE(rates(lr, one.integer(1) + 1, eta_min, expected.size()), expected) << one.text();
  }
}

}  // namespace
}  // namespace lockstep::optim
