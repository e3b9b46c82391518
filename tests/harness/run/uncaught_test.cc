// A rank throws and the program catches nothing: what the run has found is not lost.
#include <cstdlib>
#include <exception>
#include <gmock/gmock.h>
#include <stdexcept>

#include <gtest/gtest.h>

#include "lockstep/random/generator.h"
#include "lockstep/run.h"

#include "tests/harness/run/some_rows.h"

namespace lockstep {

namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Trains two steps at rates that differ between ranks, and dies of it.
void trained_apart(RankContext& rank) {
  Generator seed(1);
  nn::Linear model(rank.runtime(), 3, 1, seed);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), {.lr = rank.rank() == 0 ? 0.1 : 0.2});
  for (std::int64_t step = 0; step < 2; ++step) {
    optimizer.zero_grad();
    const Tensor y = testing::some_rows(rank, 1, step + 9);
    mse_loss(ddp(Variable(testing::some_rows(rank, 3, step))), y).backward();
    optimizer.step();
  }
  if (rank.rank() == 1) throw std::runtime_error("loss is not finite");
}

/// A main() without a handler. What std::terminate does afterwards is the process's own affair.
[[noreturn]] void run_uncaught() noexcept {
  run_ranks({.ranks = 2}, trained_apart);
  std::_Exit(0);
}

[[noreturn]] void catch_and_die() {
  try {
    run_ranks({.ranks = 2}, trained_apart);
  } catch (const std::runtime_error&) {
    std::fputs("caught\n", stderr);
  }
  std::terminate();
}

void throw_another() { throw std::runtime_error("another"); }

[[noreturn]] void die_of_another() noexcept {
  try {
    run_ranks({.ranks = 2}, trained_apart);
  } catch (const std::runtime_error&) {
    throw_another();
  }
  std::_Exit(0);
}

}  // namespace

TEST(UncaughtDeathTest, TheReportPrecedesTheEndOfTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(run_uncaught(), "error: rank 1: loss is not finite");
  EXPECT_DEATH(run_uncaught(), "OPTIMIZER-EQUAL");
  EXPECT_DEATH(run_uncaught(), "terminate called after throwing");
}

TEST(UncaughtDeathTest, NothingIsPrintedOfAnExceptionThatTheProgramCaught) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(catch_and_die(), ::testing::AllOf(HasSubstr("caught"), Not(HasSubstr("rank 1"))));
  EXPECT_DEATH(die_of_another(), ::testing::AllOf(HasSubstr("another"), Not(HasSubstr("rank 1"))));
}

TEST(UncaughtTest, ACaughtExceptionHasTheReport) {
  const Report* report = nullptr;
  try {
    run_ranks({.ranks = 2}, trained_apart);
  } catch (const std::runtime_error&) {
    report = report_of(std::current_exception());
  }
  ASSERT_NE(report, nullptr);
  EXPECT_FALSE(report->ok());
  const std::string text = render_text(*report, false);
  EXPECT_THAT(text, HasSubstr("error: rank 1: loss is not finite"));
  EXPECT_THAT(text, HasSubstr("OPTIMIZER-EQUAL"));
}

TEST(UncaughtTest, OtherExceptionsHaveNoReport) {
  EXPECT_EQ(report_of(std::make_exception_ptr(std::runtime_error("mine"))), nullptr);
  EXPECT_EQ(report_of(nullptr), nullptr);
  try {
    run_ranks({.ranks = 2}, trained_apart);
  } catch (const std::runtime_error&) {
    try {
      throw std::logic_error("mine");
    } catch (const std::logic_error&) {
      EXPECT_EQ(report_of(std::current_exception()), nullptr);
    }
  }
}

// Its text is another than what the rank threw; it has a report all the same.
TEST(UncaughtTest, ARefusedCallHasAReport) {
  try {
    run_ranks({.ranks = 2}, [](RankContext& rank) {
      float value = 1.0F;
      rank.world().broadcast(Memory::of(value), 7).wait_or_throw();
    });
  } catch (const ContractViolation& refused) {
    EXPECT_THAT(refused.what(), HasSubstr("uncaught_test.cc:"));
    ASSERT_NE(report_of(std::current_exception()), nullptr);
  }
}

}  // namespace lockstep
