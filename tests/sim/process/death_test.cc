// Processes that die, speak nonsense or sleep elsewhere; and the coordinator's own death.
#include <condition_variable>
#include <csignal>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <mutex>
#include <sys/wait.h>

#include <gtest/gtest.h>

#include "tests/sim/process/coordinated.h"

namespace lockstep::sim {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace testing;  // NOLINT(google-build-using-namespace): the clients' words.

void train(RankClient& rank, int n_steps) {
  const std::int32_t group = rank.join();
  for (int i = 0; i < n_steps; ++i) {
    rank.free_all();
    const Floats data = rank.floats({1});
    const Answer answer = rank.call(all_reduce(group, data));
    if (!answer.ok()) throw std::runtime_error(answer.text);
  }
}

TEST(ProcessDeathTest, AKilledProcessIsNamedWithItsSignal) {
  const Coordination found = coordinate_processes(3, {}, [](RankClient& rank) {
    train(rank, 3);
    if (rank.rank() == 1) ::kill(::getpid(), SIGKILL);
    train(rank, 0);
  });
  EXPECT_EQ(found.outcome, CoordinationOutcome::kFailed);
  EXPECT_EQ(found.first_failure, 1);
  EXPECT_EQ(found.ends[1].exit.signal, SIGKILL);
  EXPECT_FALSE(found.ends[1].stopped);
  EXPECT_THAT(found.error, HasSubstr("ended by signal 9"));
}

TEST(ProcessDeathTest, KillingARankAtAnyRequestNeverHangsTheOthers) {
  for (int at = 0; at < 8; ++at) {
    const Coordination found = coordinate_processes(3, {}, [at](RankClient& rank) {
      if (rank.rank() == 2) {
        rank.before_send = [at, n_sent = 0]() mutable {
          if (n_sent++ == at) ::kill(::getpid(), SIGKILL);
        };
      }
      train(rank, 5);
    });
    EXPECT_EQ(found.first_failure, 2) << "killed at request " << at;
    EXPECT_EQ(found.ends[2].exit.signal, SIGKILL);
    EXPECT_EQ(found.ends[2].outcome, RankOutcome::kKilled);
    EXPECT_THAT(found.ends[0].text, HasSubstr("rank 2 was killed")) << "killed at request " << at;
  }
}

TEST(ProcessDeathTest, ExitCodesAreKept) {
  const Coordination found = coordinate_processes(2, {}, [](RankClient& rank) {
    rank.join();
    if (rank.rank() == 1) ::_exit(42);
  });
  EXPECT_EQ(found.ends[1].exit.code, 42);
  EXPECT_EQ(found.first_failure, 1);
  const Coordination quiet = coordinate_processes(2, {}, [](RankClient& rank) {
    rank.join();
    if (rank.rank() == 1) ::_exit(0);
  });
  EXPECT_EQ(quiet.outcome, CoordinationOutcome::kOk);
}

TEST(ProcessDeathTest, NonsenseEndsItsSenderAndNoOther) {
  const std::vector<std::string> nonsense = {
      std::string("\x63\0\0\0\0\0\0\0", 8),
      "x",
      std::string("\x02\0\0\0\0\0\0\0short", 13),
      std::string("\x05\0\0\0\0\0\0\0\0\0\0\0\xff\xff\xff\xff", 16),
      std::string("\x07\0\0\0\0\0\0\0\x63", 9),
      std::string(1000, '\xff'),
  };
  for (const std::string& packet : nonsense) {
    const Coordination found = coordinate_processes(2, {}, [&](RankClient& rank) {
      rank.join();
      if (rank.rank() == 1) {
        rank.send_packet(packet);
        rank.point({});
      }
    });
    EXPECT_EQ(found.ends[0].outcome, RankOutcome::kFinished);
    EXPECT_EQ(found.ends[1].outcome, RankOutcome::kKilled);
    EXPECT_EQ(found.first_failure, 1);
    EXPECT_THAT(found.error, HasSubstr("sent what is not a request"));
  }
}

TEST(ProcessDeathTest, AProcessThatOnlyClosesItsSocketIsEnded) {
  CoordinatorOptions options;
  options.outside.grace_ms = 50;
  const Coordination found = coordinate_processes(2, options, [](RankClient& rank) {
    rank.join();
    if (rank.rank() != 1) return;
    ::close(rank.socket());
    for (;;) ::pause();
  });
  EXPECT_EQ(found.ends[1].exit.signal, SIGKILL);
  EXPECT_EQ(found.ends[0].outcome, RankOutcome::kFinished);
}

TEST(ProcessDeathTest, AProcessThatIgnoresStopIsEndedAfterTheGracePeriod) {
  CoordinatorOptions options;
  options.outside.grace_ms = 50;
  const Coordination found = coordinate_processes(2, options, [](RankClient& rank) {
    const std::int32_t group = rank.join();
    if (rank.rank() == 1) return;
    try {
      (void)rank.call(barrier(group));
    } catch (const Stopped&) {
      for (;;) ::pause();
    }
  });
  EXPECT_EQ(found.outcome, CoordinationOutcome::kDeadlock);
  EXPECT_EQ(found.ends[0].exit.signal, SIGKILL);
}

// Rank 1 sleeps in a read that only rank 0 can end, which waits for a collective of both: the pipe
// lies outside.
TEST(ProcessDeathTest, OthersGoOnWithoutAProcessThatSleepsOutside) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe(ends), 0);
  CoordinatorOptions options;
  options.outside.asleep_ms = 100;
  const Coordination found = coordinate_processes(2, options, [&](RankClient& rank) {
    const std::int32_t group = rank.join();
    char byte = 'x';
    if (rank.rank() == 1) {
      if (::read(ends[0], &byte, 1) != 1) throw std::runtime_error("nothing came");
    } else {
      rank.sleep(1000);
      if (::write(ends[1], &byte, 1) != 1) throw std::runtime_error("nothing went");
    }
    if (!rank.call(barrier(group)).ok()) throw std::runtime_error("no barrier");
  });
  ::close(ends[0]);
  ::close(ends[1]);
  EXPECT_EQ(found.outcome, CoordinationOutcome::kOk) << found.error;
  ASSERT_EQ(found.notes.size(), 1U);
  EXPECT_THAT(
      found.notes[0],
      AllOf(HasSubstr("rank 1 slept outside"), HasSubstr("depends on the machine's timing")));
}

