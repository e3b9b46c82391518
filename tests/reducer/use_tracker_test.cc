// Which parameters count as used, without a reducer around it.
#include "lockstep/reducer/use_tracker.h"

#include <gtest/gtest.h>

#include "lockstep/functional/functions.h"
#include "lockstep/reducer/reducer_error.h"

#include "tests/support/test_runtime.h"

namespace lockstep {
namespace {

using Reached = std::vector<std::uint8_t>;

class UseTrackerTest : public ::testing::Test {
 protected:
  UseTrackerTest() {
    for (const std::int64_t n_elems : {3, 5}) {
      leaves_.emplace_back(Tensor::full(test_.runtime, {n_elems}, DType::kF32, 1.0), true);
    }
  }

  static Reached reached(const UseTracker& use) {
    return {use.reachable().begin(), use.reachable().end()};
  }

  void give_gradient(std::size_t index) { sum(leaves_[index]).backward(); }

  lockstep::testing::TestRuntime test_;
  std::vector<Variable> leaves_;
};

TEST_F(UseTrackerTest, WithoutOptionsEveryGradientCountsAtOnceAndNothingIsKept) {
  UseTracker use(leaves_, false, false);
  EXPECT_FALSE(use.count(0, 1));
  EXPECT_TRUE(use.is_last_firing(0));
  EXPECT_FALSE(use.is_globally_unused(1));
  EXPECT_TRUE(reached(use).empty());
  EXPECT_EQ(use.unused_bytes(), 0);
}

TEST_F(UseTrackerTest, ASearchFindsWhatTheOutputsDoNotReachAnewInEachForward) {
  UseTracker use(leaves_, true, false);
  use.begin(std::vector<Variable>{sum(leaves_[0])});
  EXPECT_EQ(reached(use), (Reached{1, 0}));
  EXPECT_EQ(use.unused_bytes(), 5 * 4);
  use.begin(std::vector<Variable>{sum(leaves_[1])});
  EXPECT_EQ(reached(use), (Reached{0, 1}));
  EXPECT_EQ(use.unused_bytes(), 3 * 4);
}

TEST_F(UseTrackerTest, WhatOneMicroStepUsedIsPromisedUntilTheIterationEnds) {
  UseTracker use(leaves_, true, false);
  give_gradient(0);
  EXPECT_FALSE(use.count(0, 0));
  EXPECT_TRUE(use.is_use_promised(0, 0));
  EXPECT_FALSE(use.is_use_promised(1, 0));
  use.end_iteration();
  EXPECT_FALSE(use.is_use_promised(0, 0));
}

TEST_F(UseTrackerTest, PyTorch113PromisesNothing) {
  UseTracker use(leaves_, true, true);
  give_gradient(0);
  EXPECT_FALSE(use.count(0, 1));
  EXPECT_FALSE(use.is_use_promised(0, 1));
}

TEST_F(UseTrackerTest, AStaticGraphWaitsForAsManyGradientsAsItsFirstBackwardHad) {
  UseTracker use(leaves_, true, false);
  use.set_static_graph();
  EXPECT_FALSE(use.is_searching()) << "the first backward takes the place of the search";
  EXPECT_TRUE(use.count(0, 1));
  EXPECT_TRUE(use.count(0, 1));
  use.end_first_static();
  EXPECT_EQ(reached(use), (Reached{1, 0}));
  EXPECT_EQ(use.unused_bytes(), 5 * 4);
  use.end_backward();

  use.begin({});
  EXPECT_FALSE(use.count(0, 2));
  EXPECT_FALSE(use.is_last_firing(0));
  EXPECT_FALSE(use.count(0, 2));
  EXPECT_TRUE(use.is_last_firing(0));
  EXPECT_THROW(use.is_last_firing(0), ReducerError) << "a third gradient";
  EXPECT_THROW(use.is_last_firing(1), ReducerError) << "one that was unused at first";
}

// Backwards in PyTorch 2.7, synchronising forwards in 1.13: apart where a no_sync backward comes
// first.
TEST_F(UseTrackerTest, TheVersionsCountTheFirstBackwardDifferently) {
  for (const bool is_compat_113 : {false, true}) {
    UseTracker use(leaves_, false, is_compat_113);
    use.set_static_graph();
    EXPECT_EQ(use.count(0, 0), !is_compat_113) << "without synchronisation";
    use.end_backward();
    EXPECT_EQ(use.count(0, 1), is_compat_113) << "the first with synchronisation";
  }
}

TEST_F(UseTrackerTest, OneBackwardCountsOnceHoweverManyGradientsItHas) {
  UseTracker use(leaves_, false, false);
  use.set_static_graph();
  EXPECT_TRUE(use.count(0, 1));
  EXPECT_TRUE(use.count(1, 1));
  use.end_backward();
  EXPECT_FALSE(use.count(0, 2));
}

}  // namespace
}  // namespace lockstep
