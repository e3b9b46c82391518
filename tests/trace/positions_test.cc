#include "lockstep/trace/detail/positions.h"

#include <gtest/gtest.h>

#include "lockstep/base/check.h"

namespace lockstep::detail {
namespace {

TEST(PositionsTest, AWrapperBeginsWithTheRanksAttemptAndEpoch) {
  Positions positions;
  positions.set_attempt(2);
  positions.set_epoch(5);
  EXPECT_EQ(positions.open(), 0);
  EXPECT_EQ(positions.of(0).attempt, 2);
  EXPECT_EQ(positions.of(0).epoch, 5);
  EXPECT_EQ(positions.of(0).wrapper, 0);
  EXPECT_EQ(positions.of(0).sync, -1);
}

TEST(PositionsTest, EachWrapperGoesOnByItself) {
  Positions positions;
  positions.open();
  positions.open();
  positions.of(1).opt = 7;
  EXPECT_EQ(positions.of(0).opt, 0);
  EXPECT_EQ(positions.of(-1).opt, 0);
  positions.set_epoch(3);
  for (const std::int32_t wrapper : {-1, 0, 1}) EXPECT_EQ(positions.of(wrapper).epoch, 3);
}

TEST(PositionsTest, TheCurrentWrapperIsTheYoungestUntilAForward) {
  Positions positions;
  EXPECT_EQ(positions.current(), -1);
  positions.open();
  positions.open();
  EXPECT_EQ(positions.current(), 1);
  positions.note_forward(0);
  EXPECT_EQ(positions.current(), 0);
}

TEST(PositionsTest, StepsTakeTurnsBySynchronisingForwardsAndElseByThemselves) {
  Positions positions;
  positions.open();
  EXPECT_EQ(positions.turn(0), 0);
  positions.note_step(positions.of(0));
  EXPECT_EQ(positions.turn(0), 1);
  positions.of(0).sync = 4;
  EXPECT_EQ(positions.turn(0), 4);
  positions.note_step(positions.of(0));  // It belongs to a synchronising forward.
  EXPECT_EQ(positions.turn(-1), 1);
}

TEST(PositionsTest, AWrapperThatWasNotOpenedIsRefused) {
  Positions positions;
  positions.open();
  EXPECT_THROW(positions.of(1), ContractViolation);
  EXPECT_THROW(positions.of(-2), ContractViolation);
}

}  // namespace
}  // namespace lockstep::detail
