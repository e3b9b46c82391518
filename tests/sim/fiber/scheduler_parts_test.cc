// What the scheduler is made of, each part without the others.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/sim/fiber/detail/choices.h"
#include "lockstep/sim/fiber/detail/deaths.h"
#include "lockstep/sim/fiber/detail/progress.h"
#include "lockstep/sim/fiber/detail/timers.h"

namespace lockstep::sim {
namespace {

using Heard = std::vector<std::string>;

/// Picks what it is given, and writes down what it is told.
class Scripted final : public Strategy {
 public:
  explicit Scripted(bool watches) : watches_(watches) {}

  void start(std::int32_t n_ranks) override { heard = {"start " + std::to_string(n_ranks)}; }

  void on_enabled(const Action& action) override { say("enabled", action.id); }

  void on_disabled(ActionId id) override { say("disabled", id); }

  ActionId pick() override { return next; }

  std::string describe() const override { return "scripted"; }

  bool watches() const override { return watches_; }

  void on_touch(std::uint64_t object) override {
    heard.push_back("touch " + std::to_string(object));
  }

  void on_quiet() override { heard.emplace_back("quiet"); }

  Heard heard;
  ActionId next{};

 private:
  void say(const std::string& what, ActionId id) {
    heard.push_back(what + " " + std::to_string(static_cast<std::uint64_t>(id)));
  }

  bool watches_;
};

constexpr ActionId kTransfer{7};

ActionTable::Entry transfer() {
  return {.action = {.id = kTransfer, .kind = ActionKind::kTransfer}, .timer = 3};
}

TEST(ChoicesTest, AnActionWaitsForTheMainContextOnceItWasChosen) {
  Scripted strategy(false);
  Choices choices;
  choices.start(strategy, 2);
  EXPECT_FALSE(choices.any());
  choices.enable(Action{.id = resume_id(Rank{1})});
  choices.enable(transfer());
  EXPECT_EQ(choices.n_enabled(), 2U);
  strategy.next = kTransfer;
  EXPECT_TRUE(choices.take(choices.ask()));
  EXPECT_TRUE(choices.has_taken());
  EXPECT_EQ(choices.n_enabled(), 1U);
  EXPECT_EQ(choices.take_out().timer, 3);
  EXPECT_FALSE(choices.has_taken());
  choices.take_resumption();
  EXPECT_FALSE(choices.any());
  EXPECT_EQ(strategy.heard, (Heard{"start 2", "enabled 1", "enabled 7"}));
}

TEST(ChoicesTest, WhatIsNotEnabledCanBeNeitherTakenNorDisabled) {
  Scripted strategy(false);
  Choices choices;
  choices.start(strategy, 2);
  EXPECT_FALSE(choices.take(kTransfer));
  EXPECT_THROW(choices.disable(kTransfer), ContractViolation);
  choices.enable(transfer());
  choices.disable(kTransfer);
  EXPECT_FALSE(choices.any());
  EXPECT_FALSE(choices.take(kTransfer));
  EXPECT_EQ(strategy.heard.back(), "disabled 7");
}

TEST(ChoicesTest, OnlyAStrategyThatWatchesHearsOfObjectsAndUntilItIsDismissed) {
  for (const bool watches : {false, true}) {
    Scripted strategy(watches);
    Choices choices;
    choices.start(strategy, 1);
    choices.touch(5);
    choices.note_quiet();
    choices.dismiss();
    choices.touch(6);
    EXPECT_TRUE(choices.is_dismissed());
    EXPECT_EQ(strategy.heard, watches ? (Heard{"start 1", "touch 5", "quiet"}) : Heard{"start 1"});
    choices.start(strategy, 1);
    EXPECT_FALSE(choices.is_dismissed()) << "of another run";
  }
}

TEST(DeathsTest, ARankThatWasKilledByNameKeepsItsReasonInATeardown) {
  Deaths deaths;
  deaths.kill(Rank{1}, "out of memory");
  deaths.take_down(RankOutcome::kStuck, "stuck", EndReason::kLivelock);
  EXPECT_TRUE(deaths.is_taking_down());
  EXPECT_EQ(deaths.outcome(), RankOutcome::kStuck);
  EXPECT_EQ(deaths.reason_of(Rank{1}), "out of memory");
  EXPECT_EQ(deaths.why_of(Rank{1}), EndReason::kNone);
  EXPECT_EQ(deaths.reason_of(Rank{0}), "stuck");
  EXPECT_EQ(deaths.why_of(Rank{0}), EndReason::kLivelock);
}

TEST(ProgressTest, TheBudgetOfPointsCountsFromTheLastProgress) {
  Progress progress;
  for (int round = 0; round < 2; ++round) {
    EXPECT_TRUE(progress.spend_point(2));
    EXPECT_TRUE(progress.spend_point(2));
    EXPECT_FALSE(progress.spend_point(2));
    progress.note();
  }
}

// 64 polls and four a runnable rank: then time may pass.
TEST(ProgressTest, PollsInARowLetTimePassAndAnythingElseBetweenThemDoesNot) {
  constexpr std::size_t kReady = 3;
  Progress progress;
  for (int i = 0; i < 64 + 4 * 3; ++i) EXPECT_FALSE(progress.only_polls(true, kReady)) << i;
  EXPECT_TRUE(progress.only_polls(true, kReady));
  EXPECT_FALSE(progress.only_polls(false, kReady));
  EXPECT_FALSE(progress.only_polls(true, kReady));
}

TEST(ProgressTest, AThousandDaemonsAfterTheVerdictAreWaitedFor) {
  Progress progress;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(progress.may_wait_for_daemons());
    progress.note_daemons();
  }
  EXPECT_FALSE(progress.may_wait_for_daemons());
  progress.note_end();
  EXPECT_TRUE(progress.may_wait_for_daemons()) << "a rank has ended: something came of it";
}

TEST(TimersTest, EqualTimesComeOutAsTheyWentInAndDaemonsAloneKeepNothingAlive) {
  Timers timers;
  timers.push({.time = VirtualTime{5}, .rank = 1});
  timers.push({.time = VirtualTime{3}, .rank = 2, .daemon = true});
  timers.push({.time = VirtualTime{5}, .rank = 3, .daemon = true});
  EXPECT_FALSE(timers.only_daemons());
  EXPECT_EQ(timers.pop().rank, 2);
  EXPECT_EQ(timers.pop().rank, 1);
  EXPECT_TRUE(timers.only_daemons());
  EXPECT_EQ(timers.pop().rank, 3);
  EXPECT_TRUE(timers.empty());
}

TEST(TimersTest, HandlersNumbersAreUsedAgain) {
  TimerHandlers handlers;
  std::vector<int> called;
  const std::int32_t first = handlers.keep([&] { called.push_back(1); });
  const std::int32_t second = handlers.keep([&] { called.push_back(2); });
  EXPECT_NE(first, second);
  handlers.take(first)();
  EXPECT_EQ(handlers.keep([&] { called.push_back(3); }), first);
  handlers.take(second)();
  handlers.take(first)();
  EXPECT_EQ(called, (std::vector<int>{1, 2, 3}));
}

}  // namespace
}  // namespace lockstep::sim
