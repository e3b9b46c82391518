#include "lockstep/comm/process_group.h"

#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "lockstep/comm/loopback_group.h"

#include "tests/support/mini_world.h"

namespace lockstep {
namespace {

using testing::MiniOptions;
using testing::MiniRank;
using testing::MiniResult;
using testing::run_mini_world;
using testing::TestRuntime;

TEST(LoopbackGroupTest, EveryOperationHandsTheInputOn) {
  TestRuntime test;
  const std::unique_ptr<ProcessGroup> group = make_loopback_group(test.runtime);
  std::vector<float> in = {1.0F, 2.0F};
  std::vector<float> out(2);
  const Memory source = Memory::of(std::span(in));
  const Memory target = Memory::of(std::span(out));
  const std::vector<Memory> sources = {source};
  const std::vector<Memory> targets = {target};
  const auto expect_copied = [&](const Work& work) {
    EXPECT_TRUE(work.is_completed());
    EXPECT_EQ(work.wait(), CommStatus::kOk);
    EXPECT_EQ(out, in);
    out.assign(2, 0.0F);
  };

  expect_copied(group->all_gather(targets, source));
  expect_copied(group->reduce_scatter(target, sources));
  expect_copied(group->gather(targets, source, 0));
  expect_copied(group->scatter(target, sources, 0));
  expect_copied(group->all_to_all(targets, sources));
  for (const Work& work : {group->all_reduce(source, ReduceOp::kAvg),
                           group->broadcast(source, 0),
                           group->reduce(source, 0),
                           group->barrier()}) {
    work.wait_or_throw();
  }
  EXPECT_EQ(in, (std::vector<float>{1.0F, 2.0F}));
}

TEST(LoopbackGroupTest, WorksComeFromThePool) {
  TestRuntime test;
  const std::unique_ptr<ProcessGroup> group = make_loopback_group(test.runtime);
  group->barrier().wait_or_throw();
  const std::int64_t before = test.pool.system_allocations();
  for (int i = 0; i < 100; ++i) group->barrier().wait_or_throw();
  EXPECT_EQ(test.pool.system_allocations(), before);
}

TEST(LoopbackGroupTest, SplitsIntoItselfOrNothing) {
  TestRuntime test;
  const std::unique_ptr<ProcessGroup> group = make_loopback_group(test.runtime);
  const std::vector<std::int32_t> self = {0};
  const std::unique_ptr<ProcessGroup> first = group->split(self);
  EXPECT_EQ(group->split({}), nullptr);
  const std::unique_ptr<ProcessGroup> third = first->split(self);
  EXPECT_EQ(first->id(), 1);
  EXPECT_EQ(third->id(), 3);
}

class SentByTheProgram final : public OwnReductions {
 public:
  void on_sent(const Sent& sent) override {
    text += std::to_string(sent.n_elems) + (sent.adds ? "+ " : " ");
  }

  void on_received(const Sent& received) override {
    back += std::to_string(received.n_elems) + (received.adds ? "+ " : " ");
  }

  void on_shard_received(const Sent& received) override {
    shards += std::to_string(received.n_elems) + " ";
  }

  void before_step(std::span<const Variable> /*parameters*/) override {}

  void after_step(std::span<const Variable> /*parameters*/) override {}

  std::string text;
  std::string back;
  std::string shards;
};

TEST(ProcessGroupTest, WhatAProgramSendsToAllRanksIsFollowed) {
  TestRuntime test;
  SentByTheProgram sent;
  test.runtime.set_own_reductions(&sent);
  const std::unique_ptr<ProcessGroup> group = make_loopback_group(test.runtime);
  std::vector<float> values(3);
  std::vector<std::int64_t> counts(4);
  const Memory data = Memory::of(std::span(values));
  const std::vector<Memory> two = {data.slice(0, 1), data.slice(1, 2)};
  for (const Work& work : {group->all_reduce(data),
                           group->all_reduce(data, ReduceOp::kAvg),
                           group->broadcast(data, 0),
                           group->all_reduce_coalesced(two),
                           group->reduce_scatter_tensor(data, data),
                           // None of these brings the sum of gradients to all ranks.
                           group->all_reduce(data, ReduceOp::kMax),
                           group->reduce_scatter_tensor(data, data, ReduceOp::kMax),
                           group->reduce(data, 0),
                           group->all_reduce(Memory::of(std::span(counts))),
                           group->all_reduce(data, ReduceOp::kSum, {.wrapper = 0})}) {
    work.wait_or_throw();
  }
  const std::vector<std::int32_t> self = {0};
  group->split(self)->all_reduce(data).wait_or_throw();
  EXPECT_EQ(sent.text, "3+ 3+ 3 1+ 2+ ");
  EXPECT_EQ(sent.back, sent.text);
  EXPECT_EQ(sent.shards, "3 ");
  test.runtime.set_own_reductions(nullptr);
}

/// As a variable does.
struct HasATensor {
  Tensor tensor;

