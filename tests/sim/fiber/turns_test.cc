#include "lockstep/sim/fiber/detail/turns.h"

#include <gmock/gmock.h>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "lockstep/base/check.h"

#include "tests/sim/support/fifo_strategy.h"
#include "tests/sim/support/scripted_strategy.h"

namespace lockstep::sim {
namespace {

using testing::FifoStrategy;
using ::testing::HasSubstr;
using testing::Scripted;
using ::testing::ThrowsMessage;

constexpr ActionId kMessage{7};

ActionTable::Entry message() {
  return {.action = {.id = kMessage, .kind = ActionKind::kDeliver}, .timer = 3};
}

RankControl& rank(Turns& turns, std::int32_t number) { return turns.slot(Rank{number}).control(); }

TEST(TurnsTest, TheStrategyChoosesAmongTheRanksThatAreReady) {
  FifoStrategy strategy;
  Turns turns;
  turns.start(strategy, 3);
  EXPECT_EQ(turns.choose(), nullptr) << "none is ready yet";
  turns.make_ready(rank(turns, 2), {});
  turns.make_ready(rank(turns, 0), {});
  EXPECT_EQ(turns.choose(), &turns.slot(Rank{2}));
  EXPECT_EQ(turns.choose(), &turns.slot(Rank{0}));
  EXPECT_EQ(turns.choose(), nullptr);
  EXPECT_EQ(turns.n_choices(), 2U);
}

TEST(TurnsTest, NoRankIsChosenWhileAnotherActionWaitsForTheMainContext) {
  FifoStrategy strategy;
  Turns turns;
  turns.start(strategy, 2);
  turns.enable(message());
  turns.make_ready(rank(turns, 1), {});
  EXPECT_EQ(turns.choose(), nullptr);
  EXPECT_EQ(turns.choose(), nullptr);
  EXPECT_EQ(turns.n_choices(), 1U) << "the message, once";
  EXPECT_EQ(turns.actions().take_out().timer, 3);
  EXPECT_EQ(turns.choose(), &turns.slot(Rank{1}));
  EXPECT_FALSE(turns.has_breach());
}

TEST(TurnsTest, AStrategyThatPicksWhatIsNotEnabledIsReportedOnceAndNotAskedAgain) {
  for (const std::uint64_t picked : {0U, 9U}) {  // A rank that is not ready, and no rank at all.
    Scripted strategy(false);
    Turns turns;
    turns.start(strategy, 2);
    turns.make_ready(rank(turns, 1), {});
    strategy.next = ActionId{picked};
    EXPECT_EQ(turns.choose(), nullptr);
    EXPECT_EQ(
        turns.take_breach(),
        "strategy scripted picked action " + std::to_string(picked) + ", which is not enabled");
    EXPECT_FALSE(turns.has_breach());
    EXPECT_EQ(turns.n_choices(), 0U);
    EXPECT_EQ(turns.choose(), &turns.slot(Rank{1})) << "the first that is ready";
    EXPECT_FALSE(turns.actions().any());
  }
}

TEST(TurnsTest, AnotherWorldForgetsABreach) {
  Scripted strategy(false);
  Turns turns;
  turns.start(strategy, 1);
  turns.make_ready(rank(turns, 0), {});
  strategy.next = ActionId{5};
  EXPECT_EQ(turns.choose(), nullptr);
  turns.start(strategy, 1);
  EXPECT_FALSE(turns.has_breach());
  turns.make_ready(rank(turns, 0), {});
  strategy.next = resume_id(Rank{0});
  EXPECT_EQ(turns.choose(), &turns.slot(Rank{0}));
}

TEST(TurnsTest, TheIdsOfResumptionsAreNotForOtherActions) {
  FifoStrategy strategy;
  Turns turns;
  turns.start(strategy, 8);
  EXPECT_THAT([&] { turns.enable(message()); },
              ThrowsMessage<ContractViolation>(HasSubstr("those of resumptions")));
}

TEST(TurnsTest, ARankOutsideTheWorldIsNamed) {
  FifoStrategy strategy;
  Turns turns;
  turns.start(strategy, 2);
  EXPECT_THAT(
      [&] { turns.slot(Rank{5}); },
      ThrowsMessage<ContractViolation>(HasSubstr("no rank 5 in this world: it has 2 ranks")));
}

TEST(TurnsTest, TheRankThatRunsIsFoundIfOneDoes) {
  FifoStrategy strategy;
  Turns turns;
  turns.start(strategy, 3);
  EXPECT_EQ(turns.running(), std::nullopt);
  rank(turns, 1).state = RankState::kRunning;
  EXPECT_EQ(turns.running(), Rank{1});
}

}  // namespace
}  // namespace lockstep::sim
