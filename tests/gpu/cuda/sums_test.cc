// Products, sums, losses and observers against the processor's: bit for bit.
#include <array>
#include <limits>

#include "tests/gpu/cuda/beside_cpu.h"

namespace lockstep::testing {
namespace {

using Tensors = std::vector<Tensor>;

constexpr std::array<std::int64_t, 7> kSumSizes = {0, 1, 7, 8, 33, 1'000, 30'011};
const std::vector<DType> kFloats = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16};

class SumsTest : public BesideCpu {};

Case product(std::int64_t m, std::int64_t n, std::int64_t k, Kernels::Gemm options) {
  return {.name = "gemm " + std::to_string(m) + " " + std::to_string(n) + " " + std::to_string(k),
          .run = [=](Bench& b) {
            const Tensor out = b.in({m, n});
            const Tensor a = b.in(options.transpose_a ? Shape{k, m} : Shape{m, k});
            const Tensor c = b.in(options.transpose_b ? Shape{n, k} : Shape{k, n});
            b.kernels().gemm(out, a, c, options);
            return Tensors{out};
          }};
}

TEST_P(SumsTest, ProductsBelow64CubedHaveTheProcessorsBits) {
  std::vector<Case> cases;
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      for (const bool accumulate : {false, true}) {
        const Kernels::Gemm options{transpose_a, transpose_b, accumulate};
        cases.push_back(product(1, 1, 1, options));
        cases.push_back(product(3, 5, 7, options));
        cases.push_back(product(17, 33, 9, options));
        cases.push_back(product(63, 64, 64, options));
        cases.push_back(product(2, 3, 0, options));
        cases.push_back(product(0, 3, 2, options));
        cases.push_back(product(1, 100, 300, options));
      }
    }
  }
  expect_same(cases);
}

using Sizes = std::initializer_list<std::array<std::int64_t, 3>>;

std::vector<Case> products(Sizes sizes) {
  std::vector<Case> cases;
  for (const auto [m, n, k] : sizes) {
    for (const unsigned bits : {0U, 1U, 2U, 7U}) {
      cases.push_back(product(m, n, k, {(bits & 1U) != 0, (bits & 2U) != 0, (bits & 4U) != 0}));
    }
  }
  return cases;
}

