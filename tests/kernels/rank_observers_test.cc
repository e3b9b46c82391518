#include "lockstep/kernels/rank_observers.h"

#include <gtest/gtest.h>

#include "lockstep/tensor/in_flight.h"

#include "tests/support/test_runtime.h"

namespace lockstep {
namespace {

struct Count final : InFlight::Listener {
  void on_touch(const InFlight::Loan& /*loan*/, const InFlight::Access& /*access*/) override {
    ++touches;
  }

  int touches = 0;
};

/// What an observed product that rounds, of memory that a transfer owns, led to.
struct Seen {
  bool rounding = false;
  int touches = 0;

  bool operator==(const Seen&) const = default;
};

Seen seen_by(const Observed& observed) {
  testing::TestRuntime test;
  const Tensor tenth = Tensor::full(test.runtime, {1}, DType::kF32, 0.1);
  Count count;
  InFlight in_flight;
  in_flight.listen(&count);
  in_flight.lend(
      {.begin = tenth.address(), .end = tenth.address() + 4, .written = false, .work = 1});
  test.runtime.set_in_flight(&in_flight);
  RankObservers observers;
  test.kernels->observe(observers.get(observed));
  Seen seen;
  try {
    test.kernels->mul(tenth, tenth, tenth);
  } catch (const InexactOperation&) {
    seen.rounding = true;
  }
  test.runtime.set_in_flight(nullptr);
  seen.touches = count.touches;
  return seen;
}

TEST(RankObserversTest, ARankHasThoseItAsksFor) {
  EXPECT_EQ(seen_by({}), (Seen{.rounding = false, .touches = 0}));
  EXPECT_EQ(seen_by({.exact = true}), (Seen{.rounding = true, .touches = 0}));
  EXPECT_EQ(seen_by({.watched = true}), (Seen{.rounding = false, .touches = 1}));
  EXPECT_EQ(seen_by({.exact = true, .watched = true}), (Seen{.rounding = true, .touches = 1}));
}

TEST(RankObserversTest, ARankThatAsksForNothingHasNoObserver) {
  RankObservers observers;
  EXPECT_EQ(observers.get({}), nullptr);
}

}  // namespace
}  // namespace lockstep
