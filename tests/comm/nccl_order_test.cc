// NCCL's orders against sums written out by hand and against a plain emulation of the algorithm.
#include "lockstep/comm/detail/nccl_order.h"

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/check.h"
#include "lockstep/base/half.h"
#include "lockstep/comm/detail/scaled_sum.h"

#include "tests/support/test_runtime.h"

namespace lockstep {
namespace {

using testing::TestRuntime;
using Rows = std::vector<std::vector<float>>;  // By rank.

ReductionOrder order(const std::string& name) { return parse_reduction_order(name).value(); }

std::vector<float> reduced(Rows rows, const std::string& name, ReduceOp op = ReduceOp::kSum) {
  TestRuntime test;
  std::vector<void*> outputs;
  std::vector<const void*> inputs;
  for (std::vector<float>& row : rows) {
    outputs.push_back(row.data());
    inputs.push_back(row.data());
  }
  const auto count = static_cast<std::int64_t>(rows[0].size());
  reduce_in_order(
      *test.kernels,
      {.outputs = outputs, .inputs = inputs, .count = count, .dtype = DType::kF32, .op = op},
      order(name));
  for (const auto& row : rows) EXPECT_EQ(row, rows[0]);
  return rows[0];
}

Rows fractions(std::size_t n_ranks, std::size_t count) {
  Rows rows(n_ranks, std::vector<float>(count));
  for (std::size_t r = 0; r < n_ranks; ++r) {
    for (std::size_t i = 0; i < count; ++i) {
      rows[r][i] =
          1.0F / static_cast<float>(3 + (7 * i + 13 * r) % 101) - 0.3F * static_cast<float>(r % 2);
    }
  }
  return rows;
}

// -- the ring, by the formula: element i of a loop belongs to chunk c = i / K.

std::vector<float> ring_emulated(const Rows& rows, const std::vector<std::size_t>& ring) {
  const std::size_t n = rows.size();
  const std::size_t full = (std::size_t{2} << 20) / sizeof(float);
  std::vector<float> sums(rows[0].size());
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const std::size_t loop = i / (n * full) * (n * full);
    const std::size_t rest = sums.size() - loop;
    const std::size_t chunk = rest < n * full ? ((rest + n - 1) / n + 3) / 4 * 4 : full;
    const std::size_t c = (i - loop) / chunk;
    float sum = rows[ring[(c + 1) % n]][i];
    for (std::size_t k = 2; k <= n; ++k) sum += rows[ring[(c + k) % n]][i];
    sums[i] = sum;
  }
  return sums;
}

TEST(NcclOrderTest, TheRingStartsEachChunkAfterItsOwner) {
  // Chunks of four. 1e8 and -1e8 swallow the 1 unless they meet first, which takes the chain
  // 0, 1, 2 of chunk 2; chunk 0 adds 1, 2, 0 and chunk 1 adds 2, 0, 1.
  const Rows rows = {
      std::vector<float>(12, 1e8F), std::vector<float>(12, -1e8F), std::vector<float>(12, 1.0F)};
  std::vector<float> expected(12, 0.0F);
  for (std::size_t i = 8; i < 12; ++i) expected[i] = 1.0F;
  EXPECT_EQ(reduced(rows, "nccl-ring"), expected);
}

TEST(NcclOrderTest, TheRingFollowsItsFormula) {
  for (std::size_t n = 1; n <= 8; ++n) {
    std::vector<std::size_t> ascending(n);
    for (std::size_t r = 0; r < n; ++r) ascending[r] = r;
    for (const std::size_t count : {1U, 4U, 17U, 301U}) {
      const Rows rows = fractions(n, count);
      EXPECT_EQ(reduced(rows, "nccl-ring"), ring_emulated(rows, ascending)) << n << " " << count;
    }
  }
}

TEST(NcclOrderTest, LongBuffersGoInLoopsOfFullChunks) {
  const std::size_t count = 2 * (std::size_t{2} << 20) / sizeof(float) + 1003;
  const Rows rows = fractions(2, count);
  EXPECT_EQ(reduced(rows, "nccl-ring"), ring_emulated(rows, {0, 1}));
}

TEST(NcclOrderTest, AListedRingIsFollowed) {
  const Rows rows = fractions(4, 100);
  EXPECT_EQ(reduced(rows, "nccl-ring:0,2,1,3"), ring_emulated(rows, {0, 2, 1, 3}));
  EXPECT_NE(reduced(rows, "nccl-ring"), ring_emulated(rows, {0, 2, 1, 3}));
  // Where a ring begins to be listed does not matter.
  EXPECT_EQ(reduced(rows, "nccl-ring:1,3,0,2"), ring_emulated(rows, {0, 2, 1, 3}));
}

TEST(NcclOrderTest, EachChannelHasItsOwnPartAndRing) {
  // 10,000 floats in two channels: 6144 and 3856.
  const Rows rows = fractions(3, 10'000);
  const auto part = [&](std::size_t first, std::size_t last, const std::vector<std::size_t>& ring) {
    Rows cut;
    for (const auto& row : rows) {
      cut.emplace_back(row.begin() + static_cast<std::ptrdiff_t>(first),
                       row.begin() + static_cast<std::ptrdiff_t>(last));
    }
    return ring_emulated(cut, ring);
  };
  std::vector<float> expected = part(0, 6144, {0, 1, 2});
  const std::vector<float> second = part(6144, 10'000, {0, 2, 1});
  expected.insert(expected.end(), second.begin(), second.end());
  EXPECT_EQ(reduced(rows, "nccl-ring:0,1,2;0,2,1"), expected);
  EXPECT_NE(reduced(rows, "nccl-ring@2"), expected);
  EXPECT_NE(reduced(rows, "nccl-ring"), reduced(rows, "nccl-ring@2"));
}

TEST(NcclOrderTest, ChannelsCutTheBufferInCells) {
  using Ends = std::vector<std::int64_t>;
  EXPECT_EQ(detail::channel_ends(10'000, 4, 2, 2), (Ends{6144, 10'000}));
  EXPECT_EQ(detail::channel_ends(10'000, 4, 4, 2), (Ends{4096, 8192, 10'000}));
  EXPECT_EQ(detail::channel_ends(100'000, 4, 4, 2), (Ends{26'624, 53'248, 79'872, 100'000}));
  EXPECT_EQ(detail::channel_ends(7, 4, 4, 2), (Ends{7}));
  EXPECT_EQ(detail::channel_ends(1'000'000, 4, 1, 2), (Ends{1'000'000}));
}

// A chunk of Simple holds the whole part of a rank here, one of LL 8,192 floats, one of LL128 144,000.
TEST(NcclOrderTest, ProtocolsLoopOverChunksOfTheirOwnSize) {
  const Rows rows = fractions(3, 500'000);
  const auto looped = [&](std::size_t chunk) {
    std::vector<float> sums;
    for (std::size_t first = 0; first < rows[0].size(); first += 3 * chunk) {
      Rows loop;
      for (const auto& row : rows) {
        const auto end = std::min(first + 3 * chunk, row.size());
        loop.emplace_back(row.begin() + static_cast<std::ptrdiff_t>(first),
                          row.begin() + static_cast<std::ptrdiff_t>(end));
      }
      const std::vector<float> part = ring_emulated(loop, {0, 1, 2});
      sums.insert(sums.end(), part.begin(), part.end());
    }
    return sums;
  };
  EXPECT_EQ(reduced(rows, "nccl-ring"), looped(524'288));
  EXPECT_EQ(reduced(rows, "nccl-ring.ll"), looped(8'192));
  EXPECT_EQ(reduced(rows, "nccl-ring.ll128"), looped(144'000));
  EXPECT_NE(reduced(rows, "nccl-ring.ll"), reduced(rows, "nccl-ring"));
  EXPECT_NE(reduced(rows, "nccl-ring.ll128"), reduced(rows, "nccl-ring"));
}

// LL is counted four times: with two channels 10,000 floats are cut into cells of 2 KiB instead of 8.
TEST(NcclOrderTest, LlCutsChannelsInSmallerCells) {
  EXPECT_EQ(detail::traffic_of(2, NcclProtocol::kLl), 8);
  EXPECT_EQ(detail::traffic_of(2, NcclProtocol::kLl128), 2);
  EXPECT_EQ(detail::channel_ends(10'000, 4, 2, 8), (std::vector<std::int64_t>{5'120, 10'000}));
}

TEST(NcclOrderTest, TreesRepeatAfterTheirPeriod) {
  const auto second = [](const char* name) {
    std::string text;
    for (std::int32_t channel = 0; channel < order(name).n_channels(); ++channel) {
      text += order(name).has_second_tree(channel) ? '2' : '1';
    }
    return text;
  };
  EXPECT_EQ(second("nccl-tree"), "1");
  EXPECT_EQ(second("nccl-tree@2"), "12");
  EXPECT_EQ(second("nccl-tree@4"), "1122");
  EXPECT_EQ(second("nccl-tree@4/2"), "1212");
  EXPECT_EQ(second("nccl-tree@3/4"), "112");
  EXPECT_EQ(second("nccl-tree@2/4"), "11");
}

// The chain of a reduce ends at the root, that of a part at its owner.
TEST(NcclOrderTest, ChainsOfAReduceEndAtTheRoot) {
  TestRuntime test;
  const std::vector<float> x = {1e8F, -1e8F, 1.0F};
  for (std::int32_t root = 0; root < 3; ++root) {
    float result = 0;
    void* output = &result;
    const std::vector<const void*> inputs = {x.data(), x.data() + 1, x.data() + 2};
    reduce_in_order(
        *test.kernels,
        {.outputs = std::span<void* const>(&output, 1), .inputs = inputs, .count = 1, .last = root},
        order("nccl-ring"));
    // Roots 0, 1, 2 add 1,2,0; 2,0,1; 0,1,2: only the last keeps the one.
    EXPECT_EQ(result, root == 2 ? 1.0F : 0.0F) << root;
  }
}

// -- trees

std::string written(const detail::Tree& tree, std::int32_t rank) {
  std::string text = "x" + std::to_string(rank);
  const auto& children = tree.children[static_cast<std::size_t>(rank)];
  for (std::size_t c = 0; c < children.size(); ++c) {
    const std::string child = written(tree, children[c]);
    const std::string term =
        tree.children[static_cast<std::size_t>(children[c])].empty() ? child : "(" + child + ")";
    text = (c == 0 ? text : "(" + text + ")") + "+" + term;
  }
  return text;
}

std::string written(std::int32_t n_ranks, bool second) {
  const detail::Tree tree = detail::make_nccl_tree(n_ranks, second);
  return written(tree, tree.root);
}

TEST(NcclOrderTest, TreesAreNcclsDoubleBinaryTrees) {
  EXPECT_EQ(written(1, false), "x0");
  EXPECT_EQ(written(2, false), "x0+x1");
  EXPECT_EQ(written(3, false), "x0+(x2+x1)");
  EXPECT_EQ(written(3, true), "x1+(x0+x2)");
  EXPECT_EQ(written(4, false), "x0+((x2+x1)+x3)");
  EXPECT_EQ(written(4, true), "x3+((x1+x2)+x0)");
  EXPECT_EQ(written(5, false), "x0+(x4+((x2+x1)+x3))");
  EXPECT_EQ(written(5, true), "x1+(x0+((x3+x2)+x4))");
  EXPECT_EQ(written(8, false), "x0+((x4+((x2+x1)+x3))+((x6+x5)+x7))");
  EXPECT_EQ(written(8, true), "x7+((x3+((x5+x6)+x4))+((x1+x2)+x0))");
}

TEST(NcclOrderTest, EveryRankHangsInATreeOnce) {
  for (std::int32_t n = 1; n <= 65; ++n) {
    for (const bool second : {false, true}) {
      const detail::Tree tree = detail::make_nccl_tree(n, second);
      std::vector<int> parents(static_cast<std::size_t>(n));
      for (const auto& children : tree.children) {
        EXPECT_LE(children.size(), 2U);
        for (const std::int32_t child : children) ++parents[static_cast<std::size_t>(child)];
      }
      for (std::int32_t r = 0; r < n; ++r) {
        EXPECT_EQ(parents[static_cast<std::size_t>(r)], r == tree.root ? 0 : 1) << n << " " << r;
      }
    }
  }
}

TEST(NcclOrderTest, TreeSumsFollowTheTree) {
  const Rows x = fractions(8, 20'000);
  const std::vector<float> one = reduced(x, "nccl-tree");
  const std::vector<float> two = reduced(x, "nccl-tree@2");
  bool other_bits = false;
  for (std::size_t i = 0; i < one.size(); ++i) {
    const auto v = [&](std::size_t r) { return x[r][i]; };
    const float first = v(0) + ((v(4) + ((v(2) + v(1)) + v(3))) + ((v(6) + v(5)) + v(7)));
    const float second = v(7) + ((v(3) + ((v(5) + v(6)) + v(4))) + ((v(1) + v(2)) + v(0)));
    ASSERT_EQ(one[i], first);
    // 160,000 bytes of traffic, five cells of 16 KiB: 10,240 floats in the first channel.
    ASSERT_EQ(two[i], i < 10'240 ? first : second);
    other_bits = other_bits || first != second;
  }
  EXPECT_TRUE(other_bits);
}

// -- averages

// Fused, unfused and sum-then-divide give three different answers here.
TEST(NcclOrderTest, AnAverageMultipliesFirstAndFuses) {
  const Rows rows = {{4.0F}, {1.0F}, {6.0F}};
  const auto bits = [](float value) { return std::bit_cast<std::uint32_t>(value); };
  EXPECT_EQ(bits(reduced(rows, "nccl-ring", ReduceOp::kAvg)[0]), 0x406aaaacU);
  EXPECT_EQ(bits(reduced(rows, "rank", ReduceOp::kAvg)[0]), 0x406aaaabU);
  EXPECT_EQ(bits(reduced(rows, "pairwise", ReduceOp::kAvg)[0]), 0x406aaaabU);
  const float third = 1.0F / 3.0F;
  EXPECT_EQ(bits((1.0F * third + 6.0F * third) + 4.0F * third), 0x406aaaaaU);
}

TEST(NcclOrderTest, TreesFuseTheOwnValueWithTheFirstChild) {
  const Rows x = fractions(4, 50);
  const std::vector<float> got = reduced(x, "nccl-tree", ReduceOp::kAvg);
  for (std::size_t i = 0; i < got.size(); ++i) {
    // A quarter is exact, so only the order is seen.
    const float inner = (x[2][i] * 0.25F + x[1][i] * 0.25F) + x[3][i] * 0.25F;
    ASSERT_EQ(got[i], x[0][i] * 0.25F + inner);
  }
  const Rows three = fractions(3, 50);
  const std::vector<float> thirds = reduced(three, "nccl-tree", ReduceOp::kAvg);
  for (std::size_t i = 0; i < thirds.size(); ++i) {
    const float third = 1.0F / 3.0F;
    const float leaf = three[1][i] * third;
    ASSERT_EQ(thirds[i], std::fma(three[0][i], third, std::fma(three[2][i], third, leaf)));
  }
}

TEST(NcclOrderTest, IntegersAreDividedAtTheEnd) {
  TestRuntime test;
  for (const char* name : {"nccl-ring", "nccl-tree", "rank", "pairwise", "gloo-ring"}) {
    std::vector<std::int32_t> x = {-7, 2, 0};
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
    for (std::int32_t& value : x) {
      inputs.push_back(&value);
      outputs.push_back(&value);
    }
    reduce_in_order(*test.kernels,
                    {.outputs = outputs,
                     .inputs = inputs,
                     .count = 1,
                     .dtype = DType::kI32,
                     .op = ReduceOp::kAvg},
                    order(name));
    EXPECT_EQ(x, (std::vector<std::int32_t>(3, -1))) << name;  // -5 / 3, cut towards zero.
  }
}

// -- 16-bit elements round at every hop

std::vector<std::uint16_t> narrow_ring(std::vector<std::uint16_t> x, DType dtype, ReduceOp op) {
  TestRuntime test;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (std::uint16_t& value : x) {
    inputs.push_back(&value);
    outputs.push_back(&value);
  }
  reduce_in_order(*test.kernels,
                  {.outputs = outputs, .inputs = inputs, .count = 1, .dtype = dtype, .op = op},
                  order("nccl-ring"));
  return x;
}

TEST(NcclOrderTest, HalvesRoundAtEveryHop) {
  // Chain 1, 2, 0. In f16 2048 + 1 rounds back to 2048 each time; an f32 sum would keep 2050.
  EXPECT_EQ(narrow_ring({to_f16(1), to_f16(2048), to_f16(1)}, DType::kF16, ReduceOp::kSum)[0],
            to_f16(2048));
  // In bf16 the same happens at 256.
  EXPECT_EQ(narrow_ring({to_bf16(1), to_bf16(256), to_bf16(1)}, DType::kBF16, ReduceOp::kSum)[0],
            to_bf16(256));
  // The other chain keeps both: ones first.
  EXPECT_EQ(narrow_ring({to_f16(2048), to_f16(1), to_f16(1)}, DType::kF16, ReduceOp::kSum)[0],
            to_f16(2050));
}

// All 16-bit products and sums against arithmetic in long double, wide enough to be exact here.
template <typename Load, typename Store>
void expect_one_rounding(DType dtype, Load load, Store store, float smallest_step) {
  const double factor = detail::rounded_factor(1.0 / 3.0, dtype);
  for (std::uint32_t k = 0; k < 40'000; ++k) {
    const auto a = static_cast<std::uint16_t>((k * 40503U + 7U) & 0xffffU);
    const auto b = static_cast<std::uint16_t>((k * 30011U + 977U) & 0xffffU);
    const float x = load(a);
    const float sum = load(b);
    if (!std::isfinite(x) || !std::isfinite(sum)) continue;
    std::uint16_t got = 0;
    detail::scale_and_add(&got, &a, factor, &b, 1, dtype);
    const long double exact = static_cast<long double>(x) * static_cast<long double>(factor) +
                              static_cast<long double>(sum);
    if (!std::isfinite(load(got))) continue;
    // Nearest: no neighbour is closer.
    const long double error = std::fabs(static_cast<long double>(load(got)) - exact);
    for (const int step : {-1, 1}) {
      const auto other = static_cast<std::uint16_t>(got + step);
      const float neighbour = load(other);
      if (!std::isfinite(neighbour) || std::signbit(neighbour) != std::signbit(load(got))) continue;
      const long double distance = std::fabs(static_cast<long double>(neighbour) - exact);
      ASSERT_LE(error, distance) << x << " " << sum;
      // Ties to even.
      if (error == distance) {
        ASSERT_EQ(got & 1U, 0U) << x << " " << sum;
      }
    }
  }
  EXPECT_EQ(load(store(smallest_step)), smallest_step);
}

TEST(NcclOrderTest, FusedStepsRoundOnce) {
  expect_one_rounding(DType::kF16, from_f16, to_f16, 0x1p-24F);
  expect_one_rounding(DType::kBF16, from_bf16, to_bf16, 0x1p-133F);
}

// 1 + 2^-11 is a tie of f16 and goes down; the product's last bit, far below what f32 holds next
// to it, lifts it over the tie.
TEST(NcclOrderTest, ABitFarBelowDecidesATie) {
  const std::uint16_t one = to_f16(1.0F);
  const std::uint16_t x = to_f16(0x1p-11F + 0x1p-21F);
  std::uint16_t got = 0;
  detail::scale_and_add(&got, &x, 1.0, &one, 1, DType::kF16);
  EXPECT_EQ(got, to_f16(1.0F) + 1);
  const std::uint16_t big = to_bf16(1.0F);
  const std::uint16_t half_step = to_bf16(0x1p-8F);
  // 2^-8 is the tie of bf16 at 1; times (1 + 2^-7) it is above.
  detail::scale_and_add(&got, &half_step, 1.0, &big, 1, DType::kBF16);
  EXPECT_EQ(got, to_bf16(1.0F));
  detail::scale_and_add(&got, &half_step, 1.0 + 0x1p-7, &big, 1, DType::kBF16);
  EXPECT_EQ(got, to_bf16(1.0F) + 1);
}

// -- names

TEST(NcclOrderTest, NamesReadBack) {
  for (const char* name : {"rank",
                           "gloo-ring",
                           "pairwise",
                           "nccl-ring",
                           "nccl-tree",
                           "nccl-ring@4",
                           "nccl-tree@2",
                           "nccl-tree@4/2",
                           "nccl-tree@2/4",
                           "nccl-tree.ll@3/2",
                           "nccl-ring.ll",
                           "nccl-ring.ll128@8",
                           "nccl-ring.ll:0,2,1",
                           "nccl-ring:0,2,1",
                           "nccl-ring:0,1,2;0,2,1"}) {
    ASSERT_TRUE(parse_reduction_order(name).has_value()) << name;
    EXPECT_EQ(name_of(order(name)), name);
  }
  EXPECT_EQ(name_of(order("nccl-ring:2,1,0")), "nccl-ring:0,2,1");
  EXPECT_EQ(order("nccl-ring@1"), ReductionOrder(ReductionOrder::kNcclRing));
  EXPECT_EQ(name_of(order("nccl-tree@2/2")), "nccl-tree@2");
  EXPECT_EQ(name_of(order("nccl-tree@1/4")), "nccl-tree");
  for (const char* name : {"",
                           "nccl",
                           "rank@2",
                           "gloo-ring@2",
                           "nccl-ring@0",
                           "nccl-ring@65",
                           "nccl-ring@x",
                           "nccl-ring:",
                           "nccl-ring:0,1,1",
                           "nccl-ring:1,2",
                           "nccl-ring:0,1;0,1,2",
                           "nccl-ring:0,1;",
                           "nccl-tree:0,1",
                           "nccl-ring@4/2",
                           "nccl-tree@4/3",
                           "nccl-tree@4/0",
                           "nccl-tree@4/66",
                           "nccl-tree@4/",
                           "nccl-tree@4/2/2",
                           "nccl-ring.simple",
                           "nccl-ring.",
                           "rank.ll",
                           "nccl-ring.ll@",
                           "nccl-ring:0,-1"}) {
    EXPECT_FALSE(parse_reduction_order(name).has_value()) << name;
  }
}

TEST(NcclOrderTest, ListedRingsFitOneSizeOfWorld) {
  EXPECT_TRUE(order("nccl-ring:0,2,1").fits(3));
  EXPECT_FALSE(order("nccl-ring:0,2,1").fits(4));
  EXPECT_TRUE(order("nccl-ring@4").fits(4));
  EXPECT_THROW(ReductionOrder(ReductionOrder::kRank, {.n_channels = 2}), ContractViolation);
  EXPECT_THROW(ReductionOrder(ReductionOrder::kRank, {.protocol = NcclProtocol::kLl}),
               ContractViolation);
  EXPECT_THROW(ReductionOrder(ReductionOrder::kNcclRing, {.tree_period = 2}), ContractViolation);
  EXPECT_THROW(ReductionOrder(ReductionOrder::kNcclTree, {.tree_period = 3}), ContractViolation);
}

// -- every order differs

TEST(NcclOrderTest, EachOrderHasItsOwnBits) {
  const Rows rows = fractions(7, 400);
  const std::vector<std::string> names = {
      "rank", "gloo-ring", "pairwise", "nccl-ring", "nccl-tree", "nccl-ring:0,2,4,6,1,3,5"};
  for (std::size_t a = 0; a < names.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      EXPECT_NE(reduced(rows, names[a]), reduced(rows, names[b])) << names[a] << " " << names[b];
    }
  }
}

}  // namespace
}  // namespace lockstep