  const Tensor& data() const { return tensor; }
};

TEST(ProcessGroupTest, MemoryOfTensorsContainersAndNumbersHasTheirAddressCountAndType) {
  TestRuntime test;
  const HasATensor variable{Tensor::full(test.runtime, {2, 2}, DType::kF32, 1.0)};
  std::vector<float> numbers(3);
  std::array<std::int64_t, 2> counts = {};
  double sums[] = {1.0, 2.0, 3.0, 4.0};
  std::int32_t flag = 1;
  std::span<float> some = std::span(numbers).first(1);
  EXPECT_EQ(Memory::of(variable).data, Memory::of(variable.data()).data);
  EXPECT_EQ(Memory::of(variable).count, 4);
  EXPECT_EQ(Memory::of(numbers).data, numbers.data());
  EXPECT_EQ(Memory::of(numbers).count, 3);
  EXPECT_EQ(Memory::of(counts).dtype, DType::kI64);
  EXPECT_EQ(Memory::of(counts).count, 2);
  EXPECT_EQ(Memory::of(sums).dtype, DType::kF64);
  EXPECT_EQ(Memory::of(sums).count, 4);
  EXPECT_EQ(Memory::of(flag).data, &flag);
  EXPECT_EQ(Memory::of(flag).dtype, DType::kI32);
  EXPECT_EQ(Memory::of(flag).count, 1);
  EXPECT_EQ(Memory::of(some).count, 1);
}

TEST(ProcessGroupTest, RefusesBrokenContracts) {
  TestRuntime test;
  const std::unique_ptr<ProcessGroup> group = make_loopback_group(test.runtime);
  std::vector<float> values(2);
  std::vector<double> wide(2);
  const Memory memory = Memory::of(std::span(values));
  const Memory null{nullptr, 2, DType::kF32, Device::kCpu};
  const std::vector<Memory> two = {memory, memory};
  const std::vector<Memory> other = {Memory::of(std::span(wide))};

  EXPECT_THROW((void)group->all_reduce(null), ContractViolation);
  EXPECT_THROW((void)group->all_reduce(memory, ReduceOp::kBand), ContractViolation);
  EXPECT_THROW((void)group->broadcast(memory, 1), ContractViolation);
  EXPECT_THROW((void)group->broadcast(memory, -1), ContractViolation);
  EXPECT_THROW((void)group->all_gather(two, memory), ContractViolation);
  EXPECT_THROW((void)group->all_gather(other, memory), ContractViolation);
  EXPECT_THROW((void)group->gather({}, memory, 0), ContractViolation);
  EXPECT_THROW((void)group->send(memory, 0), ContractViolation);
  EXPECT_THROW((void)group->recv(memory, 0), ContractViolation);
}

std::string refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const ContractViolation& broken) {
    return broken.what();
  }
  return "nothing was refused";
}

TEST(ProcessGroupTest, ABrokenContractNamesTheCallersLineAndTheRank) {
  TestRuntime test;
  const std::unique_ptr<ProcessGroup> group = make_loopback_group(test.runtime);
  const std::vector<std::int32_t> self = {0};
  const std::unique_ptr<ProcessGroup> part = group->split(self);
  std::vector<float> values(2);
  const Memory memory = Memory::of(std::span(values));
  const std::int32_t line = CallSite::here().line + 1;
  const std::string text = refusal_of([&] { (void)group->broadcast(memory, 7); });
  EXPECT_EQ(text,
            __FILE__ + (":" + std::to_string(line)) +
                ": rank 0: root 7 of broadcast: the group has 1 ranks");
  const std::string of_part = refusal_of([&] { (void)part->broadcast(memory, 7); });
  EXPECT_NE(of_part.find("rank 0 of group 1: root 7"), std::string::npos) << of_part;
  const OpOptions nowhere = {.site = {}};
  EXPECT_EQ(refusal_of([&] { (void)group->send(memory, 0, 0, nowhere); }),
            "rank 0: it is itself the peer of a send");
}

