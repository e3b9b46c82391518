// What every ProcessGroup promises, written once and run against each backend.
//
// A Backend has: static constexpr std::int32_t kWorldSize, and
// static void run(const std::function<void(ProcessGroup&)>& program), which calls `program` once a
// rank, lets no exception of a rank pass unnoticed and returns when all have ended.
//
// Operands are small integers, which every order of summation adds without rounding: expectations
// are formulas and need no tolerance.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/check.h"
#include "lockstep/dist/process_group.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::conformance {

using Fill = std::function<double(std::int64_t)>;

inline Tensor filled(ProcessGroup& group, DType dtype, std::int64_t n, const Fill& fill) {
  std::vector<double> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = fill(static_cast<std::int64_t>(i));
  return Tensor::of(group.runtime(), {n}, dtype, values);
}

inline void expect_filled(const Tensor& tensor, const Fill& fill, const std::string& what) {
  for (std::int64_t i = 0; i < tensor.n_elems(); ++i) {
    ASSERT_EQ(tensor.at(i), fill(i)) << what << ", element " << i;
  }
}

inline std::vector<Memory> memories(const std::vector<Tensor>& tensors) {
  std::vector<Memory> list;
  list.reserve(tensors.size());
  for (const Tensor& tensor : tensors) list.push_back(Memory::of(tensor));
  return list;
}

constexpr DType kNumbers[] = {DType::kF32,
                              DType::kF64,
                              DType::kF16,
                              DType::kBF16,
                              DType::kI8,
                              DType::kU8,
                              DType::kI32,
                              DType::kI64};

template <typename Backend>
class ProcessGroupConformance : public ::testing::Test {};

TYPED_TEST_SUITE_P(ProcessGroupConformance);

TYPED_TEST_P(ProcessGroupConformance, KnowsItsMembers) {
  TypeParam::run([](ProcessGroup& group) {
    EXPECT_EQ(group.size(), TypeParam::kWorldSize);
    EXPECT_EQ(group.id(), 0);
    EXPECT_EQ(to_int(group.world_rank(group.rank())), group.rank());
    EXPECT_THROW((void)group.world_rank(group.size()), ContractViolation);
    EXPECT_FALSE(group.backend().empty());
    EXPECT_FALSE(group.reduction_order().empty());
  });
}

TYPED_TEST_P(ProcessGroupConformance, AllReduceSumsEveryElementType) {
  TypeParam::run([](ProcessGroup& group) {
    const double n = group.size();
    for (const DType dtype : kNumbers) {
      for (const std::int64_t count : {1, 5, 64, 257}) {
        const Tensor data =
            filled(group, dtype, count, [&](std::int64_t i) { return group.rank() + i % 3; });
        ASSERT_EQ(group.all_reduce(Memory::of(data)).wait(), CommStatus::kOk);
        expect_filled(
            data,
            [&](std::int64_t i) { return n * (n - 1) / 2 + n * static_cast<double>(i % 3); },
            std::string(name_of(dtype)));
      }
    }
  });
}

TYPED_TEST_P(ProcessGroupConformance, AllReduceOffersTheArithmeticOperations) {
  TypeParam::run([](ProcessGroup& group) {
    const double n = group.size();
    const auto reduced = [&](DType dtype, ReduceOp op) {
      const Tensor data = filled(group, dtype, 3, [&](std::int64_t) { return group.rank() + 1; });
      EXPECT_EQ(group.all_reduce(Memory::of(data), op).wait(), CommStatus::kOk);
      return data.at(2);
    };
    double factorial = 1;
    for (int k = 2; k <= group.size(); ++k) factorial *= k;
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kI32, DType::kI64}) {
      EXPECT_EQ(reduced(dtype, ReduceOp::kProduct), factorial);
      EXPECT_EQ(reduced(dtype, ReduceOp::kMin), 1);
      EXPECT_EQ(reduced(dtype, ReduceOp::kMax), n);
    }
    if (group.reduction_order() != "pairwise") {
      EXPECT_EQ(reduced(DType::kF64, ReduceOp::kAvg), n * (n + 1) / 2 / n);
    }
  });
}