// One chain, pairs of chains, fours of chains, and blocks of k: what the processor does depends on
// the column's and the row's place.
TEST_P(SumsTest, StrictProductsOfRealSizeHaveTheProcessorsBits) {
  expect_same(products({{64, 64, 64},
                        {37, 79, 283},
                        {38, 67, 290},
                        {40, 300, 785},
                        {128, 10, 784},
                        {2, 600, 300},
                        {600, 2, 301},
                        {9, 31, 2'049},
                        {700, 400, 1}}));
}

// Dot products in lanes or blocks across them, by how the matrix lies.
TEST_P(SumsTest, StrictProductsWithAVectorHaveTheProcessorsBits) {
  expect_same(products({{1, 5'003, 60},
                        {5'003, 1, 60},
                        {1, 603, 503},
                        {603, 1, 501},
                        {9'001, 1, 131},
                        {1, 9'002, 130},
                        {66, 1, 4'102}}));
}

// cuBLAS adds in its own order; what it must not do is mistake the layout.
TEST_P(SumsTest, LargeProductsOfTheLibraryAreClose) {
  std::vector<Case> cases;
  for (const unsigned bits : {0U, 1U, 2U, 3U, 4U, 7U}) {
    const Kernels::Gemm options{(bits & 1U) != 0, (bits & 2U) != 0, (bits & 4U) != 0};
    cases.push_back({.name = "gemm by cuBLAS",
                     .run =
                         [options](Bench& b) {
                           const Tensor out = b.between({65, 71}, -1.0, 1.0);
                           const Shape a = options.transpose_a ? Shape{83, 65} : Shape{65, 83};
                           const Shape c = options.transpose_b ? Shape{71, 83} : Shape{83, 71};
                           b.kernels().gemm(
                               out, b.between(a, -1.0, 1.0), b.between(c, -1.0, 1.0), options);
                           return Tensors{out};
                         },
                     .ulps = 84.0,
                     .scale = 84.0});
  }
  expect_same(cases, cuda::kFast);
}

TEST_P(SumsTest, SumsOfRowsAndChannelsHaveTheCpusBits) {
  std::vector<Case> cases;
  for (const Shape& shape : {Shape{1, 1}, Shape{1, 300}, Shape{77, 5}, Shape{301, 257}}) {
    cases.push_back({.name = "sum_rows", .run = [=](Bench& b) {
                       const Tensor out = b.out({shape[1]});
                       b.kernels().sum_rows(out, b.in(shape));
                       return Tensors{out};
                     }});
  }
  for (const Shape& shape : {Shape{3, 5}, Shape{4, 3, 5, 7}, Shape{0, 3, 2, 2}, Shape{7, 1, 9}}) {
    cases.push_back({.name = "sum_channels", .run = [=](Bench& b) {
                       const Tensor out = b.out({shape[1]});
                       b.kernels().sum_channels(out, b.in(shape));
                       return Tensors{out};
                     }});
  }
  expect_same(cases);
}

TEST_P(SumsTest, SumsAndLossesOfWholeTensorsHaveTheCpusBits) {
  std::vector<Case> cases;
  for (const std::int64_t n : kSumSizes) {
    cases.push_back({.name = "sum_all", .run = [=](Bench& b) {
                       const Tensor out = b.out({});
                       b.kernels().sum_all(out, b.in({n}));
                       return Tensors{out};
                     }});
    cases.push_back({.name = "mse and l1", .run = [=](Bench& b) {
                       const Tensor mse = b.out({});
                       const Tensor l1 = b.out({});
                       const Tensor x = b.in({n});
                       const Tensor y = b.in({n});
                       b.kernels().mse(mse, x, y, 3.0);
                       b.kernels().l1(l1, x, y, 3.0);
                       return Tensors{mse, l1};
                     }});
  }
  expect_same(cases);
}

TEST_P(SumsTest, NormsAndUnscalingHaveTheCpusBits) {
  std::vector<Case> cases;
  for (const std::int64_t n : kSumSizes) {
    for (const double p : {1.0, 2.0, std::numeric_limits<double>::infinity()}) {
      cases.push_back({.name = "norm", .run = [=](Bench& b) {
                         return Tensors{b.number(b.kernels().norm(b.in({n}), p))};
                       }});
    }
    cases.push_back({.name = "unscale", .run = [=](Bench& b) {
                       const Tensor grad = b.in({n});
                       const bool found = b.kernels().unscale(grad, 0.1);
                       return Tensors{grad, b.number(found ? 1.0 : 0.0)};
                     }});
  }
  expect_same(cases);
}

TEST_P(SumsTest, DigestsAndSketchesHaveTheCpusBits) {
  std::vector<Case> cases;
  for (const std::int64_t n : {std::int64_t{0},
                               std::int64_t{1},
                               std::int64_t{9},
                               std::int64_t{1'000},
                               std::int64_t{1'000'003}}) {
    cases.push_back({.name = "digest",
                     .run =
                         [=](Bench& b) {
                           const Tensor in = b.in({n});
                           return Tensors{b.bits(b.kernels().digest(in, 0)),
                                          b.bits(b.kernels().digest(in, 12'345))};
                         },
                     .dtypes = {DType::kF32, DType::kF64, DType::kBF16, DType::kI8}});
    cases.push_back({.name = "sketch",
                     .run =
                         [=](Bench& b) {
                           const Sketch sketch = b.kernels().sketch(b.in({n}));
                           Tensors all = {b.number(sketch.l1)};
                           for (const double sum : sketch.sums) all.push_back(b.number(sum));
                           return all;
                         },
                     .dtypes = kFloats});
  }
  expect_same(cases);
}

// The published vectors of the digest (docs/trace_format.md), computed with numpy and torch.
TEST_P(SumsTest, DigestsGiveThePublishedVectors) {
  Machine machine(accelerator());
  Runtime& runtime = machine.runtime();
  const auto digest = [&](std::initializer_list<double> values, DType dtype, std::uint64_t base) {
    const Shape shape{static_cast<std::int64_t>(values.size())};
    const std::span<const double> span(values.begin(), values.size());
    return runtime.kernels().digest(Tensor::of(runtime, shape, dtype, span), base);
  };
  EXPECT_EQ(digest({}, DType::kF32, 0), 0U);
  EXPECT_EQ(digest({0.0}, DType::kF32, 0), 0xe220a8397b1dcdafULL);
  EXPECT_EQ(digest({1.0, 2.0, 3.0}, DType::kF32, 0), 0x06eeadf07b8738b2ULL);
  EXPECT_EQ(digest({1.0, 2.0, 3.0}, DType::kF32, 5), 0x8335bc1684693220ULL);
  EXPECT_EQ(digest({1.0, 2.0, 3.0}, DType::kF64, 0), 0xc12e61feb0bf9e3aULL);
  EXPECT_EQ(digest({1.0, -2.0}, DType::kF16, 0), 0x2ed75ead652a3db7ULL);
  EXPECT_EQ(digest({255, 0, 1}, DType::kU8, 0), 0x9a9891cae313fb06ULL);

  std::vector<double> counting(1'000'003);
  for (std::size_t i = 0; i < counting.size(); ++i) counting[i] = static_cast<double>(i);
  const Tensor million = Tensor::of(runtime, {1'000'003}, DType::kF32, counting);
  EXPECT_EQ(runtime.kernels().digest(million, 0), 0x82b7e51caa23bbc2ULL);
}

Case all_reduce(ReduceOp op, std::size_t n_ranks, std::vector<DType> dtypes, bool in_place) {
  return {.name = "reduce " + std::to_string(static_cast<int>(op)),
          .run =
              [=](Bench& b) {
                Tensors inputs;
                Tensors outputs;
                std::vector<const void*> from;
                std::vector<void*> to;
                for (std::size_t r = 0; r < n_ranks; ++r) {
                  inputs.push_back(b.in({1'001}));
                  outputs.push_back(in_place ? inputs[r] : b.out({1'001}));
                  from.push_back(inputs[r].raw());
                  to.push_back(outputs[r].raw());
                }
                b.kernels().reduce(to, from, 1'001, b.dtype(), op);
                return outputs;
              },
          .dtypes = std::move(dtypes)};
}

TEST_P(SumsTest, AllReductionsHaveTheCpusBits) {
  const std::vector<DType> ints = {DType::kI8, DType::kU8, DType::kI32, DType::kI64, DType::kBool};
  std::vector<DType> numbers = kFloats;
  numbers.insert(numbers.end(), ints.begin(), ints.end());
  const std::vector<DType> averaged(numbers.begin(), numbers.end() - 1);
  std::vector<Case> cases;
  for (const std::size_t n_ranks : {1U, 2U, 5U, 65U}) {  // The last goes through the host.
    for (const bool in_place : {false, true}) {
      for (const ReduceOp op :
           {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kMax}) {
        cases.push_back(all_reduce(op, n_ranks, numbers, in_place));
      }
      cases.push_back(all_reduce(ReduceOp::kAvg, n_ranks, averaged, in_place));
      cases.push_back(all_reduce(ReduceOp::kPremulSum, n_ranks, kFloats, in_place));
      for (const ReduceOp op : {ReduceOp::kBand, ReduceOp::kBor, ReduceOp::kBxor}) {
        cases.push_back(all_reduce(op, n_ranks, ints, in_place));
      }
    }
  }
  expect_same(cases);
}

TEST_P(SumsTest, RawMemoryThatTheDeviceDoesNotReachIsReducedOnTheHost) {
  Machine machine(accelerator());
  const std::vector<float> a = {1.0F, 2.0F};
  const std::vector<float> b = {0.5F, 0.25F};
  std::vector<float> sum(2);
  const std::array<const void*, 2> from = {a.data(), b.data()};
  const std::array<void*, 1> to = {sum.data()};
  machine.runtime().kernels().reduce(to, from, 2, DType::kF32, ReduceOp::kSum);

  EXPECT_EQ(sum, (std::vector<float>{1.5F, 2.25F}));
}

LOCKSTEP_ON_EVERY_PLACE(SumsTest);

}  // namespace
}  // namespace lockstep::testing