TEST(ProcessGroupTest, SignsAndRecordsWhatWasPosted) {
  MiniOptions options;
  options.record.collective_digests = true;
  const MiniResult result = run_mini_world(options, [](MiniRank& rank) {
    std::vector<float> values = {1.0F, 2.0F, 3.0F};
    OpOptions op;
    op.layout = 7;
    op.site = {"train.cc", 12, "epoch"};
    rank.group.all_reduce(Memory::of(std::span(values)), ReduceOp::kSum, op).wait_or_throw();
  });

  ASSERT_TRUE(result.ok());
  const std::span<const Event> events = result.trace->events(Rank{1});
  ASSERT_EQ(events.size(), 2U);
  const auto& posted = std::get<CollectiveEvent>(events[0].body);
  EXPECT_EQ(posted.phase, CollectivePhase::kPosted);
  EXPECT_EQ(posted.seq, 0);
  EXPECT_EQ(posted.signature.count, 3);
  EXPECT_EQ(posted.signature.layout, 7U);
  EXPECT_EQ(posted.signature.site.line, 12);
  EXPECT_EQ(posted.digest, 0x06eeadf07b8738b2U);  // sm64 of f32 [1, 2, 3].
  const auto& completed = std::get<CollectiveEvent>(events[1].body);
  EXPECT_EQ(completed.phase, CollectivePhase::kCompleted);
  EXPECT_EQ(completed.status, CallStatus::kOk);
  EXPECT_NE(completed.digest, posted.digest);
}

TEST(ProcessGroupTest, TheDigestOfSeveralBuffersIsThatOfTheirElementsOneAfterAnother) {
  MiniOptions options;
  options.record.collective_digests = true;
  const MiniResult result = run_mini_world(options, [](MiniRank& rank) {
    std::vector<float> whole = {1.0F, 2.0F, 3.0F};
    rank.group.all_reduce(Memory::of(std::span(whole))).wait_or_throw();
    std::vector<float> first = {1.0F, 2.0F};
    std::vector<float> second = {3.0F};
    const std::vector<Memory> parts = {Memory::of(std::span(first)), Memory::of(std::span(second))};
    rank.group.all_reduce_coalesced(parts).wait_or_throw();
  });

  ASSERT_TRUE(result.ok());
  const std::span<const Event> events = result.trace->events(Rank{1});
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(std::get<CollectiveEvent>(events[0].body).digest,
            std::get<CollectiveEvent>(events[2].body).digest);
}

TEST(ProcessGroupTest, AFailedWorkNamesOperationPlaceAndStatus) {
  MiniOptions options;
  const MiniResult result = run_mini_world(options, [](MiniRank& rank) {
    std::vector<float> values(rank.rank == 0 ? 3 : 4);
    OpOptions op;
    op.site = {"train.cc", 12, "ddp.backward"};
    rank.group.all_reduce(Memory::of(std::span(values)), ReduceOp::kSum, op).wait_or_throw();
  });

  EXPECT_EQ(result.error(0), "all_reduce of 3 f32 at train.cc:12 in ddp.backward: mismatch");
  EXPECT_EQ(result.error(1), "all_reduce of 4 f32 at train.cc:12 in ddp.backward: mismatch");
  const Event& last = result.trace->events(Rank{0}).back();
  EXPECT_EQ(std::get<CollectiveEvent>(last.body).phase, CollectivePhase::kFailed);
}

TEST(ProcessGroupTest, UnevenSplitsHaveADigestAndEvenOnesHaveNone) {
  MiniOptions options;
  const MiniResult result = run_mini_world(options, [](MiniRank& rank) {
    std::vector<float> a(1);
    std::vector<float> b(2);
    std::vector<float> same(1);
    const std::vector<Memory> uneven = {Memory::of(std::span(a)), Memory::of(std::span(b))};
    const std::vector<Memory> even = {Memory::of(std::span(a)), Memory::of(std::span(same))};
    std::vector<float> mine(rank.rank == 0 ? 1 : 2);
    rank.group.all_gather(uneven, Memory::of(std::span(mine))).wait_or_throw();
    std::vector<float> one(1);
    rank.group.all_gather(even, Memory::of(std::span(one))).wait_or_throw();
  });

  ASSERT_TRUE(result.ok()) << result.error(0) << result.error(1);
  const std::span<const Event> events = result.trace->events(Rank{0});
  EXPECT_NE(std::get<CollectiveEvent>(events[0].body).signature.splits, 0U);
  EXPECT_EQ(std::get<CollectiveEvent>(events[0].body).signature.count, 3);
  EXPECT_EQ(std::get<CollectiveEvent>(events[2].body).signature.splits, 0U);
  EXPECT_EQ(std::get<CollectiveEvent>(events[2].body).signature.count, 1);
}

}  // namespace
}  // namespace lockstep
