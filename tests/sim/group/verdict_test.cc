#include <gmock/gmock.h>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/tensor/in_flight.h"
#include "lockstep/trace/memory_trace.h"

#include "tests/sim/group/group_fixture.h"

namespace lockstep::sim {
namespace {

using testing::at;
using testing::GroupRun;
using ::testing::HasSubstr;
using testing::ones;
using testing::run_groups;

TEST(VerdictTest, NamesTheMissingRankAndWhatItDoesInstead) {
  const GroupRun run = run_groups({.n_ranks = 3}, [](ProcessGroup& group, RankHandle&) {
    const Tensor data = ones(group, 2);
    if (group.rank() == 2) return (void)group.recv(Memory::of(data), 0, 7, at("p2p.cc", 9)).wait();
    (void)group.all_reduce(Memory::of(data), ReduceOp::kSum, at("train.cc", 5)).wait();
  });
  ASSERT_TRUE(run.world.stuck.has_value());
  EXPECT_EQ(
      run.explanation,
      "ranks 0, 1 wait for all_reduce #0 of group 0 (2 x f32) at train.cc:5; missing: rank 2, "
      "which waits in recv #0 of group 0 (2 x f32) tag 7 at p2p.cc:9\n"
      "rank 2 waits for recv #0 of group 0 (2 x f32) tag 7 at p2p.cc:9; missing: rank 0, "
      "which waits in all_reduce #0 of group 0 (2 x f32) at train.cc:5\n"
      "cycle: rank 0 -> rank 2 -> rank 0\n");
  EXPECT_EQ(run.missing, (std::vector<std::int32_t>{0, 2}));
}

TEST(VerdictTest, FindsCyclesOverSeveralGroups) {
  const GroupRun run = run_groups({.n_ranks = 2}, [](ProcessGroup& group, RankHandle&) {
    const std::int32_t all[] = {0, 1};
    const auto first = group.split(all);
    const auto second = group.split(all);
    ProcessGroup& before = group.rank() == 0 ? *first : *second;
    ProcessGroup& after = group.rank() == 0 ? *second : *first;
    (void)before.barrier(at("a.cc", 1)).wait();
    (void)after.barrier(at("a.cc", 2)).wait();
  });
  ASSERT_TRUE(run.world.stuck.has_value());
  EXPECT_THAT(run.explanation, HasSubstr("cycle: rank 0 -> rank 1 -> rank 0"));
  EXPECT_THAT(run.explanation, HasSubstr("barrier #0 of group 1"));
  EXPECT_THAT(run.explanation, HasSubstr("barrier #0 of group 2"));
}

TEST(VerdictTest, ALateRankIsNotAMissingOne) {
  const GroupRun run = run_groups({.n_ranks = 3}, [](ProcessGroup& group, RankHandle& rank) {
    if (group.rank() == 1) rank.sleep({1'000'000'000'000});
    EXPECT_EQ(group.barrier().wait(), CommStatus::kOk);
  });
  EXPECT_FALSE(run.world.stuck.has_value());
}

TEST(VerdictTest, PeersOfADeadRankAreNotified) {
  for (const bool killed : {false, true}) {
    std::vector<CommStatus> statuses(3, CommStatus::kOk);
    const GroupRun run =
        run_groups({.n_ranks = 3, .keep_going = true}, [&](ProcessGroup& group, RankHandle& rank) {
          const Tensor data = ones(group, 2);
          ASSERT_EQ(group.barrier().wait(), CommStatus::kOk);
          if (group.rank() == 1 && killed) rank.world().kill(Rank{1}, "SIGKILL");
          if (group.rank() == 1 && !killed) throw std::runtime_error("out of memory");
          const Work work = group.all_reduce(Memory::of(data));
          statuses[to_index(rank.rank())] = work.wait();
          try {
            work.wait_or_throw();
          } catch (const CommError& error) {
            EXPECT_THAT(
                error.what(),
                HasSubstr(killed ? "rank 1 was killed: SIGKILL" : "rank 1 threw: out of memory"));
          }
        });
    EXPECT_EQ(statuses[0], CommStatus::kPeerLost);
    EXPECT_EQ(statuses[2], CommStatus::kPeerLost);
    EXPECT_FALSE(run.world.stuck.has_value());
    EXPECT_EQ(run.world.ends[0].outcome, RankOutcome::kFinished);
  }
}

// A rank that ended without waiting gave its contribution if the others had arrived; never its
// freed memory.
TEST(VerdictTest, ARankThatEndsTakesItsPendingWorkAlong) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    std::vector<double> seen(2, 0.0);
    const GroupRun run =
        run_groups({}, *make_random(seed), [&](ProcessGroup& group, RankHandle& rank) {
          const Tensor data = ones(group, 64);
          const Work work = group.all_reduce(Memory::of(data));
          if (group.rank() == 0) return;
          if (work.wait() == CommStatus::kOk) seen[to_index(rank.rank())] = data.at(63);
        });
    if (run.world.stuck.has_value()) {
      EXPECT_EQ(run.missing, std::vector<std::int32_t>{0});
    } else {
      EXPECT_EQ(seen[1], 2.0);
    }
  }
}

