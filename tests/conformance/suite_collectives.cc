#include "lockstep/collectives/object_collectives.h"

#include "tests/conformance/process_group_suite.h"
#include "tests/conformance/values.h"

namespace lockstep::conformance {

namespace {

void broadcasts_from_every_root(ProcessGroup& group) {
  for (std::int32_t root = 0; root < group.size(); ++root) {
    const Tensor data = filled(group, DType::kI64, 7, [&](std::int64_t i) {
      return static_cast<double>(100 * group.rank() + i);
    });
    ASSERT_EQ(group.broadcast(Memory::of(data), root).wait(), CommStatus::kOk);
    expect_filled(
        data, [&](std::int64_t i) { return 100.0 * root + static_cast<double>(i); }, "broadcast");
  }
}

void all_gathers_equal_and_unequal_parts(ProcessGroup& group) {
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
}

void gathers_to_every_root(ProcessGroup& group) {
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
}

void scatters_from_every_root(ProcessGroup& group) {
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
}

// Rank s sends s + 1 elements to every rank in the uneven case: only the transposed counts agree.
void exchanges_all_to_all(ProcessGroup& group) {
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
}

void all_gathers_into_one_tensor(ProcessGroup& group) {
  const Tensor mine = filled(group, DType::kI32, 3, [&](std::int64_t i) {
    return static_cast<double>(10 * group.rank() + i);
  });
  const Tensor all = zeros(group, DType::kI32, 3 * group.size());
  ASSERT_EQ(group.all_gather_into_tensor(Memory::of(all), Memory::of(mine)).wait(),
            CommStatus::kOk);
  expect_filled(
      all, [](std::int64_t i) { return static_cast<double>(10 * (i / 3) + i % 3); }, "all_gather");
}

// The list form and the tensor form are one operation: ranks may mix them.
void gathers_of_both_forms_meet(ProcessGroup& group) {
  const Tensor mine = filled(group, DType::kF32, 2, [&](std::int64_t) { return group.rank(); });
  const Tensor all = zeros(group, DType::kF32, 2 * group.size());
  std::vector<Memory> parts;
  for (std::int32_t r = 0; r < group.size(); ++r) parts.push_back(Memory::of(all).slice(2 * r, 2));
  const Work work = group.rank() % 2 == 0
                        ? group.all_gather(parts, Memory::of(mine))
                        : group.all_gather_into_tensor(Memory::of(all), Memory::of(mine));
  ASSERT_EQ(work.wait(), CommStatus::kOk);
  expect_filled(
      all, [](std::int64_t i) { return static_cast<double>(i / 2); }, "all_gather");
}

// Rank s sends s + r + 1 elements to rank r.
void exchanges_one_tensor_by_splits(ProcessGroup& group) {
  const std::int32_t n = group.size();
  std::vector<std::int64_t> splits;
  std::int64_t total = 0;
  for (std::int32_t r = 0; r < n; ++r) total += splits.emplace_back(group.rank() + r + 1);
  const Tensor input =
      filled(group, DType::kI64, total, [&](std::int64_t) { return group.rank(); });
  const Tensor output = zeros(group, DType::kI64, total);
  ASSERT_EQ(group.all_to_all_single(Memory::of(output), Memory::of(input), splits, splits).wait(),
            CommStatus::kOk);
  std::int64_t at = 0;
  for (std::int32_t r = 0; r < n; ++r) {
    for (std::int64_t k = 0; k < group.rank() + r + 1; ++k) ASSERT_EQ(output.at(at++), r);
  }

  const Tensor even = filled(group, DType::kF32, 2 * n, [&](std::int64_t i) {
    return static_cast<double>(10 * group.rank() + i / 2);
  });
  const Tensor received = zeros(group, DType::kF32, 2 * n);
  ASSERT_EQ(group.all_to_all_single(Memory::of(received), Memory::of(even)).wait(),
            CommStatus::kOk);
  expect_filled(
      received,
      [&](std::int64_t i) { return static_cast<double>(10 * (i / 2) + group.rank()); },
      "all_to_all_single");
}

// Bits travel, not values: NaN payloads and the sign of zero arrive.
void moves_bits_of_every_type(ProcessGroup& group) {
  for (const DType dtype : kNumbers) {
    const std::int64_t n_bytes = 4 * size_of(dtype);
    std::vector<std::uint8_t> mine(static_cast<std::size_t>(n_bytes));
    for (std::size_t i = 0; i < mine.size(); ++i) {
      mine[i] = static_cast<std::uint8_t>(0xff - 7 * i - static_cast<std::size_t>(group.rank()));
    }
    std::vector<std::uint8_t> all(mine.size() * static_cast<std::size_t>(group.size()));
    const Memory input{mine.data(), 4, dtype, Device::kCpu};
    const Memory output{all.data(), 4 * group.size(), dtype, Device::kCpu};
    ASSERT_EQ(group.all_gather_into_tensor(output, input).wait(), CommStatus::kOk);
    for (std::size_t i = 0; i < all.size(); ++i) {
      ASSERT_EQ(all[i], static_cast<std::uint8_t>(0xff - 7 * (i % mine.size()) - i / mine.size()));
    }
  }
}

void empty_buffers_take_part(ProcessGroup& group) {
  const Tensor none = zeros(group, DType::kF32, 0);
  const Memory memory = Memory::of(none);
  const std::vector<Memory> list(static_cast<std::size_t>(group.size()), memory);
  const std::vector<Memory> empty;
  const std::vector<Memory>& at_root = group.rank() == 0 ? list : empty;
  EXPECT_EQ(group.all_reduce(memory).wait(), CommStatus::kOk);
  EXPECT_EQ(group.broadcast(memory, 0).wait(), CommStatus::kOk);
  EXPECT_EQ(group.reduce(memory, 0).wait(), CommStatus::kOk);
  EXPECT_EQ(group.all_gather(list, memory).wait(), CommStatus::kOk);
  EXPECT_EQ(group.all_gather_into_tensor(memory, memory).wait(), CommStatus::kOk);
  EXPECT_EQ(group.reduce_scatter(memory, list).wait(), CommStatus::kOk);
  EXPECT_EQ(group.gather(at_root, memory, 0).wait(), CommStatus::kOk);
  EXPECT_EQ(group.scatter(memory, at_root, 0).wait(), CommStatus::kOk);
  EXPECT_EQ(group.all_to_all(list, list).wait(), CommStatus::kOk);
}

// No rank leaves before all have entered: what each says before the barrier is there after it.
void barriers_complete(ProcessGroup& group) {
  for (int i = 0; i < 3; ++i) ASSERT_EQ(group.barrier().wait(), CommStatus::kOk);
}

void objects_of_any_size_travel(ProcessGroup& group) {
  const auto object = [](std::int32_t r) {
    return std::string(static_cast<std::size_t>(3 * r), 'x');
  };
  const std::vector<std::string> all = all_gather_object(group, object(group.rank()));
  ASSERT_EQ(all.size(), static_cast<std::size_t>(group.size()));
  for (std::int32_t r = 0; r < group.size(); ++r) {
    EXPECT_EQ(all[static_cast<std::size_t>(r)], object(r));
  }
  std::vector<std::string> list = {"?", "", "a longer one that the root does not have"};
  const std::int32_t root = group.size() - 1;
  if (group.rank() == root) list = {"first", std::string("with a \0 in it", 14), ""};
  broadcast_object_list(group, list, root);
  EXPECT_EQ(list, (std::vector<std::string>{"first", std::string("with a \0 in it", 14), ""}));
}

}  // namespace

std::vector<Case> collective_cases() {
  return {
      {"BroadcastsFromEveryRoot", broadcasts_from_every_root, 1},
      {"AllGathersEqualAndUnequalParts", all_gathers_equal_and_unequal_parts, 1},
      {"AllGathersIntoOneTensor", all_gathers_into_one_tensor, 1},
      {"GathersOfBothFormsMatch", gathers_of_both_forms_meet, 1},
      {"GathersToEveryRoot", gathers_to_every_root, 1},
      {"ScattersFromEveryRoot", scatters_from_every_root, 1},
      {"ExchangesAllToAll", exchanges_all_to_all, 1},
      {"ExchangesOneTensorBySplits", exchanges_one_tensor_by_splits, 1},
      {"MovesBitsOfEveryType", moves_bits_of_every_type, 1},
      {"EmptyBuffersTakePart", empty_buffers_take_part, 1},
      {"BarriersComplete", barriers_complete, 1},
      {"ObjectsOfAnySizeTravel", objects_of_any_size_travel, 1},
  };
}

}  // namespace lockstep::conformance
