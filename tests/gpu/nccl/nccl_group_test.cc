// What can go wrong between GPUs, and what each rank reports. Over NCCL emulated on the CPU.
#include "lockstep/gpu/nccl/nccl_group.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cstring>
#include <functional>
#include <thread>

#include "lockstep/base/check.h"
#include "lockstep/comm/reduction_order.h"

#include "tests/support/emulated_ranks.h"

namespace lockstep {
namespace {

using nccl::Status;
using std::chrono::milliseconds;
using testing::EmulatedWorld;
using testing::Emulation;
using testing::run_emulated_ranks;
using testing::run_threads;
using testing::TempFolder;
using testing::TestRuntime;

// Short for a rank that waits in vain, long for a busy machine's ranks to reach the same operation.
const OpOptions kSoon{.timeout = {std::int64_t{1'000'000'000}}};

Tensor ones(ProcessGroup& group, std::int64_t n) {
  return Tensor::full(group.runtime(), {n}, DType::kF32, 1.0);
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// ---- timeouts and lost peers

// Rank 2 never comes: the others say who, and no communicator survives, not even the late
// rank's.
TEST(EmulatedNcclGroupTest, ARankThatNeverComesIsNamedAndEveryCommunicatorIsAborted) {
  const Emulation emulation;
  std::barrier all(3);
  std::atomic<int> n_timed_out = 0;
  run_emulated_ranks(emulation, {.n_ranks = 3}, [&](ProcessGroup& group) {
    const Tensor data = ones(group, 4);
    if (group.rank() == 2) {
      all.arrive_and_wait();
      const Work late = group.barrier();
      EXPECT_EQ(late.wait(), CommStatus::kPeerLost);
      EXPECT_TRUE(says(late.detail(), "gave up")) << late.detail();
      return;
    }
    const Work work = group.all_reduce(Memory::of(data), ReduceOp::kSum, kSoon);
    const CommStatus status = work.wait();
    n_timed_out += status == CommStatus::kTimedOut ? 1 : 0;
    EXPECT_TRUE(status == CommStatus::kTimedOut || status == CommStatus::kPeerLost);
    EXPECT_TRUE(says(work.detail(), "all_reduce of 4 f32 on ranks 0, 1 and 2")) << work.detail();
    EXPECT_TRUE(says(work.detail(), "rank 2 did not arrive within 1000 ms")) << work.detail();
    EXPECT_TRUE(says(work.detail(), "its communicator was aborted")) << work.detail();
    const Work after = group.barrier();
    EXPECT_EQ(after.wait(), CommStatus::kPeerLost);
    EXPECT_TRUE(says(after.detail(), "the group failed earlier")) << after.detail();
    all.arrive_and_wait();
  });
  EXPECT_GE(n_timed_out, 1);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(emulation.n_aborted(rank), 1) << rank;
  EXPECT_EQ(emulation.n_collectives(), 0) << "NCCL was not asked for what could not happen";
}

// All have come, and NCCL itself hangs: what it would do forever ends at the deadline.
TEST(EmulatedNcclGroupTest, AHangInsideNcclEndsAtTheDeadlineOnEveryRank) {
  Emulation emulation;
  emulation.hang();
  run_emulated_ranks(emulation, {.n_ranks = 3}, [&](ProcessGroup& group) {
    const Tensor data = ones(group, 4);
    const Work work = group.broadcast(Memory::of(data), 0, kSoon);
    EXPECT_NE(work.wait(), CommStatus::kOk);
    EXPECT_TRUE(says(work.detail(), "broadcast of 4 f32 on ranks 0, 1 and 2")) << work.detail();
    EXPECT_TRUE(says(work.detail(), "NCCL was not done within 1000 ms")) << work.detail();
  });
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(emulation.n_aborted(rank), 1) << rank;
}

// The operation's own timeout counts, not the group's of a minute.
TEST(EmulatedNcclGroupTest, AnOperationMayHaveItsOwnDeadline) {
  Emulation emulation;
  emulation.hang();
  run_emulated_ranks(emulation, {.n_ranks = 2}, [&](ProcessGroup& group) {
    const Work work = group.barrier({.timeout = {std::int64_t{700'000'000}}});
    EXPECT_NE(work.wait(), CommStatus::kOk);
    EXPECT_TRUE(says(work.detail(), "within 700 ms")) << work.detail();
  });
}

// The negative twin of the watchdog: nothing is aborted where nothing is wrong.
TEST(EmulatedNcclGroupTest, HealthyGroupsAreFinalizedAndDestroyed) {
  const Emulation emulation;
  run_emulated_ranks(emulation, {.n_ranks = 3}, [&](ProcessGroup& group) {
    EXPECT_EQ(group.barrier().wait(), CommStatus::kOk);
  });
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(emulation.n_aborted(rank), 0);
    EXPECT_EQ(emulation.n_destroyed(rank), 1);
  }
}

TEST(EmulatedNcclGroupTest, AnAsynchronousErrorOfOneRankEndsTheWaitOfAll) {
  Emulation emulation;
  run_emulated_ranks(emulation, {.n_ranks = 3}, [&](ProcessGroup& group) {
    const Tensor data = ones(group, 4);
    ASSERT_EQ(group.all_reduce(Memory::of(data)).wait(), CommStatus::kOk);
    if (group.rank() == 1) emulation.fail(1, Status::kRemoteError);
    const Work work = group.all_reduce(Memory::of(data));
    EXPECT_EQ(work.wait(), CommStatus::kPeerLost);
    EXPECT_TRUE(says(work.detail(),
                     "a peer's process ended or the network failed "
                     "(ncclRemoteError, 6); NCCL says: emulated failure"))
        << work.detail();
  });
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(emulation.n_aborted(rank), 1) << rank;
}

// The error comes while the operation runs, when nothing is queued that could tell.
TEST(EmulatedNcclGroupTest, AnErrorDuringAnOperationEndsIt) {
  Emulation emulation;
  emulation.hang();
  run_emulated_ranks(emulation, {.n_ranks = 2}, [&](ProcessGroup& group) {
    const Work work = group.barrier();
    if (group.rank() == 0) {
      while (!emulation.is_under_way(0)) std::this_thread::yield();
      emulation.fail(0, Status::kRemoteError);
    }
    EXPECT_EQ(work.wait(), CommStatus::kPeerLost);
    EXPECT_TRUE(says(work.detail(), "ncclCommGetAsyncError: a peer's process ended"))
        << work.detail();
  });
}

TEST(EmulatedNcclGroupTest, ARanksOwnErrorIsNotALostPeer) {
  Emulation emulation;
  run_emulated_ranks(emulation, {.n_ranks = 2}, [&](ProcessGroup& group) {
    ASSERT_EQ(group.barrier().wait(), CommStatus::kOk);
    if (group.rank() == 0) emulation.fail(0, Status::kUnhandledCudaError);
    const Work work = group.barrier();
    const CommStatus expected = group.rank() == 0 ? CommStatus::kAborted : CommStatus::kPeerLost;
    EXPECT_EQ(work.wait(), expected) << work.detail();
    EXPECT_TRUE(says(work.detail(), "ncclUnhandledCudaError")) << work.detail();
  });
}

// A rank that leaves while others still want something is named at once, not after the deadline.
TEST(EmulatedNcclGroupTest, ARankThatLeftIsLostToThoseWhoWaitForIt) {
  const Emulation emulation;
  run_emulated_ranks(emulation, {.n_ranks = 3}, [&](ProcessGroup& group) {
    ASSERT_EQ(group.barrier().wait(), CommStatus::kOk);
    if (group.rank() == 1) return;
    const Work work = group.barrier();
    EXPECT_EQ(work.wait(), CommStatus::kPeerLost);
    EXPECT_TRUE(says(work.detail(), "rank 1 has left the group")) << work.detail();
  });
}

// Works never waited for complete, or are aborted with the group: never a hang, never a leak.
TEST(EmulatedNcclGroupTest, AGroupMayEndWithWorkUnderWay) {
  const Emulation healthy;
  run_emulated_ranks(healthy, {.n_ranks = 3}, [&](ProcessGroup& group) {
    const Tensor data = ones(group, 64);
    for (int i = 0; i < 5; ++i) (void)group.all_reduce(Memory::of(data));
    (void)group.send(Memory::of(data), (group.rank() + 1) % 3, 7);  // Never received.
  });
  EXPECT_EQ(healthy.n_collectives(), 5);
  EXPECT_EQ(healthy.bytes_allocated(), 0);

  Emulation stuck;
  stuck.hang();
  run_emulated_ranks(stuck, {.n_ranks = 2}, [&](ProcessGroup& group) {
    const Tensor data = ones(group, 64);
    for (int i = 0; i < 5; ++i) (void)group.all_reduce(Memory::of(data), ReduceOp::kSum, kSoon);
  });
  EXPECT_EQ(stuck.n_collectives(), 0);
  EXPECT_EQ(stuck.n_aborted(0), 1);
  EXPECT_EQ(stuck.n_aborted(1), 1);
  EXPECT_EQ(stuck.bytes_allocated(), 0);
  EXPECT_EQ(stuck.n_handles(), 0);
}

TEST(EmulatedNcclGroupTest, AnUnreceivedMessageTimesOutAndTheGroupStaysUsable) {
  const Emulation emulation;
  run_emulated_ranks(emulation, {.n_ranks = 2}, [&](ProcessGroup& group) {
    const Tensor data = ones(group, 4);
    const OpOptions soon{.timeout = {std::int64_t{100'000'000}}};
    const Work work = group.rank() == 0 ? group.send(Memory::of(data), 1, 3, soon)
                                        : group.recv(Memory::of(data), 0, 4, soon);
    EXPECT_EQ(work.wait(), CommStatus::kTimedOut);
    EXPECT_EQ(work.detail(),
              group.rank() == 0 ? "rank 1 did not receive within 100 ms"
                                : "rank 0 did not send within 100 ms");
    EXPECT_EQ(group.all_reduce(Memory::of(data)).wait(), CommStatus::kOk);
  });
  EXPECT_EQ(emulation.n_aborted(0), 0);
}

TEST(EmulatedNcclGroupTest, AMessageOfAnotherSizeIsAMismatchOnBothSides) {
  const Emulation emulation;
  run_emulated_ranks(emulation, {.n_ranks = 2}, [&](ProcessGroup& group) {
    const Tensor data = ones(group, group.rank() == 0 ? 4 : 5);
    const Work work =
        group.rank() == 0 ? group.send(Memory::of(data), 1) : group.recv(Memory::of(data), 0);
    EXPECT_EQ(work.wait(), CommStatus::kMismatch);
    EXPECT_EQ(work.detail(), "rank 0 sends 4 f32, rank 1 receives 5 f32");
    EXPECT_EQ(group.barrier().wait(), CommStatus::kOk);
  });
}

// ---- streams

// An operation takes what the compute stream will have written, not what is there when posted.
TEST(EmulatedNcclGroupTest, CollectivesWaitForTheComputeStream) {
  Emulation emulation;
  run_emulated_ranks(emulation, {.n_ranks = 2}, [&](ProcessGroup& group) {
    const Tensor data = ones(group, 4);
    const Tensor made = Tensor::full(group.runtime(), {4}, DType::kF32, 5.0);
    emulation.hold_compute(group.rank(), true);
    (void)emulation.gpu(group.rank())->copy(data.raw(), made.raw(), 4 * sizeof(float), nullptr);
    const Work work = group.all_reduce(Memory::of(data));
    while (emulation.n_waiting(group.rank()) == 0 && !work.is_completed()) {
      std::this_thread::yield();
    }
    EXPECT_FALSE(work.is_completed());
    emulation.hold_compute(group.rank(), false);
    EXPECT_EQ(work.wait(), CommStatus::kOk);
    EXPECT_EQ(data.at(0), 10.0);
  });
}

// ---- starting

TEST(EmulatedNcclGroupTest, HeaderAndLibraryMustFit) {
  const Emulation emulation({.version_mismatch = "compiled against NCCL 2.28.9, found 2.18.5"});
  TestRuntime runtime;
  const auto group = nccl::connect(emulation.gpu(0), {.rendezvous = "/nowhere"}, runtime.runtime);
  ASSERT_FALSE(group.ok());
  EXPECT_EQ(group.error().text(), "compiled against NCCL 2.28.9, found 2.18.5");
}

void expect_no_world(const Emulation& emulation, const std::string& text) {
  const TempFolder folder;
  run_threads(3, [&](std::int32_t rank) {
    TestRuntime runtime;
    const auto group = nccl::connect(
        emulation.gpu(rank),
        {.rank = rank, .size = 3, .rendezvous = folder.path(), .timeout = milliseconds(60'000)},
        runtime.runtime);
    ASSERT_FALSE(group.ok());
    EXPECT_TRUE(says(group.error().text(), text)) << group.error().text();
  });
}

TEST(EmulatedNcclGroupTest, RanksWithOtherVersionsDoNotStart) {
  expect_no_world(Emulation({.versions = {{2, 23007}}}),
                  "NCCL versions differ: rank 0 has 22809, rank 2 23007");
}

// One rank's failure to start is every rank's answer.
TEST(EmulatedNcclGroupTest, AFailedStartIsReportedInNcclsWords) {
  expect_no_world(Emulation({.failing_init = {{1, Status::kInvalidUsage}}}),
                  "NCCL was used in a way it does not allow (ncclInvalidUsage, 5)");
}

TEST(EmulatedNcclGroupTest, RanksThatDoNotArriveAtTheStartAreNamed) {
  const Emulation emulation;
  const TempFolder folder;
  run_threads(2, [&](std::int32_t rank) {
    TestRuntime runtime;
    const auto group = nccl::connect(
        emulation.gpu(rank),
        {.rank = rank, .size = 4, .rendezvous = folder.path(), .timeout = milliseconds(1000)},
        runtime.runtime);
    ASSERT_FALSE(group.ok());
    EXPECT_TRUE(says(group.error().text(), "ranks 2 and 3 did not arrive within 1000 ms"))
        << group.error().text();
  });
}

// ---- mismatches

/// One call that differs on rank 1, and the field that says so.
struct Mismatch {
  std::string field;
  std::function<Work(ProcessGroup&, const Tensor&, bool odd)> call;
};

std::vector<Mismatch> mismatches() {
  const auto reduce = [](ReduceOp op, const OpOptions& options = {}) {
    return [op, options](ProcessGroup& group, const Tensor& data, bool) {
      return group.all_reduce(Memory::of(data), op, options);
    };
  };
  const auto either = [](auto here, auto there) {
    return [here, there](ProcessGroup& group, const Tensor& data, bool odd) {
      return odd ? there(group, data, odd) : here(group, data, odd);
    };
  };
  const auto of_type = [](DType dtype, std::int64_t n) {
    return [dtype, n](ProcessGroup& group, const Tensor&, bool) {
      const Tensor other = Tensor::full(group.runtime(), {n}, dtype, 1.0);
      return group.all_reduce(Memory::of(other));
    };
  };
  const auto barrier = [](ProcessGroup& group, const Tensor&, bool) { return group.barrier(); };
  const auto roots = [](ProcessGroup& group, const Tensor& data, bool odd) {
    return group.broadcast(Memory::of(data), odd ? 1 : 0);
  };
  const auto splits = [](ProcessGroup& group, const Tensor&, bool odd) {
    std::vector<Tensor> parts;
    for (std::int32_t r = 0; r < group.size(); ++r)
      parts.push_back(ones(group, odd ? 3 - r : 1 + r));
    const Tensor mine = ones(group, parts[static_cast<std::size_t>(group.rank())].n_elems());
    std::vector<Memory> list;
    for (const Tensor& part : parts) list.push_back(Memory::of(part));
    return group.reduce_scatter(Memory::of(mine), list);
  };
  return {
      {"op", either(reduce(ReduceOp::kSum), barrier)},
      {"reduce", either(reduce(ReduceOp::kSum), reduce(ReduceOp::kMax))},
      {"dtype", either(of_type(DType::kF32, 4), of_type(DType::kI32, 4))},
      {"root", roots},
      {"count", either(of_type(DType::kF32, 4), of_type(DType::kF32, 5))},
      {"premul",
       either(reduce(ReduceOp::kPremulSum, {.premul = 0.5}),
              reduce(ReduceOp::kPremulSum, {.premul = 0.25}))},
      {"splits", splits},
      {"layout",
       either(reduce(ReduceOp::kSum, {.layout = 1}), reduce(ReduceOp::kSum, {.layout = 2}))},
  };
}

// On every rank, before NCCL is called, and the group stays usable.
TEST(EmulatedNcclGroupTest, EveryFieldInWhichRanksDifferIsAnAnswerOnAllRanks) {
  for (const Mismatch& one : mismatches()) {
    const Emulation emulation;
    run_emulated_ranks(emulation, {.n_ranks = 3}, [&](ProcessGroup& group) {
      const Tensor data = ones(group, 4);
      const Work work = one.call(group, data, group.rank() == 1);
      EXPECT_EQ(work.wait(), CommStatus::kMismatch) << one.field;
      EXPECT_TRUE(says(work.detail(), one.field + " differs: rank 0")) << work.detail();
      EXPECT_EQ(group.barrier().wait(), CommStatus::kOk);
    });
    EXPECT_EQ(emulation.n_collectives(), 1) << "only the barrier";
  }
}

// What the check is for: without it NCCL says nothing and is wrong, or hangs.
TEST(EmulatedNcclGroupTest, WithoutTheCheckNcclIsSilentOrHangs) {
  const EmulatedWorld unchecked = {.n_ranks = 2, .check_signatures = false};
  const Emulation silent;
  run_emulated_ranks(silent, unchecked, [&](ProcessGroup& group) {
    const Tensor data = Tensor::full(group.runtime(), {4}, DType::kF32, 3.0);
    const ReduceOp op = group.rank() == 0 ? ReduceOp::kSum : ReduceOp::kProduct;
    EXPECT_EQ(group.all_reduce(Memory::of(data), op).wait(), CommStatus::kOk);
    EXPECT_TRUE(data.at(0) == 6.0 || data.at(0) == 9.0);
  });
  const Emulation hanging;
  run_emulated_ranks(hanging, unchecked, [&](ProcessGroup& group) {
    const Tensor data = ones(group, group.rank() == 0 ? 4 : 5);
    const Work work = group.all_reduce(Memory::of(data), ReduceOp::kSum, kSoon);
    EXPECT_NE(work.wait(), CommStatus::kOk);
    EXPECT_TRUE(says(work.detail(), "NCCL was not done within 1000 ms")) << work.detail();
  });
}

// ---- refusals

TEST(EmulatedNcclGroupTest, WhatNcclLacksIsRefusedInC10dsWords) {
  const Emulation emulation;
  run_emulated_ranks(emulation, {.n_ranks = 2}, [&](ProcessGroup& group) {
    const Tensor data = Tensor::full(group.runtime(), {2}, DType::kI32, 1.0);
    for (const auto& [op, name] : {std::pair{ReduceOp::kBand, "BAND"},
                                   std::pair{ReduceOp::kBor, "BOR"},
                                   std::pair{ReduceOp::kBxor, "BXOR"}}) {
      try {
        (void)group.all_reduce(Memory::of(data), op);
        ADD_FAILURE() << name << " was accepted";
      } catch (const ContractViolation& violation) {
        EXPECT_TRUE(
            says(violation.what(), std::string("Cannot use ReduceOp.") + name + " with NCCL"))
            << violation.what();
      }
    }
    EXPECT_EQ(group.barrier().wait(), CommStatus::kOk);
  });
}

// ---- order of summation

constexpr std::int64_t kCount = 1000;

double rough(std::int32_t rank, std::int64_t i) {
  return 1.0 / static_cast<double>(3 + i + 7 * rank) - (i % 5 == 0 ? 0.7 : 0.0);
}

Tensor rough_tensor(Runtime& runtime, DType dtype, std::int32_t rank) {
  std::vector<double> values(kCount);
  for (std::int64_t i = 0; i < kCount; ++i) values[static_cast<std::size_t>(i)] = rough(rank, i);
  return Tensor::of(runtime, {kCount}, dtype, values);
}

Tensor predicted(
    Runtime& runtime, DType dtype, std::int32_t n_ranks, ReduceOp op, const ReductionOrder& order) {
  std::vector<Tensor> inputs;
  std::vector<const void*> pointers;
  for (std::int32_t r = 0; r < n_ranks; ++r) {
    inputs.push_back(rough_tensor(runtime, dtype, r));
    pointers.push_back(inputs.back().raw());
  }
  Tensor result = Tensor::zeros(runtime, {kCount}, dtype);
  void* output = result.raw();
  reduce_in_order(runtime.kernels(),
                  {.outputs = {&output, 1},
                   .inputs = pointers,
                   .count = kCount,
                   .dtype = dtype,
                   .op = op,
                   .premul = 0.3},
                  order);
  return result;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  const auto n_bytes = static_cast<std::size_t>(a.n_elems() * size_of(a.dtype()));
  return std::memcmp(a.raw(), b.raw(), n_bytes) == 0;
}

// Steps around a ring, one after another, against the formula: chunk c is the fold that ends at
// rank c. In every floating type, also fused with a factor, along any ring.
TEST(EmulatedNcclGroupTest, RingStepsGiveThePredictedBits) {
  for (const std::vector<std::int32_t>& ring :
       std::vector<std::vector<std::int32_t>>{{0, 1, 2}, {0, 2, 1}, {0, 3, 1, 2}, {0, 1, 2, 3}}) {
    const Emulation emulation({.ring = ring});
    const auto n_ranks = static_cast<std::int32_t>(ring.size());
    run_emulated_ranks(emulation, {.n_ranks = n_ranks}, [&](ProcessGroup& group) {
      for (const DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
        for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kPremulSum}) {
          const Tensor data = rough_tensor(group.runtime(), dtype, group.rank());
          ASSERT_EQ(group.all_reduce(Memory::of(data), op, {.premul = 0.3}).wait(),
                    CommStatus::kOk);
          const Tensor expected =
              predicted(group.runtime(),
                        dtype,
                        n_ranks,
                        op,
                        ReductionOrder(std::vector<std::vector<std::int32_t>>{ring}));
          EXPECT_TRUE(same_bits(data, expected)) << name_of(dtype) << " " << name_of(op);
        }
      }
    });
  }
}

// A different ring is a different sum: the comparison above would detect it.
TEST(EmulatedNcclGroupTest, AnotherRingGivesOtherBits) {
  const Emulation emulation({.ring = {0, 2, 1}});
  run_emulated_ranks(emulation, {.n_ranks = 3}, [&](ProcessGroup& group) {
    const Tensor data = rough_tensor(group.runtime(), DType::kF32, group.rank());
    ASSERT_EQ(group.all_reduce(Memory::of(data)).wait(), CommStatus::kOk);
    EXPECT_FALSE(same_bits(
        data,
        predicted(group.runtime(), DType::kF32, 3, ReduceOp::kSum, ReductionOrder::kNcclRing)));
  });
}

// The one element that distinguishes three ways to average: 4, 1 and 6 on ranks 0, 1 and 2
// give 0x406aaaac with fused products, 0x406aaaaa without, 0x406aaaab as a divided sum.
TEST(EmulatedNcclGroupTest, AnAverageIsFusedIntoTheRing) {
  const Emulation emulation;
  run_emulated_ranks(emulation, {.n_ranks = 3}, [&](ProcessGroup& group) {
    constexpr std::array<double, 3> kValues = {4.0, 1.0, 6.0};
    const Tensor data = Tensor::full(
        group.runtime(), {1}, DType::kF32, kValues[static_cast<std::size_t>(group.rank())]);
    ASSERT_EQ(group.all_reduce(Memory::of(data), ReduceOp::kAvg).wait(), CommStatus::kOk);
    std::uint32_t bits = 0;
    std::memcpy(&bits, data.raw(), sizeof bits);
    EXPECT_EQ(bits, 0x406aaaacU);
  });
}

}  // namespace
}  // namespace lockstep
