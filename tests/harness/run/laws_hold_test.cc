// What a user sees when laws are broken in a test: verdict, finding and replay token, without a line
// of their own; and what arrives when a rank throws.
#include <gmock/gmock.h>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include "lockstep/gtest.h"

namespace lockstep::testing {

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Rank 1 brings one element more than the others.
void mismatch(RankContext& context) {
  std::vector<float> data(context.rank() == 1 ? 5 : 4, 1.0F);
  context.world().all_reduce(Memory::of(std::span(data))).wait_or_throw();
}

void agree(RankContext& context) { context.world().barrier().wait_or_throw(); }

RunResult<void> run_of(void (*program)(RankContext&)) {
  return run_ranks({.ranks = 3, .schedule_seed = 5, .strategy = "random"}, program);
}

/// The messages of the failures in `body`, which are not this test's.
template <typename Body>
std::vector<std::string> failures_in(const Body& body) {
  ::testing::TestPartResultArray results;
  {
    const ::testing::ScopedFakeTestPartResultReporter reporter(
        ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
    body();
  }
  std::vector<std::string> messages;
  for (int i = 0; i < results.size(); ++i) {
    messages.emplace_back(results.GetTestPartResult(i).message());
  }
  return messages;
}

/// The token in "RunOptions::replay = "..."", as a user copies it.
std::string printed_token(const std::string& text) {
  std::smatch found;
  return std::regex_search(text, found, std::regex("RunOptions::replay = \"([^\"]+)\""))
             ? found[1].str()
             : "";
}

}  // namespace

TEST(LawsHoldTest, AFailureHasVerdictFindingAndReplayToken) {
  const RunResult<void> run = run_of(mismatch);

  const std::vector<std::string> messages = failures_in([&] { EXPECT_LAWS_HOLD(run); });

  ASSERT_EQ(messages.size(), 1U);
  EXPECT_THAT(messages[0],
              AllOf(HasSubstr("run_ranks (3 ranks): findings: 1 law broken"),
                    HasSubstr("Likely cause: shape-mismatch-completes. "),
                    HasSubstr("rank 1: "),
                    HasSubstr("(law COLLECTIVES-MATCH)"),
                    HasSubstr("Replay: the same options with RunOptions::replay = \"" +
                              run.replay_token() + "\"")));
  EXPECT_FALSE(run.replay_token().empty());
}

TEST(LawsHoldTest, IsSilentAboutLawsThatHold) {
  EXPECT_TRUE(failures_in([] { EXPECT_LAWS_HOLD(run_of(agree)); }).empty());
  EXPECT_TRUE(failures_in([] { ASSERT_LAWS_HOLD(run_of(agree)); }).empty());
}

TEST(LawsHoldTest, TheAssertionLeavesTheFunctionAndTheExpectationDoesNot) {
  bool went_on = false;
  EXPECT_EQ(failures_in([&] {
              EXPECT_LAWS_HOLD(run_of(mismatch));
              went_on = true;
            }).size(),
            1U);
  EXPECT_TRUE(went_on);
  went_on = false;
  EXPECT_EQ(failures_in([&] {
              ASSERT_LAWS_HOLD(run_of(mismatch));
              went_on = true;
            }).size(),
            1U);
  EXPECT_FALSE(went_on);
}

TEST(LawsHoldTest, ThePrintedTokenRepeatsTheRun) {
  const RunResult<void> run = run_of(mismatch);
  std::ostringstream printed;
  printed << run;
  const std::string token = printed_token(printed.str());
  ASSERT_EQ(token, run.replay_token());

  const RunResult<void> again = run_ranks({.ranks = 3, .replay = token}, mismatch);

  EXPECT_EQ(again.replay_token(), token);
  EXPECT_EQ(again.report.trace_digest, run.report.trace_digest);
  // Without it the schedule differs.
  const RunResult<void> other = run_ranks({.ranks = 3}, mismatch);
  EXPECT_NE(other.report.trace_digest, run.report.trace_digest);
}

TEST(LawsHoldTest, AHangIsAFailureToo) {
  const auto hang = [](RankContext& context) {
    if (context.rank() != 2) context.world().barrier().wait_or_throw();
  };
  const std::vector<std::string> messages =
      failures_in([&] { EXPECT_LAWS_HOLD(run_ranks({.ranks = 3}, hang)); });
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_THAT(messages[0],
              AllOf(HasSubstr("(3 ranks): hang: 1 law broken"),
                    HasSubstr("Missing: rank 2."),
                    HasSubstr("laws_hold_test.cc"),
                    HasSubstr("Replay: ")));
}

struct MyError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct NotStandard {
  int value;
};

/// Rank 1 fails between two barriers.
template <typename Exception>
auto failing_with(const Exception& exception) {
  return [exception](RankContext& context) {
    context.world().barrier().wait_or_throw();
    if (context.rank() == 1) throw Exception(exception);
    context.world().barrier().wait_or_throw();
  };
}

TEST(RankFailureTest, AnExceptionArrivesAsTheVeryTypeThatWasThrown) {
  EXPECT_THROW(run_ranks({.ranks = 3}, failing_with(MyError("out of memory"))), MyError);
  EXPECT_THROW(run_ranks({.ranks = 3}, failing_with(NotStandard{7})), NotStandard);
}

TEST(RankFailureTest, WithoutRethrowingItComesWithItsRankAndTheReportUntilThen) {
  const auto run =
      run_ranks({.ranks = 3, .rethrow = false}, failing_with(MyError("out of memory")));

  ASSERT_TRUE(run.failure.has_value());
  EXPECT_EQ(run.failure->rank, 1);
  EXPECT_THROW(std::rethrow_exception(run.failure->exception), MyError);
  EXPECT_EQ(run.report.outcome, RunOutcome::kError);
  EXPECT_EQ(run.report.error, "rank 1: out of memory");
  EXPECT_GT(run.report.n_events, 0);
  const std::vector<std::string> messages = failures_in([&] { EXPECT_LAWS_HOLD(run); });
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_THAT(messages[0],
              AllOf(HasSubstr("run_ranks (3 ranks): error: rank 1: out of memory"),
                    HasSubstr("RunOptions::replay = \"" + run.replay_token() + "\"")));
}

TEST(RankFailureTest, AnExceptionOfNoStandardTypeHasARankAsWell) {
  const auto run = run_ranks({.ranks = 3, .rethrow = false}, failing_with(NotStandard{7}));
  ASSERT_TRUE(run.failure.has_value());
  EXPECT_EQ(run.failure->rank, 1);
  EXPECT_THROW(std::rethrow_exception(run.failure->exception), NotStandard);
  EXPECT_FALSE(run.ok());
}

TEST(RankFailureTest, AFailedCollectiveIsAFindingAndNoFailureOfARank) {
  const auto run = run_ranks({.ranks = 3, .rethrow = false}, mismatch);
  EXPECT_FALSE(run.failure.has_value());
  EXPECT_EQ(run.report.outcome, RunOutcome::kFindings);
  EXPECT_FALSE(run_ranks({.ranks = 3, .rethrow = false}, agree).failure.has_value());
}

}  // namespace lockstep::testing