/// Rank 0 waits in a barrier, rank 1 in `sleep`.
Coordination one_asleep(std::int32_t verdict_ms, const std::function<void()>& sleep) {
  CoordinatorOptions options;
  options.outside.asleep_ms = 100;
  options.outside.verdict_ms = verdict_ms;
  return coordinate_processes(2, options, [&](RankClient& rank) {
    const std::int32_t group = rank.join();
    if (rank.rank() == 1) sleep();
    if (!rank.call(barrier(group), 12).ok()) throw std::runtime_error("no barrier");
  });
}

TEST(ProcessDeathTest, AProcessThatWaitsForItsOwnThreadsForeverIsPartOfTheVerdict) {
  const Coordination found = one_asleep(0, [] {
    std::mutex mutex;
    std::condition_variable never;
    std::thread waits([&] {
      std::unique_lock lock(mutex);
      never.wait(lock, [] { return false; });
    });
    waits.join();
  });
  EXPECT_EQ(found.outcome, CoordinationOutcome::kDeadlock);
  EXPECT_THAT(found.wait_for,
              AllOf(HasSubstr("barrier #0 of group 0 at train.py:12; missing: rank 1"),
                    HasSubstr("rank 1 waits for code outside Lockstep's calls")));
}

TEST(ProcessDeathTest, AProcessThatSomethingElseMayWakeIsWaitedFor) {
  const auto nap = [] {
    for (int slice = 0; slice < 4; ++slice) ::usleep(200'000);
  };
  const Coordination patient = one_asleep(0, nap);
  EXPECT_EQ(patient.outcome, CoordinationOutcome::kOk) << patient.wait_for;
  const Coordination limited = one_asleep(300, [] {
    for (;;) ::pause();
  });
  EXPECT_EQ(limited.outcome, CoordinationOutcome::kDeadlock);
}

TEST(ProcessDeathTest, KillingTheCoordinatorLeavesNoProcess) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const int coordinator = ::fork();
  if (coordinator == 0) {
    Ensemble ensemble(3);
    const std::vector<int> pids = fork_ranks(ensemble, [&](RankClient& rank) {
      train(rank, 1);
      // The parent's end of the pipe closes when the last rank is gone.
      if (rank.rank() == 0 && ::write(ends[1], "x", 1) != 1) throw std::runtime_error("no pipe");
      train(rank, 1 << 30);
    });
    CoordinatorOptions options;
    for (int rank = 0; rank < 3; ++rank) {
      options.processes.push_back(ensemble.handles(rank, pids[static_cast<std::size_t>(rank)]));
      ensemble.close_theirs(rank);
    }
    ::close(ends[1]);
    (void)coordinate(std::move(options));
    ::_exit(0);
  }
  ::close(ends[1]);
  char byte = 0;
  ASSERT_EQ(::read(ends[0], &byte, 1), 1);
  ::kill(coordinator, SIGKILL);
  int status = 0;
  ::waitpid(coordinator, &status, 0);
  EXPECT_EQ(::read(ends[0], &byte, 1), 0) << "all ranks have closed it: they have ended";
  ::close(ends[0]);
}

TEST(ProcessDeathTest, AnInterruptStopsEveryRankAndNotTheCoordinator) {
  CoordinatorOptions options;
  options.take_signals = true;
  const int self = ::getpid();
  const Coordination found = coordinate_processes(2, options, [self](RankClient& rank) {
    train(rank, 2);
    if (rank.rank() == 1) ::kill(self, SIGINT);
    for (;;) rank.sleep(1);
  });
  EXPECT_EQ(found.outcome, CoordinationOutcome::kInterrupted);
  EXPECT_EQ(found.signal, SIGINT);
  for (const RankEnding& end : found.ends) EXPECT_TRUE(end.stopped);
}

}  // namespace
}  // namespace lockstep::sim
