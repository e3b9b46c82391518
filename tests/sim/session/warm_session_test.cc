// What the next call finds of the session before.
#include "lockstep/sim/session/warm_session.h"

#include <stdexcept>

#include <gtest/gtest.h>

#include "tests/support/count_allocations.h"

namespace lockstep::sim {
namespace {

class WarmSessionTest : public ::testing::Test {
 protected:
  std::int64_t blocks_of_loan() {
    const std::int64_t before = lockstep::testing::n_allocations();
    warm_.lend([](Session& session) { return &session; });
    return lockstep::testing::n_allocations() - before;
  }

  WarmSession warm_;
};

TEST_F(WarmSessionTest, TheSecondCallHasTheSessionOfTheFirst) {
  Session* const first = warm_.lend([](Session& session) { return &session; });
  EXPECT_EQ(warm_.lend([](Session& session) { return &session; }), first);
  EXPECT_EQ(blocks_of_loan(), 0);
}

TEST_F(WarmSessionTest, ASessionThatAnExceptionLeftIsThrownAway) {
  EXPECT_GT(blocks_of_loan(), 0);
  EXPECT_THROW(warm_.lend([](Session& session) -> Session* {
    static_cast<void>(session);
    throw std::runtime_error("Lockstep failed");
  }),
               std::runtime_error);
  EXPECT_GT(blocks_of_loan(), 0);
}

TEST_F(WarmSessionTest, ACallWithinACallHasASessionOfItsOwn) {
  warm_.lend([&](Session& outer) {
    warm_.lend([&](Session& inner) {
      EXPECT_NE(&inner, &outer);
      return 0;
    });
    return 0;
  });
}

}  // namespace
}  // namespace lockstep::sim