TYPED_TEST_P(ProcessGroupConformance, AllReduceOffersTheBitwiseOperations) {
  TypeParam::run([](ProcessGroup& group) {
    std::int64_t all = 0xff;
    std::int64_t any = 0;
    std::int64_t odd = 0;
    for (std::int64_t r = 0; r < group.size(); ++r) {
      const std::int64_t value = 8 + r;
      all &= value;
      any |= value;
      odd ^= value;
    }
    for (const DType dtype : {DType::kU8, DType::kI32, DType::kI64}) {
      const auto reduced = [&](ReduceOp op) {
        const Tensor data = filled(group, dtype, 1, [&](std::int64_t) { return 8 + group.rank(); });
        EXPECT_EQ(group.all_reduce(Memory::of(data), op).wait(), CommStatus::kOk);
        return static_cast<std::int64_t>(data.at(0));
      };
      EXPECT_EQ(reduced(ReduceOp::kBand), all);
      EXPECT_EQ(reduced(ReduceOp::kBor), any);
      EXPECT_EQ(reduced(ReduceOp::kBxor), odd);
    }
  });
}

// Numbers that round: the order decides the bits, and all ranks must get the same ones.
TYPED_TEST_P(ProcessGroupConformance, AllRanksGetTheSameBits) {
  TypeParam::run([](ProcessGroup& group) {
    const std::int64_t count = 100;
    const Tensor data = filled(group, DType::kF32, count, [&](std::int64_t i) {
      return 1.0 / static_cast<double>(3 + i + 7 * group.rank());
    });
    ASSERT_EQ(group.all_reduce(Memory::of(data)).wait(), CommStatus::kOk);
    std::vector<Tensor> seen;
    for (std::int32_t r = 0; r < group.size(); ++r) {
      seen.push_back(Tensor::zeros(group.runtime(), {count}, DType::kF32));
    }
    ASSERT_EQ(group.all_gather(memories(seen), Memory::of(data)).wait(), CommStatus::kOk);
    for (const Tensor& other : seen) {
      EXPECT_EQ(std::memcmp(other.raw(), data.raw(), count * sizeof(float)), 0);
    }
  });
}

TYPED_TEST_P(ProcessGroupConformance, BroadcastsFromEveryRoot) {
  TypeParam::run([](ProcessGroup& group) {
    for (std::int32_t root = 0; root < group.size(); ++root) {
      const Tensor data = filled(group, DType::kI64, 7, [&](std::int64_t i) {
        return static_cast<double>(100 * group.rank() + i);
      });
      ASSERT_EQ(group.broadcast(Memory::of(data), root).wait(), CommStatus::kOk);
      expect_filled(
          data, [&](std::int64_t i) { return 100.0 * root + static_cast<double>(i); }, "broadcast");
    }
  });
}

TYPED_TEST_P(ProcessGroupConformance, ReducesToEveryRoot) {
  TypeParam::run([](ProcessGroup& group) {
    const double n = group.size();
    for (std::int32_t root = 0; root < group.size(); ++root) {
      const Tensor data =
          filled(group, DType::kF32, 9, [&](std::int64_t) { return group.rank() + 1; });
      ASSERT_EQ(group.reduce(Memory::of(data), root).wait(), CommStatus::kOk);
      if (group.rank() != root) continue;  // Elsewhere c10d leaves the buffer unspecified.
      expect_filled(
          data, [&](std::int64_t) { return n * (n + 1) / 2; }, "reduce");
    }
  });
}

TYPED_TEST_P(ProcessGroupConformance, AllGathersEqualAndUnequalParts) {
  TypeParam::run([](ProcessGroup& group) {
    for (const bool uneven : {false, true}) {
      const auto size = [&](std::int32_t r) { return std::int64_t{uneven ? r + 1 : 4}; };
      const Tensor mine = filled(group, DType::kF64, size(group.rank()), [&](std::int64_t i) {
        return static_cast<double>(10 * group.rank() + i);
      });
      std::vector<Tensor> parts;
      for (std::int32_t r = 0; r < group.size(); ++r) {
        parts.push_back(Tensor::zeros(group.runtime(), {size(r)}, DType::kF64));
      }
      ASSERT_EQ(group.all_gather(memories(parts), Memory::of(mine)).wait(), CommStatus::kOk);
      for (std::int32_t r = 0; r < group.size(); ++r) {
        expect_filled(
            parts[static_cast<std::size_t>(r)],
            [&](std::int64_t i) { return 10.0 * r + static_cast<double>(i); },
            "all_gather");
      }
    }
  });
}

