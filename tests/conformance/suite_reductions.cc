#include <cstring>

#include "tests/conformance/process_group_suite.h"
#include "tests/conformance/values.h"

namespace lockstep::conformance {

namespace {

// Every operation on every element type that has it, against formulas.
void all_reduces_every_type_and_operation(ProcessGroup& group) {
  for (const DType dtype : kNumbers) {
    for (const ReduceOp op : kOps) {
      if (op == ReduceOp::kAvg || !offers(group, op, dtype)) continue;
      for (const std::int64_t count : {1, 5, 64, 257}) {
        const Tensor data =
            filled(group, dtype, count, [&](std::int64_t i) { return operand(group.rank(), i); });
        const OpOptions options{.premul = 0.5};
        ASSERT_EQ(group.all_reduce(Memory::of(data), op, options).wait(), CommStatus::kOk);
        expect_filled(
            data,
            [&](std::int64_t i) { return reduced(op, group.size(), i); },
            std::string(name_of(dtype)) + " " + std::string(name_of(op)));
      }
    }
  }
}

double epsilon_of(DType dtype) {
  if (dtype == DType::kF64) return 0x1p-52;
  if (dtype == DType::kF32) return 0x1p-23;
  return dtype == DType::kF16 ? 0x1p-10 : 0x1p-7;
}

// Integers cut towards zero. Floats: each of N products and N - 1 additions rounds by half a unit
// at most, less than N + 1 units of the mean; sizes that are powers of two round nowhere.
void averages_every_type(ProcessGroup& group) {
  const std::int32_t n = group.size();
  for (const DType dtype : kNumbers) {
    if (!offers(group, ReduceOp::kAvg, dtype)) continue;
    const Tensor data =
        filled(group, dtype, 9, [&](std::int64_t i) { return operand(group.rank(), i); });
    ASSERT_EQ(group.all_reduce(Memory::of(data), ReduceOp::kAvg).wait(), CommStatus::kOk);
    for (std::int64_t i = 0; i < 9; ++i) {
      const double sum = reduced(ReduceOp::kSum, n, i);
      if (!is_floating(dtype)) {
        ASSERT_EQ(data.at(i), static_cast<double>(static_cast<std::int64_t>(sum) / n));
      } else if ((n & (n - 1)) == 0) {
        ASSERT_EQ(data.at(i), sum / n) << name_of(dtype);
      } else {
        ASSERT_NEAR(data.at(i), sum / n, (n + 1) * epsilon_of(dtype) * sum / n) << name_of(dtype);
      }
    }
  }
}

// As NCCL: a sum of booleans is "any", a product "all".
void reduces_booleans(ProcessGroup& group) {
  const std::int32_t n = group.size();
  const auto reduced_to = [&](ReduceOp op, const Fill& mine) {
    const Tensor data = filled(group, DType::kBool, 2, mine);
    EXPECT_EQ(group.all_reduce(Memory::of(data), op).wait(), CommStatus::kOk);
    return data.at(1);
  };
  const Fill only_the_last = [&](std::int64_t) { return group.rank() == n - 1 ? 1 : 0; };
  EXPECT_EQ(reduced_to(ReduceOp::kSum, only_the_last), 1);
  EXPECT_EQ(reduced_to(ReduceOp::kMax, only_the_last), 1);
  EXPECT_EQ(reduced_to(ReduceOp::kProduct, only_the_last), n == 1 ? 1 : 0);
  EXPECT_EQ(reduced_to(ReduceOp::kMin, only_the_last), n == 1 ? 1 : 0);
}

// Sums leave the type's range and come back on the other side.
void integer_sums_wrap_around(ProcessGroup& group) {
  const std::int32_t n = group.size();
  const Tensor data = filled(group, DType::kU8, 3, [](std::int64_t) { return 200; });
  ASSERT_EQ(group.all_reduce(Memory::of(data)).wait(), CommStatus::kOk);
  expect_filled(
      data, [&](std::int64_t) { return (200 * n) % 256; }, "u8");
}

// The reduced operations of the other reductions, on every type.
void reduces_and_scatters_every_type_and_operation(ProcessGroup& group) {
  const std::int32_t n = group.size();
  for (const DType dtype : kNumbers) {
    for (const ReduceOp op : kOps) {
      if (op == ReduceOp::kAvg || !offers(group, op, dtype)) continue;
      const OpOptions options{.premul = 0.5};
      const std::string what = std::string(name_of(dtype)) + " " + std::string(name_of(op));
      const Tensor all =
          filled(group, dtype, 4 * n, [&](std::int64_t i) { return operand(group.rank(), i); });
      const Tensor mine = zeros(group, dtype, 4);
      ASSERT_EQ(group.reduce_scatter_tensor(Memory::of(mine), Memory::of(all), op, options).wait(),
                CommStatus::kOk);
      expect_filled(
          mine, [&](std::int64_t i) { return reduced(op, n, 4 * group.rank() + i); }, what);
      ASSERT_EQ(group.reduce(Memory::of(all), n - 1, op, options).wait(), CommStatus::kOk);
      if (group.rank() != n - 1) continue;
      expect_filled(
          all, [&](std::int64_t i) { return reduced(op, n, i); }, what);
    }
  }
}

void all_reduces_several_buffers_at_once(ProcessGroup& group) {
  std::vector<Tensor> data;
  for (const std::int64_t count : {3, 0, 7}) {
    data.push_back(filled(group, DType::kF64, count, [&](std::int64_t i) {
      return operand(group.rank(), i + count);
    }));
  }
  ASSERT_EQ(group.all_reduce_coalesced(memories(data)).wait(), CommStatus::kOk);
  for (const Tensor& tensor : data) {
    expect_filled(
        tensor,
        [&](std::int64_t i) { return reduced(ReduceOp::kSum, group.size(), i + tensor.n_elems()); },
        "coalesced");
  }
}

// Numbers that round: the order decides the bits, and all ranks must get the same ones.
void all_ranks_get_the_same_bits(ProcessGroup& group) {
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
}

void reduces_to_every_root(ProcessGroup& group) {
  const double n = group.size();
  for (std::int32_t root = 0; root < group.size(); ++root) {
    const Tensor data =
        filled(group, DType::kF32, 9, [&](std::int64_t) { return group.rank() + 1; });
    ASSERT_EQ(group.reduce(Memory::of(data), root).wait(), CommStatus::kOk);
    if (group.rank() != root) continue;  // Elsewhere c10d leaves the buffer unspecified.
    expect_filled(
        data, [&](std::int64_t) { return n * (n + 1) / 2; }, "reduce");
  }
}

void reduce_scatters_equal_and_unequal_parts(ProcessGroup& group) {
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
}

}  // namespace

std::vector<Case> reduction_cases() {
  return {
      {"AllReducesEveryTypeAndOperation", all_reduces_every_type_and_operation, 1},
      {"AveragesEveryType", averages_every_type, 1},
      {"ReducesBooleans", reduces_booleans, 1},
      {"IntegerSumsWrapAround", integer_sums_wrap_around, 1},
      {"ReducesAndScattersEveryTypeAndOperation", reduces_and_scatters_every_type_and_operation, 1},
      {"AllReducesSeveralBuffersAtOnce", all_reduces_several_buffers_at_once, 1},
      {"AllRanksGetTheSameBits", all_ranks_get_the_same_bits, 1},
      {"ReducesToEveryRoot", reduces_to_every_root, 1},
      {"ReduceScattersEqualAndUnequalParts", reduce_scatters_equal_and_unequal_parts, 1},
  };
}

}  // namespace lockstep::conformance
