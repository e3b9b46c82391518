// Deadlines in virtual time, and the barrier that is made of them.
#include <gmock/gmock.h>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/collectives/monitored_barrier.h"

#include "tests/sim/group/group_fixture.h"

namespace lockstep::sim {
namespace {

using ::testing::HasSubstr;
using testing::ones;
using testing::run_groups;
using ::testing::StartsWith;

constexpr Duration kMillisecond{1'000'000};

OpOptions within(Duration span) { return {.timeout = span}; }

TEST(DeadlineTest, ACollectiveEndsForAllWhenTheFirstDeadlinePasses) {
  std::vector<std::string> details(3);
  std::vector<std::int64_t> ended(3);
  run_groups({.n_ranks = 3, .keep_going = true}, [&](ProcessGroup& group, RankHandle& rank) {
    if (group.rank() == 2) return;
    const Tensor data = ones(group, 4);
    const Duration span{kMillisecond.ns * (group.rank() + 5)};
    const Work work = group.all_reduce(Memory::of(data), ReduceOp::kSum, within(span));
    EXPECT_EQ(work.wait(), CommStatus::kTimedOut);
    details[to_index(rank.rank())] = work.detail();
    ended[to_index(rank.rank())] = rank.now().ns;
  });
  for (const std::size_t r : {0U, 1U}) {
    EXPECT_EQ(details[r], "the deadline of rank 0 passed; missing: rank 2, which ended normally");
    EXPECT_EQ(ended[r], 5 * kMillisecond.ns);
  }
}

TEST(DeadlineTest, ALateRankFailsAtOnce) {
  run_groups({.keep_going = true}, [&](ProcessGroup& group, RankHandle& rank) {
    if (group.rank() == 1) rank.sleep({9 * kMillisecond.ns});
    const Tensor data = ones(group, 4);
    const Work work = group.all_reduce(Memory::of(data), ReduceOp::kSum, within(kMillisecond));
    EXPECT_EQ(work.wait(), CommStatus::kTimedOut);
    EXPECT_EQ(work.detail(), "the deadline of rank 0 passed; late: rank 1, which has not come yet");
    EXPECT_EQ(rank.now().ns, (group.rank() == 1 ? 9 : 1) * kMillisecond.ns);
    EXPECT_EQ(data.at(0), 1.0);  // Nothing was reduced.
    // The group stays usable: later operations match again.
    EXPECT_EQ(group.all_reduce(Memory::of(data)).wait(), CommStatus::kOk);
    EXPECT_EQ(data.at(0), 2.0);
  });
}

// Rank 0 came first, with another size, and has ended.
TEST(DeadlineTest, ACallThatItsRankGaveUpIsNotWhatLaterOnesAreComparedWith) {
  std::vector<std::string> details(3);
  run_groups({.n_ranks = 3, .keep_going = true}, [&](ProcessGroup& group, RankHandle& rank) {
    if (group.rank() == 0) {
      const Tensor data = ones(group, 4);
      (void)group.all_reduce(Memory::of(data));
      return;
    }
    rank.sleep({kMillisecond.ns * group.rank()});
    // Something else takes the place of what has ended.
    const Tensor never = ones(group, 1);
    const Work open = group.recv(Memory::of(never), 0);
    const Tensor data = ones(group, 8);
    const Work work =
        group.all_reduce(Memory::of(data), ReduceOp::kSum, within({kMillisecond.ns * 9}));
    EXPECT_EQ(work.wait(), CommStatus::kTimedOut);
    details[to_index(rank.rank())] = work.detail();
  });
  for (const std::size_t r : {1U, 2U}) {
    EXPECT_EQ(details[r], "the deadline of rank 1 passed; missing: rank 0, which ended normally");
  }
}

TEST(DeadlineTest, MessagesHaveDeadlinesToo) {
  run_groups({.keep_going = true}, [&](ProcessGroup& group, RankHandle& rank) {
    if (group.rank() == 1) return;
    const Tensor data = ones(group, 1);
    EXPECT_EQ(group.recv(Memory::of(data), 1, 0, within(kMillisecond)).wait(),
              CommStatus::kTimedOut);
    EXPECT_EQ(group.recv_any_source(Memory::of(data), 0, within(kMillisecond)).wait(),
              CommStatus::kTimedOut);
    EXPECT_EQ(group.send(Memory::of(data), 1, 0, within(kMillisecond)).wait(),
              CommStatus::kTimedOut);
    EXPECT_EQ(rank.now().ns, 3 * kMillisecond.ns);
  });
}

TEST(DeadlineTest, WithoutAWatchdogTheWorldIsStuck) {
  const auto run = run_groups({}, [&](ProcessGroup& group, RankHandle&) {
    const Tensor data = ones(group, 1);
    if (group.rank() == 0) (void)group.recv_any_source(Memory::of(data), 7).wait();
  });
  ASSERT_TRUE(run.world.stuck.has_value());
  EXPECT_THAT(run.explanation, HasSubstr("recv #0 of group 0 (1 x f32) from any rank tag 7"));
}

// -- monitored barriers

struct Outcome {
  std::vector<std::string> texts;
  std::vector<std::vector<std::int32_t>> missing;
  std::vector<std::int64_t> ended;
};

// Ranks in `absent` do not come; the others wait 700 ms.
Outcome monitored(std::int32_t n_ranks, const std::vector<std::int32_t>& absent, bool wait_all) {
  const auto n = static_cast<std::size_t>(n_ranks);
  Outcome outcome{std::vector<std::string>(n), {}, std::vector<std::int64_t>(n)};
  outcome.missing.resize(n);
  run_groups({.n_ranks = n_ranks, .keep_going = true}, [&](ProcessGroup& group, RankHandle& rank) {
    if (std::find(absent.begin(), absent.end(), group.rank()) != absent.end()) return;
    const std::size_t r = to_index(rank.rank());
    try {
      monitored_barrier(group, {700 * kMillisecond.ns}, wait_all);
    } catch (const MonitoredBarrierError& error) {
      EXPECT_EQ(error.status(), CommStatus::kTimedOut);
      outcome.texts[r] = error.what();
      outcome.missing[r] = error.missing();
    }
    outcome.ended[r] = rank.now().ns;
  });
  return outcome;
}

// Recorded from PyTorch 1.13 on gloo; what follows "Original exception" is the transport's.
constexpr const char* kRankTwo =
    "Rank 2 successfully reached monitoredBarrier, but received errors while waiting for send/recv "
    "from rank 0. Please check rank 0 logs for faulty rank.\n Original exception: \n";

TEST(MonitoredBarrierTest, NamesTheFirstMissingRank) {
  const Outcome outcome = monitored(4, {1, 3}, false);
  EXPECT_THAT(outcome.texts[0],
              StartsWith("[Rank 0]: Rank 1 failed to pass monitoredBarrier in 700 ms\n Original "
                         "exception: \n"));
  EXPECT_EQ(outcome.missing[0], (std::vector<std::int32_t>{1}));
  EXPECT_THAT(outcome.texts[2], StartsWith(kRankTwo));
  EXPECT_EQ(outcome.ended[0], 700 * kMillisecond.ns);
}

TEST(MonitoredBarrierTest, NamesAllMissingRanksWhenAsked) {
  const Outcome outcome = monitored(4, {1, 3}, true);
  EXPECT_EQ(outcome.texts[0], "[Rank 0]: Ranks 1, 3 failed to pass monitoredBarrier in 700 ms");
  EXPECT_EQ(outcome.missing[0], (std::vector<std::int32_t>{1, 3}));
  EXPECT_THAT(outcome.texts[2], StartsWith(kRankTwo));
  // Each of them got its 700 ms.
  EXPECT_EQ(outcome.ended[0], 1400 * kMillisecond.ns);
}

TEST(MonitoredBarrierTest, TheOthersReferToRankZero) {
  const Outcome outcome = monitored(3, {0}, false);
  EXPECT_THAT(outcome.texts[2], StartsWith(kRankTwo));
  EXPECT_TRUE(outcome.missing[2].empty());
}

TEST(MonitoredBarrierTest, LetsAllRanksPassOnceAllArrive) {
  const Outcome outcome = monitored(4, {}, false);
  EXPECT_EQ(outcome.texts, std::vector<std::string>(4));
  EXPECT_EQ(outcome.ended, std::vector<std::int64_t>(4, 0));
}

}  // namespace
}  // namespace lockstep::sim