TYPED_TEST_P(ProcessGroupConformance, ReduceScattersEqualAndUnequalParts) {
  TypeParam::run([](ProcessGroup& group) {
    const double n = group.size();
    for (const bool uneven : {false, true}) {
      std::vector<Tensor> parts;
      for (std::int32_t r = 0; r < group.size(); ++r) {
        parts.push_back(filled(group, DType::kF32, uneven ? r + 1 : 3, [&](std::int64_t i) {
          return static_cast<double>(group.rank() + 10 * r + i);
        }));
      }
      const std::int64_t count = uneven ? group.rank() + 1 : 3;
      const Tensor mine = Tensor::zeros(group.runtime(), {count}, DType::kF32);
      ASSERT_EQ(group.reduce_scatter(Memory::of(mine), memories(parts)).wait(), CommStatus::kOk);
      expect_filled(
          mine,
          [&](std::int64_t i) {
            return n * (n - 1) / 2 + n * (10.0 * group.rank() + static_cast<double>(i));
          },
          "reduce_scatter");
    }
  });
}

TYPED_TEST_P(ProcessGroupConformance, GathersToEveryRoot) {
  TypeParam::run([](ProcessGroup& group) {
    for (std::int32_t root = 0; root < group.size(); ++root) {
      const Tensor mine = filled(group, DType::kI32, 3, [&](std::int64_t i) {
        return static_cast<double>(10 * group.rank() + i);
      });
      std::vector<Tensor> parts;
      for (std::int32_t r = 0; r < group.size() && group.rank() == root; ++r) {
        parts.push_back(Tensor::zeros(group.runtime(), {3}, DType::kI32));
      }
      ASSERT_EQ(group.gather(memories(parts), Memory::of(mine), root).wait(), CommStatus::kOk);
      for (std::size_t r = 0; r < parts.size(); ++r) {
        expect_filled(
            parts[r],
            [&](std::int64_t i) { return 10.0 * static_cast<double>(r) + static_cast<double>(i); },
            "gather");
      }
    }
  });
}

TYPED_TEST_P(ProcessGroupConformance, ScattersFromEveryRoot) {
  TypeParam::run([](ProcessGroup& group) {
    for (std::int32_t root = 0; root < group.size(); ++root) {
      std::vector<Tensor> parts;
      for (std::int32_t r = 0; r < group.size() && group.rank() == root; ++r) {
        parts.push_back(filled(group, DType::kF32, 3, [&](std::int64_t i) {
          return static_cast<double>(10 * r + i + 1);
        }));
      }
      const Tensor mine = Tensor::zeros(group.runtime(), {3}, DType::kF32);
      ASSERT_EQ(group.scatter(Memory::of(mine), memories(parts), root).wait(), CommStatus::kOk);
      expect_filled(
          mine,
          [&](std::int64_t i) { return 10.0 * group.rank() + static_cast<double>(i) + 1; },
          "scatter");
    }
  });
}

// Rank s sends s + 1 elements to everybody in the uneven case: only the transposed counts agree.
TYPED_TEST_P(ProcessGroupConformance, ExchangesAllToAll) {
  TypeParam::run([](ProcessGroup& group) {
    for (const bool uneven : {false, true}) {
      const auto size = [&](std::int32_t sender) { return std::int64_t{uneven ? sender + 1 : 2}; };
      std::vector<Tensor> inputs;
      std::vector<Tensor> outputs;
      for (std::int32_t r = 0; r < group.size(); ++r) {
        inputs.push_back(filled(group, DType::kF32, size(group.rank()), [&](std::int64_t) {
          return static_cast<double>(10 * group.rank() + r);
        }));
        outputs.push_back(Tensor::zeros(group.runtime(), {size(r)}, DType::kF32));
      }
      ASSERT_EQ(group.all_to_all(memories(outputs), memories(inputs)).wait(), CommStatus::kOk);
      for (std::int32_t r = 0; r < group.size(); ++r) {
        expect_filled(
            outputs[static_cast<std::size_t>(r)],
            [&](std::int64_t) { return 10.0 * r + group.rank(); },
            "all_to_all");
      }
    }
  });
}

TYPED_TEST_P(ProcessGroupConformance, BarriersComplete) {
  TypeParam::run([](ProcessGroup& group) {
    for (int i = 0; i < 3; ++i) ASSERT_EQ(group.barrier().wait(), CommStatus::kOk);
  });
}

