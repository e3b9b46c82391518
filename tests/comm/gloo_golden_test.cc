// The order gloo-ring against what gloo left behind: every operation and element type, two to eight
// processes.
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/comm/reduction_order.h"

#include "tests/golden/golden_file.h"
#include "tests/support/test_runtime.h"

namespace lockstep {
namespace {

using testing::TestRuntime;

// As make_gloo.py has it.
double value(DType dtype, std::int64_t rank, std::int64_t i) {
  const auto h = static_cast<std::uint32_t>(((static_cast<std::uint64_t>(rank) + 1) * 7919 +
                                             (static_cast<std::uint64_t>(i) + 1) * 104729) *
                                            2654435761U);
  if (dtype == DType::kF32) return (static_cast<double>(h >> 8U) - 0x1p23) / 0x1p20;
  if (dtype == DType::kF64) return (static_cast<double>(h >> 8U) - 0x1p23) * 1.1;
  if (dtype == DType::kF16) return (static_cast<double>(h >> 21U) - 1024) / 256;
  if (dtype == DType::kI8 || dtype == DType::kU8) return h >> 25U;
  return static_cast<double>(h >> 2U) - 0x1p29;
}

std::uint64_t word_of(const Tensor& tensor, std::int64_t i) {
  std::uint64_t word = 0;
  const auto bytes = static_cast<std::size_t>(size_of(tensor.dtype()));
  std::memcpy(&word,
              static_cast<const std::byte*>(tensor.raw()) + static_cast<std::size_t>(i) * bytes,
              bytes);
  return word;
}

std::string listed(const Tensor& tensor) {
  const auto digits = static_cast<std::size_t>(2 * size_of(tensor.dtype()));
  if (tensor.n_elems() > 40) {
    std::vector<std::int64_t> words;
    for (std::int64_t i = 0; i < tensor.n_elems(); ++i) {
      words.push_back(static_cast<std::int64_t>(word_of(tensor, i)));
    }
    return "# " + std::to_string(tensor.n_elems()) + " " + hex64(golden::digest(words));
  }
  std::string text;
  for (std::int64_t i = 0; i < tensor.n_elems(); ++i) {
    text += (i == 0 ? "" : " ") + hex64(word_of(tensor, i)).substr(16 - digits);
  }
  return text;
}

const std::map<std::string, ReduceOp> kOps = {{"sum", ReduceOp::kSum},
                                              {"product", ReduceOp::kProduct},
                                              {"min", ReduceOp::kMin},
                                              {"max", ReduceOp::kMax},
                                              {"band", ReduceOp::kBand},
                                              {"bor", ReduceOp::kBor},
                                              {"bxor", ReduceOp::kBxor}};

// kind n dtype op count [root]
std::string answer(const golden::Case& one, const std::string& order) {
  TestRuntime test;
  const std::int64_t n_ranks = std::stoll(one.arguments[0]);
  const DType dtype = parse_enum<DType>(one.arguments[1]).value();
  const std::int64_t count = std::stoll(one.arguments[3]);
  std::vector<Tensor> data;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (std::int64_t r = 0; r < n_ranks; ++r) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(value(dtype, r, i));
    data.push_back(Tensor::of(test.runtime, {count}, dtype, values));
    inputs.push_back(data.back().raw());
    outputs.push_back(data.back().raw());
  }
  RankReduction job{.outputs = outputs,
                    .inputs = inputs,
                    .count = count,
                    .dtype = dtype,
                    .op = kOps.at(one.arguments[2])};
  if (one.kind == "reduce") job.last = std::stoi(one.arguments[4]);
  reduce_in_order(*test.kernels, job, parse_reduction_order(order).value());
  return listed(data[0]);
}

TEST(GlooGoldenTest, TheRingLeavesWhatGlooLeaves) {
  std::size_t n_seen = 0;
  for (const golden::Case& one : golden::read("gloo.txt")) {
    EXPECT_EQ(answer(one, "gloo-ring"), one.values) << one.text();
    ++n_seen;
  }
  EXPECT_GT(n_seen, 300U);
}

// The golden file can tell the orders apart, so the test above says something.
TEST(GlooGoldenTest, OrdersOtherThanTheRingLeaveOtherBits) {
  for (const std::string order : {"rank", "pairwise", "nccl-ring", "nccl-tree"}) {
    std::size_t n_different = 0;
    for (const golden::Case& one : golden::read("gloo.txt")) {
      const bool sums = one.arguments[2] == "sum" && one.arguments[1][0] == 'f';
      if (!sums || one.arguments[3] != "997") continue;
      if (one.arguments[0] != "2" && answer(one, order) != one.values) ++n_different;
    }
    EXPECT_GE(n_different, 9U) << order;
  }
}

}  // namespace
}  // namespace lockstep
