#include "lockstep/base/check.h"
#include "lockstep/collectives/message_batch.h"

#include "tests/conformance/process_group_suite.h"
#include "tests/conformance/values.h"

namespace lockstep::conformance {

namespace {

void sends_around_a_ring(ProcessGroup& group) {
  const std::int32_t n = group.size();
  const std::int32_t next = (group.rank() + 1) % n;
  const std::int32_t before = (group.rank() + n - 1) % n;
  const Tensor out = filled(group, DType::kF32, 4, [&](std::int64_t) { return group.rank() + 1; });
  const Tensor in = Tensor::zeros(group.runtime(), {4}, DType::kF32);
  const Work sending = group.send(Memory::of(out), next);
  ASSERT_EQ(group.recv(Memory::of(in), before).wait(), CommStatus::kOk);
  ASSERT_EQ(sending.wait(), CommStatus::kOk);
  expect_filled(
      in, [&](std::int64_t) { return before + 1; }, "recv");
}

// Messages of one tag keep their order; those of another tag overtake them.
void tags_separate_messages(ProcessGroup& group) {
  if (group.rank() > 1) return;
  std::vector<Tensor> data;
  for (int i = 0; i < 3; ++i) {
    data.push_back(
        filled(group, DType::kI32, 2, [&](std::int64_t) { return group.rank() == 0 ? i + 1 : 0; }));
  }
  const std::int32_t tags[] = {5, 5, 9};
  const std::size_t order[] = {2, 0, 1};  // In which rank 1 receives.
  std::vector<Work> works;
  for (std::size_t i = 0; i < 3; ++i) {
    if (group.rank() == 0) works.push_back(group.send(Memory::of(data[i]), 1, tags[i]));
  }
  for (const std::size_t i : order) {
    if (group.rank() == 1) works.push_back(group.recv(Memory::of(data[i]), 0, tags[i]));
  }
  for (const Work& work : works) ASSERT_EQ(work.wait(), CommStatus::kOk);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(data[i].at(1), static_cast<double>(i + 1));
}

// A receive in NCCL names its sender; c10d refuses others there, and so do we.
bool takes_from_any_source(ProcessGroup& group) {
  if (group.backend() != "nccl") return true;
  const Tensor in = zeros(group, DType::kI32, 2);
  EXPECT_THROW((void)group.recv_any_source(Memory::of(in)), ContractViolation);
  return false;
}

void receives_from_any_source(ProcessGroup& group) {
  if (!takes_from_any_source(group)) return;
  const std::int32_t n = group.size();
  if (group.rank() != 0) {
    const Tensor out = filled(group, DType::kI32, 2, [&](std::int64_t) { return group.rank(); });
    ASSERT_EQ(group.send(Memory::of(out), 0, 4).wait(), CommStatus::kOk);
    return;
  }
  std::vector<bool> received(static_cast<std::size_t>(n));
  for (std::int32_t k = 1; k < n; ++k) {
    const Tensor in = zeros(group, DType::kI32, 2);
    const Work work = group.recv_any_source(Memory::of(in), 4);
    ASSERT_EQ(work.wait(), CommStatus::kOk);
    const std::int32_t sender = work.signature().peer;
    EXPECT_EQ(in.at(1), sender);
    EXPECT_FALSE(received[static_cast<std::size_t>(sender)]);
    received[static_cast<std::size_t>(sender)] = true;
  }
}

// Posted before anything was sent: the message completes it, and the next one goes to the next.
void a_receive_from_any_source_may_wait(ProcessGroup& group) {
  if (!takes_from_any_source(group)) return;
  if (group.rank() > 1) return;
  const Tensor first = filled(group, DType::kF32, 1, [&](std::int64_t) { return 5; });
  const Tensor second = filled(group, DType::kF32, 1, [&](std::int64_t) { return 6; });
  if (group.rank() == 1) {
    const Tensor go = zeros(group, DType::kF32, 1);
    ASSERT_EQ(group.recv(Memory::of(go), 0, 1).wait(), CommStatus::kOk);
    ASSERT_EQ(group.send(Memory::of(first), 0).wait(), CommStatus::kOk);
    ASSERT_EQ(group.send(Memory::of(second), 0).wait(), CommStatus::kOk);
    return;
  }
  const Tensor in = zeros(group, DType::kF32, 1);
  const Tensor next = zeros(group, DType::kF32, 1);
  const Work open = group.recv_any_source(Memory::of(in));
  ASSERT_EQ(group.send(Memory::of(first), 1, 1).wait(), CommStatus::kOk);
  ASSERT_EQ(open.wait(), CommStatus::kOk);
  EXPECT_EQ(open.signature().peer, 1);
  EXPECT_EQ(in.at(0), 5);
  ASSERT_EQ(group.recv(Memory::of(next), 1).wait(), CommStatus::kOk);
  EXPECT_EQ(next.at(0), 6);
}

// Every rank sends both ways at once.
void a_batch_exchanges_with_both_neighbours(ProcessGroup& group) {
  const std::int32_t n = group.size();
  const std::int32_t next = (group.rank() + 1) % n;
  const std::int32_t before = (group.rank() + n - 1) % n;
  const Tensor mine = filled(group, DType::kF32, 3, [&](std::int64_t) { return group.rank(); });
  const Tensor left = zeros(group, DType::kF32, 3);
  const Tensor right = zeros(group, DType::kF32, 3);
  const std::vector<Message> batch = {
      {Message::Kind::kSend, Memory::of(mine), next, 1},
      {Message::Kind::kRecv, Memory::of(left), before, 1},
      {Message::Kind::kSend, Memory::of(mine), before, 2},
      {Message::Kind::kRecv, Memory::of(right), next, 2},
  };
  const std::vector<Work> works = batch_isend_irecv(group, batch);
  ASSERT_EQ(works.size(), batch.size());
  for (const Work& work : works) ASSERT_EQ(work.wait(), CommStatus::kOk);
  EXPECT_EQ(left.at(2), before);
  EXPECT_EQ(right.at(2), next);
}

}  // namespace

std::vector<Case> message_cases() {
  return {
      {"SendsAroundARing", sends_around_a_ring, 2},
      {"TagsSeparateMessages", tags_separate_messages, 2},
      {"ReceivesFromAnySource", receives_from_any_source, 2},
      {"AReceiveFromAnySourceMayWait", a_receive_from_any_source_may_wait, 2},
      {"ABatchExchangesWithBothNeighbours", a_batch_exchanges_with_both_neighbours, 2},
  };
}

}  // namespace lockstep::conformance