// Quadratic work here would take minutes; the text stays readable.
TEST(VerdictTest, TwentyThousandWaitingRanksAreOneStory) {
  const GroupRun run = run_groups({.n_ranks = 20'000}, [](ProcessGroup& group, RankHandle&) {
    if (group.rank() != 12'345) (void)group.barrier(at("train.cc", 5)).wait();
  });
  ASSERT_TRUE(run.world.stuck.has_value());
  EXPECT_EQ(run.missing, std::vector<std::int32_t>{12'345});
  EXPECT_EQ(
      run.explanation,
      "ranks 0-12344, 12346-19999 wait for barrier #0 of group 0 at train.cc:5; missing: rank "
      "12345, which ended normally\n");
}

TEST(VerdictTest, PendingWorksOwnTheirMemory) {
  run_groups({}, [](ProcessGroup& group, RankHandle&) {
    InFlight in_flight;
    group.runtime().set_in_flight(&in_flight);
    const Tensor data = ones(group, 4);
    const auto* begin = static_cast<const std::byte*>(data.raw());
    const Work work = group.all_reduce(Memory::of(data), ReduceOp::kSum, at("train.cc", 5));
    const InFlight::Loan* loan = in_flight.touched(begin, begin + 4, false);
    ASSERT_NE(loan, nullptr);
    EXPECT_EQ(loan->site.line, 5);
    ASSERT_EQ(work.wait(), CommStatus::kOk);
    EXPECT_EQ(in_flight.touched(begin, begin + 4, true), nullptr);

    // The source of a broadcast is only read.
    const Work broadcast = group.broadcast(Memory::of(data), 0);
    EXPECT_EQ(in_flight.touched(begin, begin + 4, false) == nullptr, group.rank() == 0);
    EXPECT_NE(in_flight.touched(begin, begin + 4, true), nullptr);
    ASSERT_EQ(broadcast.wait(), CommStatus::kOk);
    group.runtime().set_in_flight(nullptr);
  });
}

// What the trace says about one rank's collectives: "posted 0, completed 0 ok, ...".
std::string story(const MemoryTrace& trace, Rank rank) {
  std::string text;
  for (const Event& event : trace.events(rank)) {
    const auto* collective = std::get_if<CollectiveEvent>(&event.body);
    if (collective == nullptr) continue;
    text += std::string(name_of(collective->phase)) + " " + std::to_string(collective->seq);
    const std::string_view status = name_of(collective->status);
    text += status.empty() ? ", " : " " + std::string(status) + ", ";
  }
  return text;
}

TEST(VerdictTest, RecordsHowEveryOperationEnded) {
  auto names = std::make_shared<NameTable>();
  MemoryTrace trace(names);
  trace.ensure_ranks(2);
  run_groups({}, [&](ProcessGroup& group, RankHandle& rank) {
    Recorder recorder(rank.rank(), rank, *names, trace, {});
    group.runtime().set_recorder(&recorder);
    const Tensor data = ones(group, 4);
    { const Work dropped = group.all_reduce(Memory::of(data)); }
    EXPECT_EQ(group.barrier().wait(), CommStatus::kOk);
    if (group.rank() == 0) (void)group.barrier().wait();
  });
  EXPECT_EQ(story(trace, Rank{0}),
            "posted 0, posted 1, completed 0 ok, completed 1 ok, posted 2, failed 2 stuck, ");
  // Round robin: rank 1 posts last, and the transfer that this enables comes before its next turn.
  EXPECT_EQ(story(trace, Rank{1}), "posted 0, completed 0 ok, posted 1, completed 1 ok, ");
}

}  // namespace
}  // namespace lockstep::sim
