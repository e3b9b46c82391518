#include "lockstep/laws/rules/detail/mean/open_reductions.h"

#include <gtest/gtest.h>

namespace lockstep::laws {
namespace {

AlignmentKey place(std::int32_t sync) { return {.wrapper = {}, .sync = sync}; }

TEST(OpenReductionsTest, RanksMeetAtOnePlaceAndPlacesAreApart) {
  OpenReductions open;
  open.at(place(0)).n_published = 1;
  open.at(place(1)).n_published = 2;
  EXPECT_EQ(open.at(place(0)).n_published, 1);
  EXPECT_EQ(open.at(place(1)).n_published, 2);
  EXPECT_EQ(open.size(), 2U);
}

TEST(OpenReductionsTest, AClosedOneLeavesNothingToTheNext) {
  OpenReductions open;
  OpenReduction& first = open.at(place(0));
  first.locals.push_back({.rank = 3});
  first.sketches.resize(4);
  first.n_published = 2;
  first.sketched = false;
  open.close(place(0));
  EXPECT_EQ(open.size(), 0U);
  const OpenReduction& next = open.at(place(0));
  EXPECT_TRUE(next.locals.empty());
  EXPECT_TRUE(next.sketches.empty());
  EXPECT_EQ(next.n_published, 0);
  EXPECT_TRUE(next.sketched);
}

TEST(OpenReductionsTest, TheNextOneHasTheMemoryOfTheOneThatWasClosed) {
  OpenReductions open;
  open.at(place(0)).sketches.resize(1000);
  const Sketch* const memory = open.at(place(0)).sketches.data();
  open.close(place(0));
  OpenReduction& next = open.at(place(1));
  next.sketches.resize(1000);
  EXPECT_EQ(next.sketches.data(), memory);
}

}  // namespace
}  // namespace lockstep::laws
