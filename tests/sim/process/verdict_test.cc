// What is said when ranks cannot go on, and when they fail; and that healthy ones hear nothing.
#include <csignal>
#include <gmock/gmock.h>

#include <gtest/gtest.h>

#include "tests/sim/process/coordinated.h"

namespace lockstep::sim {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace testing;  // NOLINT(google-build-using-namespace): the clients' words.

constexpr std::int64_t kTimeout = 5'000'000;

TEST(ProcessVerdictTest, AMissingRankIsNamedWithBothPlacesAndAllStacks) {
  const Coordination found = coordinate_threads(3, [](RankClient& rank) {
    const std::int32_t group = rank.join();
    const std::int32_t pair = RankClient::handle(rank.open("7", {0, 1, 2}));
    const Floats data = rank.floats({1});
    if (rank.rank() == 2) {
      (void)rank.call(all_reduce(pair, data), 33);
    } else {
      (void)rank.call(all_reduce(group, data), 22);
    }
    FAIL() << "no call ends";
  });
  EXPECT_EQ(found.outcome, CoordinationOutcome::kDeadlock);
  EXPECT_THAT(found.wait_for,
              AllOf(HasSubstr("ranks 0, 1 wait for all_reduce #0 of group 0 (1 x f32) at "
                              "train.py:22; missing: rank 2"),
                    HasSubstr("all_reduce #0 of group 7 (1 x f32) at train.py:33")));
  for (int rank = 0; rank < 3; ++rank) {
    const RankEnding& end = found.ends[static_cast<std::size_t>(rank)];
    EXPECT_EQ(end.stack, "stack of rank " + std::to_string(rank));
    EXPECT_EQ(end.outcome, RankOutcome::kStuck);
    EXPECT_TRUE(end.stopped);
  }
}

TEST(ProcessVerdictTest, TheTextComesWithStop) {
  std::string text;
  coordinate_threads(2, [&](RankClient& rank) {
    const std::int32_t group = rank.join();
    if (rank.rank() == 1) return;
    try {
      (void)rank.call(barrier(group), 5);
    } catch (const Stopped& stopped) {
      text = stopped.what();
      throw;
    }
  });
  EXPECT_THAT(text,
              AllOf(HasSubstr("deadlock"),
                    HasSubstr("barrier #0 of group 0 at train.py:5; missing: rank 1, which ended "
                              "normally")));
}

TEST(ProcessVerdictTest, ACycleOfMessagesIsADeadlock) {
  const Coordination found = coordinate_threads(2, [](RankClient& rank) {
    const std::int32_t group = rank.join();
    const Floats data = rank.floats({1});
    (void)rank.call(recv_from(group, data, 1 - rank.rank()), 10 + rank.rank());
  });
  EXPECT_EQ(found.outcome, CoordinationOutcome::kDeadlock);
  EXPECT_THAT(found.wait_for, HasSubstr("cycle: rank 0 -> rank 1 -> rank 0"));
}

TEST(ProcessVerdictTest, MismatchesFailOnBothSidesWithBothPlaces) {
  std::vector<Answer> answers(2);
  const Coordination found = coordinate_threads(2, [&](RankClient& rank) {
    const std::int32_t group = rank.join();
    const Floats data = rank.floats({1, 2});
    Answer& answer = answers[static_cast<std::size_t>(rank.rank())];
    answer = rank.rank() == 0 ? rank.call(all_reduce(group, data), 31)
                              : rank.call(broadcast(group, data, 0), 26);
    rank.end(1, "RuntimeError: " + answer.text);
    throw Stopped("enough");
  });
  for (const Answer& answer : answers) {
    EXPECT_TRUE(answer.is(CommStatus::kMismatch));
    EXPECT_THAT(answer.text,
                AllOf(HasSubstr("op differs"), HasSubstr("train.py:31"), HasSubstr("train.py:26")));
  }
  EXPECT_EQ(found.outcome, CoordinationOutcome::kFailed);
}

TEST(ProcessVerdictTest, AKeyThatNoRankSetsIsWaitedForByName) {
  const Coordination found = coordinate_threads(2, [](RankClient& rank) {
    const std::int32_t group = rank.join();
    if (rank.rank() == 0) {
      (void)rank.store({.op = StoreOp::kWait, .key = std::string("a\0b", 3)});
    } else {
      (void)rank.call(barrier(group));
    }
  });
  EXPECT_EQ(found.outcome, CoordinationOutcome::kDeadlock);
  EXPECT_THAT(found.wait_for,
              HasSubstr("rank 0 waits for keys 'a', 'b' of the store at train.py:20"));
}

TEST(ProcessVerdictTest, RanksThatOnlySleepAndAskAreALivelock) {
  CoordinatorOptions options;
  options.most_naps = 500;
  const Coordination found = coordinate_threads(2, options, [](RankClient& rank) {
    const std::int32_t group = rank.join();
    if (rank.rank() == 1) (void)rank.call(barrier(group), 8);
    for (;;) rank.sleep(1000);
  });
  EXPECT_EQ(found.outcome, CoordinationOutcome::kLivelock);
  EXPECT_THAT(found.wait_for, HasSubstr("rank 1 waits for barrier #0 of group 0 at train.py:8"));
  EXPECT_EQ(found.ends[0].stack, "stack of rank 0");
}

TEST(ProcessVerdictTest, SleepingALotIsNotALivelockWhileOthersWork) {
  CoordinatorOptions options;
  options.most_naps = 500;
  const Coordination found = coordinate_threads(2, options, [](RankClient& rank) {
    rank.join();
    for (int i = 0; i < 2000; ++i) {
      if (rank.rank() == 0) {
        rank.sleep(1000);
      } else {
        rank.sleep(100'000);
        rank.store({.op = StoreOp::kSet, .key = "beat", .value = std::to_string(i)});
        if (i == 19) return;
      }
    }
  });
  EXPECT_EQ(found.outcome, CoordinationOutcome::kOk) << "a beat every hundred naps";
  options.most_naps = 3000;
  const Coordination longer = coordinate_threads(2, options, [](RankClient& rank) {
    rank.join();
    for (int i = 0; i < 2000; ++i) rank.sleep(1000);
  });
  EXPECT_EQ(longer.outcome, CoordinationOutcome::kLivelock) << "4000 naps of two ranks";
  options.most_naps = 5000;
  const Coordination ends = coordinate_threads(2, options, [](RankClient& rank) {
    rank.join();
    for (int i = 0; i < 2000; ++i) rank.sleep(1000);
  });
  EXPECT_EQ(ends.outcome, CoordinationOutcome::kOk);
}

TEST(ProcessVerdictTest, TimeoutsPassOnlyWhereTheyAreMeantTo) {
  const auto lone_barrier = [](RankClient& rank) {
    const std::int32_t group = rank.join();
    if (rank.rank() == 1) return;
    PostRequest request = barrier(group);
    request.timeout_ns = kTimeout;
    const Answer answer = rank.call(request);
    EXPECT_TRUE(answer.is(CommStatus::kTimedOut));
    EXPECT_EQ(answer.now.ns, kTimeout);
  };
  CoordinatorOptions options;
  EXPECT_EQ(coordinate_threads(2, options, lone_barrier).outcome, CoordinationOutcome::kDeadlock);
  options.expires = true;
  EXPECT_EQ(coordinate_threads(2, options, lone_barrier).outcome, CoordinationOutcome::kOk);
}

TEST(ProcessVerdictTest, AnExceptionIsTheFirstFailureAndItsPeersLearnOfIt) {
  std::string text;
  const Coordination found = coordinate_threads(2, [&](RankClient& rank) {
    const std::int32_t group = rank.join();
    if (rank.rank() == 1) throw std::runtime_error("ValueError: odd batch");
    const Answer answer = rank.call(barrier(group));
    EXPECT_TRUE(answer.is(CommStatus::kPeerLost));
    text = answer.text;
    throw std::runtime_error("DistBackendError: " + text);
  });
  EXPECT_THAT(text, HasSubstr("rank 1 threw: ValueError: odd batch"));
  EXPECT_EQ(found.outcome, CoordinationOutcome::kFailed);
  EXPECT_EQ(found.first_failure, 1);
  EXPECT_EQ(found.error, "rank 1: ValueError: odd batch");
}

TEST(ProcessVerdictTest, HealthyRanksAreNotStopped) {
  const Coordination found = coordinate_threads(4, [](RankClient& rank) {
    const std::int32_t group = rank.join();
    for (int i = 0; i < 50; ++i) EXPECT_TRUE(rank.call(barrier(group)).ok());
  });
  EXPECT_EQ(found.outcome, CoordinationOutcome::kOk);
  EXPECT_THAT(found.wait_for, IsEmpty());
  EXPECT_THAT(found.notes, IsEmpty());
  EXPECT_EQ(found.first_failure, std::nullopt);
  for (const RankEnding& end : found.ends) EXPECT_FALSE(end.stopped);
}

}  // namespace
}  // namespace lockstep::sim
