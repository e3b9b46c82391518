// Faults by rank and call: each does what its word says, to that call and no other.
#include <csignal>
#include <gmock/gmock.h>

#include <gtest/gtest.h>

#include "lockstep/sim/process/call_fault.h"

#include "tests/sim/process/coordinated.h"

namespace lockstep::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace testing;  // NOLINT(google-build-using-namespace): the clients' words.

/// Three all-reduces of two ranks; rank 0's sums. Rank r contributes r + 1.
struct Sums {
  std::vector<float> sums;
  std::vector<Answer> answers;
  std::vector<std::int64_t> times;
  Coordination found;
};

Sums three_sums(const std::vector<std::string>& faults, bool processes = false) {
  Sums run;
  CoordinatorOptions options;
  options.faults = faults;
  const RankProgram program = [&](RankClient& rank) {
    const std::int32_t group = rank.join();
    for (int call = 0; call < 3; ++call) {
      const Floats data = rank.floats({static_cast<float>(rank.rank() + 1)});
      const Answer answer = rank.call(all_reduce(group, data));
      if (rank.rank() == 0) {
        run.sums.push_back(data.values[0]);
        run.times.push_back(answer.now.ns);
      } else if (!processes) {
        run.answers.push_back(answer);
      }
      if (!answer.ok()) throw std::runtime_error(answer.text);
    }
  };
  run.found = processes ? coordinate_processes(2, options, program)
                        : coordinate_threads(2, options, program);
  return run;
}

TEST(ProcessFaultTest, WithoutOneNothingHappens) {
  const Sums run = three_sums({});
  EXPECT_THAT(run.sums, ElementsAre(3, 3, 3));
  EXPECT_THAT(run.times, ElementsAre(0, 0, 0));
  EXPECT_TRUE(run.found.struck.empty());
  EXPECT_EQ(run.found.outcome, CoordinationOutcome::kOk);
}

TEST(ProcessFaultTest, DoubleCountsTwice) {
  EXPECT_THAT(three_sums({"double:1:1"}).sums, ElementsAre(3, 5, 3));
}

TEST(ProcessFaultTest, CorruptFlipsABit) {
  // Bit 23 of a float is the lowest of its exponent: 2 becomes 4.
  EXPECT_THAT(three_sums({"corrupt:1:2:22"}).sums, ElementsAre(3, 3, 4));
}

TEST(ProcessFaultTest, DropIsAVerdictThatNamesTheLoss) {
  const Sums run = three_sums({"drop:1:1"});
  EXPECT_EQ(run.found.outcome, CoordinationOutcome::kDeadlock);
  EXPECT_THAT(run.found.wait_for,
              HasSubstr("lost: the contribution of rank 1 to all_reduce #1 of group 0"));
  EXPECT_EQ(run.found.struck.size(), 1U);
}

TEST(ProcessFaultTest, LateDelayAndSlowTakeVirtualTime) {
  constexpr std::int64_t kMs = 1'000'000;
  EXPECT_THAT(three_sums({"late:1:1:20"}).times.back(), 20 * kMs);
  EXPECT_THAT(three_sums({"delay:1:1:20"}).times, ElementsAre(0, 20 * kMs, 20 * kMs));
  EXPECT_THAT(three_sums({"slow:1:1:20"}).times, ElementsAre(0, 20 * kMs, 40 * kMs));
}

TEST(ProcessFaultTest, ASlowRankIsTheOneThatIsNamed) {
  const auto parsed = parse_call_faults({"slow:1:3:20"}, 2);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  ASSERT_EQ(parsed.value().slow.size(), 1U);
  EXPECT_EQ(parsed.value().slow[0].rank, 1);
  EXPECT_EQ(parsed.value().slow[0].first_call, 3);
  EXPECT_EQ(parsed.value().slow[0].delay.ns, 20'000'000);
}

TEST(ProcessFaultTest, AnExceptionComesInTheRanksCode) {
  const Sums run = three_sums({"exception:1:1"});
  ASSERT_EQ(run.answers.size(), 2U);
  EXPECT_TRUE(run.answers.back().is(CallProblem::kInjected));
  EXPECT_EQ(run.found.outcome, CoordinationOutcome::kFailed);
  EXPECT_EQ(run.found.first_failure, 1);
}

TEST(ProcessFaultTest, KillEndsTheProcess) {
  const Sums run = three_sums({"kill:1:1"}, true);
  EXPECT_EQ(run.found.outcome, CoordinationOutcome::kFailed);
  EXPECT_EQ(run.found.ends[1].exit.signal, SIGKILL);
  EXPECT_TRUE(run.found.ends[1].stopped);
  EXPECT_EQ(run.found.first_failure, 1);
}

TEST(ProcessFaultTest, AHangIsNamedAsOne) {
  const Sums run = three_sums({"hang:1:1"});
  EXPECT_EQ(run.found.outcome, CoordinationOutcome::kDeadlock);
  EXPECT_THAT(run.found.wait_for, HasSubstr("rank 1 waits for an injected hang"));
}

TEST(ProcessFaultTest, ATornWriteIsLeftToTheRank) {
  const auto parsed = parse_call_faults({"torn-write:1:4:30", "drop:0:2", "torn:0:0"}, 2);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  const CallFaults& all = parsed.value();
  ASSERT_EQ(all.torn.size(), 2U);
  EXPECT_EQ(all.torn[0].rank, 1);
  EXPECT_EQ(all.torn[0].save, 4);
  EXPECT_EQ(all.torn[0].percent, 30);
  EXPECT_EQ(all.torn[1].rank, 0);
  EXPECT_EQ(all.torn[1].save, 0);
  EXPECT_EQ(all.torn[1].percent, 50);
  EXPECT_EQ(all.faults.size(), 1U);
  EXPECT_TRUE(all.slow.empty());

  const Sums run = three_sums({"torn:1:1"});
  EXPECT_THAT(run.sums, ElementsAre(3, 3, 3));
  EXPECT_TRUE(run.found.struck.empty());
}

TEST(ProcessFaultTest, WrongWordsAreRefusedWithWhatIsMeant) {
  const auto text_of = [](std::string_view word) {
    const auto parsed = parse_call_faults({word}, 2);
    return parsed.ok() ? std::string() : parsed.error().message;
  };
  EXPECT_EQ(text_of("drop:1:0"), "");
  EXPECT_THAT(text_of("dorp:1:0"), HasSubstr("did you mean 'drop'?"));
  EXPECT_THAT(text_of("drop:2:0"), HasSubstr("'2' is not one of the 2 ranks"));
  EXPECT_THAT(text_of("drop:1:x"), HasSubstr("'x' is not a call's number"));
  EXPECT_THAT(text_of("drop:1"), HasSubstr("KIND:RANK:CALL"));
  EXPECT_THAT(text_of("corrupt:1:0:64"), HasSubstr("0 to 63"));
  EXPECT_EQ(text_of("torn:1:0:99"), "");
  EXPECT_THAT(text_of("torn:1:0:100"), HasSubstr("'100' is not an amount of 0 to 99"));
  EXPECT_THAT(text_of("torn:1:0:-1"), HasSubstr("0 to 99"));
  EXPECT_THAT(text_of("tornwrite:1:0"), HasSubstr("did you mean 'torn-write'?"));
  EXPECT_THAT(text_of("torn:2:0"), HasSubstr("'2' is not one of the 2 ranks"));
}

}  // namespace
}  // namespace lockstep::sim
