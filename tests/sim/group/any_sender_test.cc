// Receiving from any sender: order, and what the trace says.
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/check.h"
#include "lockstep/trace/memory_trace.h"
#include "lockstep/trace/recorder.h"

#include "tests/sim/group/group_fixture.h"

namespace lockstep::sim {
namespace {

using testing::ones;
using testing::run_groups;

// Messages that wait already are taken from the lowest sender on, one sender's in their order.
TEST(AnySenderTest, WaitingMessagesComeByRankOfTheSender) {
  std::vector<std::int32_t> senders;
  std::vector<double> values;
  run_groups({.n_ranks = 3}, [&](ProcessGroup& group, RankHandle& rank) {
    if (group.rank() != 0) {
      for (int i = 0; i < 2; ++i) {
        const Tensor data = Tensor::full(group.runtime(), {1}, DType::kF32, 10 * group.rank() + i);
        EXPECT_EQ(group.send(Memory::of(data), 0, 4).wait(), CommStatus::kOk);
      }
      return;
    }
    rank.sleep({1});
    for (int i = 0; i < 4; ++i) {
      const Tensor data = ones(group, 1);
      const Work work = group.recv_any_source(Memory::of(data), 4);
      EXPECT_EQ(work.wait(), CommStatus::kOk);
      senders.push_back(work.signature().peer);
      values.push_back(data.at(0));
    }
  });
  ASSERT_EQ(senders.size(), 4U);
  EXPECT_EQ(senders[0], 1);
  EXPECT_EQ(values[0], 10);
}

// A recv that names the sender goes before one that takes any, even if it was posted later.
TEST(AnySenderTest, ANamedReceiveGoesFirst) {
  run_groups({}, [&](ProcessGroup& group, RankHandle& rank) {
    if (group.rank() == 1) {
      rank.sleep({1});
      const Tensor first = Tensor::full(group.runtime(), {1}, DType::kF32, 1);
      const Tensor second = Tensor::full(group.runtime(), {1}, DType::kF32, 2);
      EXPECT_EQ(group.send(Memory::of(first), 0).wait(), CommStatus::kOk);
      EXPECT_EQ(group.send(Memory::of(second), 0).wait(), CommStatus::kOk);
      return;
    }
    const Tensor any = ones(group, 1);
    const Tensor named = ones(group, 1);
    const Work open = group.recv_any_source(Memory::of(any));
    const Work direct = group.recv(Memory::of(named), 1);
    EXPECT_EQ(open.wait(), CommStatus::kOk);
    EXPECT_EQ(direct.wait(), CommStatus::kOk);
    EXPECT_EQ(named.at(0), 1);
    EXPECT_EQ(any.at(0), 2);
  });
}

// In the trace it is a recv from the rank that sent, numbered like any other.
TEST(AnySenderTest, IsRecordedWithItsSender) {
  const auto names = std::make_shared<NameTable>();
  MemoryTrace trace(names);
  trace.ensure_ranks(2);
  run_groups({}, [&](ProcessGroup& group, RankHandle& rank) {
    Recorder recorder(rank.rank(), rank, *names, trace, {});
    group.runtime().set_recorder(&recorder);
    const Tensor data = ones(group, 1);
    for (int i = 0; i < 2; ++i) {
      const Work work = group.rank() == 0 ? group.recv_any_source(Memory::of(data), 3)
                                          : group.send(Memory::of(data), 0, 3);
      EXPECT_EQ(work.wait(), CommStatus::kOk);
    }
    group.runtime().set_recorder(nullptr);
  });
  std::vector<std::int64_t> posted;
  for (const Event& event : trace.events(Rank{0})) {
    const auto& collective = std::get<CollectiveEvent>(event.body);
    EXPECT_EQ(collective.signature.peer, 1);
    if (collective.phase == CollectivePhase::kPosted) posted.push_back(collective.seq);
  }
  EXPECT_EQ(posted, (std::vector<std::int64_t>{0, 1}));
}

TEST(AnySenderTest, AWorldOfOneHasNoStraggler) {
  run_groups({.n_ranks = 1}, [](ProcessGroup& group, RankHandle&) {
    const Tensor data = ones(group, 1);
    EXPECT_THROW((void)group.recv_any_source(Memory::of(data)), ContractViolation);
  });
}

}  // namespace
}  // namespace lockstep::sim