TYPED_TEST_P(ProcessGroupConformance, SendsAroundARing) {
  if (TypeParam::kWorldSize == 1) return;  // Nobody to send to: see RefusesBrokenContracts.
  TypeParam::run([](ProcessGroup& group) {
    const std::int32_t n = group.size();
    const std::int32_t next = (group.rank() + 1) % n;
    const std::int32_t before = (group.rank() + n - 1) % n;
    const Tensor out =
        filled(group, DType::kF32, 4, [&](std::int64_t) { return group.rank() + 1; });
    const Tensor in = Tensor::zeros(group.runtime(), {4}, DType::kF32);
    const Work sending = group.send(Memory::of(out), next);
    ASSERT_EQ(group.recv(Memory::of(in), before).wait(), CommStatus::kOk);
    ASSERT_EQ(sending.wait(), CommStatus::kOk);
    expect_filled(
        in, [&](std::int64_t) { return before + 1; }, "recv");
  });
}

// Messages of one tag keep their order; those of another tag overtake them.
TYPED_TEST_P(ProcessGroupConformance, TagsSeparateMessages) {
  if (TypeParam::kWorldSize == 1) return;
  TypeParam::run([](ProcessGroup& group) {
    if (group.rank() > 1) return;
    std::vector<Tensor> data;
    for (int i = 0; i < 3; ++i) {
      data.push_back(filled(
          group, DType::kI32, 2, [&](std::int64_t) { return group.rank() == 0 ? i + 1 : 0; }));
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
  });
}

TYPED_TEST_P(ProcessGroupConformance, WorksMayBeWaitedForInAnyOrder) {
  TypeParam::run([](ProcessGroup& group) {
    const double n = group.size();
    std::vector<Tensor> data;
    std::vector<Work> works;
    for (int i = 0; i < 6; ++i) {
      data.push_back(filled(group, DType::kF32, 8, [&](std::int64_t) { return group.rank() + i; }));
      works.push_back(group.all_reduce(Memory::of(data.back())));
    }
    // Another order on every rank.
    for (std::size_t i = 0; i < works.size(); ++i) {
      const std::size_t k = (5 * i + static_cast<std::size_t>(group.rank())) % works.size();
      ASSERT_EQ(works[k].wait(), CommStatus::kOk);
    }
    for (std::size_t i = 0; i < data.size(); ++i) {
      EXPECT_EQ(data[i].at(0), n * (n - 1) / 2 + n * static_cast<double>(i));
    }
  });
}

TYPED_TEST_P(ProcessGroupConformance, WaitingTwiceAnswersTheSame) {
  TypeParam::run([](ProcessGroup& group) {
    const Work work = group.barrier();
    EXPECT_EQ(work.wait(), CommStatus::kOk);
    EXPECT_EQ(work.wait(), CommStatus::kOk);
    EXPECT_TRUE(work.is_completed());
    EXPECT_NO_THROW(work.wait_or_throw());
  });
}

TYPED_TEST_P(ProcessGroupConformance, PollingEndsWhenTheWorkIsDone) {
  TypeParam::run([](ProcessGroup& group) {
    const Tensor data = filled(group, DType::kF32, 4, [](std::int64_t) { return 1; });
    const Work work = group.all_reduce(Memory::of(data));
    while (!work.is_completed()) {
    }
    EXPECT_EQ(work.wait(), CommStatus::kOk);
    EXPECT_EQ(data.at(3), group.size());
  });
}

// Rank 0 forgets its handle: the others still get its contribution.
TYPED_TEST_P(ProcessGroupConformance, ADroppedWorkGoesOn) {
  TypeParam::run([](ProcessGroup& group) {
    const Tensor data = filled(group, DType::kF32, 4, [](std::int64_t) { return 2; });
    {
      const Work work = group.all_reduce(Memory::of(data));
      if (group.rank() != 0) {
        ASSERT_EQ(work.wait(), CommStatus::kOk);
        EXPECT_EQ(data.at(0), 2.0 * group.size());
      }
    }
    ASSERT_EQ(group.barrier().wait(), CommStatus::kOk);
  });
}

TYPED_TEST_P(ProcessGroupConformance, EmptyBuffersTakePart) {
  TypeParam::run([](ProcessGroup& group) {
    const Tensor none = Tensor::zeros(group.runtime(), {0}, DType::kF32);
    EXPECT_EQ(group.all_reduce(Memory::of(none)).wait(), CommStatus::kOk);
    EXPECT_EQ(group.broadcast(Memory::of(none), 0).wait(), CommStatus::kOk);
  });
}

TYPED_TEST_P(ProcessGroupConformance, SplitsIntoGroupsOfTheirOwn) {
  TypeParam::run([](ProcessGroup& group) {
    std::vector<std::int32_t> even;
    std::vector<std::int32_t> odd;
    for (std::int32_t r = 0; r < group.size(); ++r) (r % 2 == 0 ? even : odd).push_back(r);
    const auto evens = group.split(even);
    const auto odds = group.split(odd);
    const bool is_even = group.rank() % 2 == 0;
    ASSERT_EQ(evens != nullptr, is_even);
    ASSERT_EQ(odds != nullptr, !is_even);
    ProcessGroup& mine = is_even ? *evens : *odds;
    const auto& members = is_even ? even : odd;
    EXPECT_EQ(mine.size(), static_cast<std::int32_t>(members.size()));
    EXPECT_EQ(to_int(mine.world_rank(mine.rank())), group.rank());
    EXPECT_NE(mine.id(), group.id());
    double sum = 0;
    for (const std::int32_t r : members) sum += r;

    // Both groups at work at once, waited for in the other order.
    const Tensor small = filled(group, DType::kF32, 3, [&](std::int64_t) { return group.rank(); });
    const Tensor large = filled(group, DType::kF32, 3, [&](std::int64_t) { return 1; });
    const Work in_mine = mine.all_reduce(Memory::of(small));
    const Work in_world = group.all_reduce(Memory::of(large));
    ASSERT_EQ(in_world.wait(), CommStatus::kOk);
    ASSERT_EQ(in_mine.wait(), CommStatus::kOk);
    EXPECT_EQ(small.at(0), sum);
    EXPECT_EQ(large.at(0), group.size());
  });
}

// The list's order numbers the members of the new group.
TYPED_TEST_P(ProcessGroupConformance, ASplitMayRenumberItsMembers) {
  TypeParam::run([](ProcessGroup& group) {
    std::vector<std::int32_t> reversed;
    for (std::int32_t r = group.size(); r-- > 0;) reversed.push_back(r);
    const auto other = group.split(reversed);
    ASSERT_NE(other, nullptr);
    EXPECT_EQ(other->rank(), group.size() - 1 - group.rank());
    const Tensor data = filled(group, DType::kI32, 1, [&](std::int64_t) { return group.rank(); });
    ASSERT_EQ(other->broadcast(Memory::of(data), 0).wait(), CommStatus::kOk);
    EXPECT_EQ(data.at(0), group.size() - 1);
  });
}

TYPED_TEST_P(ProcessGroupConformance, RefusesBrokenContracts) {
  TypeParam::run([](ProcessGroup& group) {
    const Tensor data = Tensor::zeros(group.runtime(), {4}, DType::kF32);
    const Memory memory = Memory::of(data);
    const Memory null{nullptr, 4, DType::kF32, Device::kCpu};
    const std::vector<Memory> too_many(static_cast<std::size_t>(group.size()) + 1, memory);
    const auto refused = [](const std::function<Work()>& call) {
      EXPECT_THROW((void)call(), ContractViolation);
    };
    refused([&] { return group.broadcast(memory, group.size()); });
    refused([&] { return group.reduce(memory, -1); });
    refused([&] { return group.all_reduce(null); });
    refused([&] { return group.all_reduce(memory, ReduceOp::kBxor); });
    refused([&] { return group.all_gather(too_many, memory); });
    refused([&] { return group.reduce_scatter(memory, too_many); });
    refused([&] { return group.all_to_all(too_many, too_many); });
    refused([&] { return group.send(memory, group.rank()); });
    refused([&] { return group.recv(memory, group.rank()); });
    // Nothing of it was posted: the group is as good as new.
    EXPECT_EQ(group.barrier().wait(), CommStatus::kOk);
  });
}

REGISTER_TYPED_TEST_SUITE_P(ProcessGroupConformance,
                            KnowsItsMembers,
                            AllReduceSumsEveryElementType,
                            AllReduceOffersTheArithmeticOperations,
                            AllReduceOffersTheBitwiseOperations,
                            AllRanksGetTheSameBits,
                            BroadcastsFromEveryRoot,
                            ReducesToEveryRoot,
                            AllGathersEqualAndUnequalParts,
                            ReduceScattersEqualAndUnequalParts,
                            GathersToEveryRoot,
                            ScattersFromEveryRoot,
                            ExchangesAllToAll,
                            BarriersComplete,
                            SendsAroundARing,
                            TagsSeparateMessages,
                            WorksMayBeWaitedForInAnyOrder,
                            WaitingTwiceAnswersTheSame,
                            PollingEndsWhenTheWorkIsDone,
                            ADroppedWorkGoesOn,
                            EmptyBuffersTakePart,
                            SplitsIntoGroupsOfTheirOwn,
                            ASplitMayRenumberItsMembers,
                            RefusesBrokenContracts);

}  // namespace lockstep::conformance
