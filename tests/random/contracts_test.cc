// What errors say when a contract of random draws is broken: the values.
#include <array>

#include <gtest/gtest.h>

#include "lockstep/random/discrete.h"
#include "lockstep/random/multinomial.h"
#include "lockstep/random/normal.h"
#include "lockstep/random/permutation.h"
#include "lockstep/random/uniform.h"

#include "tests/support/complaint.h"

namespace lockstep {
namespace {

TEST(RandomContractsTest, SayWhichArgumentMakesNoSense) {
  Generator generator(1);
  std::array<float, 1> floats{};
  std::array<std::int64_t, 1> integers{};

  testing::expect_complaints({
      {[&] { bernoulli(generator, floats, 1.25); },
       "a probability must be between 0 and 1, not 1.25"},
      {[&] { randint(generator, integers, {.from = 5, .to = 3}); },
       "no integers to draw from 5 to 3: the range is empty"},
      {[&] { exponential(generator, floats, -2.0); }, "an exponential rate is positive, not -2"},
      {[&] { normal(generator, floats, {.std = -0.5}); },
       "a standard deviation is at least 0, not -0.5"},
      {[&] { uniform(generator, floats, {.from = 2.0, .to = 1.0}); },
       "uniform bounds must be in order, not 2 and 1"},
      {[&] { randperm(generator, -4); }, "a permutation of -4 elements: a size is never negative"},
  });
}

}  // namespace
}  // namespace lockstep
