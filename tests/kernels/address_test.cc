// No result depends on where memory starts: every kernel on all sixteen float offsets of a cache
// line.
#include <functional>
#include <set>

#include <gtest/gtest.h>

#include "tests/support/test_runtime.h"

namespace lockstep {
namespace {

using testing::TestRuntime;

constexpr std::int64_t kElems = 203;  // Vectors, a tail, and no multiple of anything.

/// Numbers that round in every operation.
std::vector<double> ragged(std::int64_t n, std::uint64_t seed) {
  std::vector<double> values;
  std::uint64_t state = seed;
  for (std::int64_t i = 0; i < n; ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    values.push_back(static_cast<double>(state >> 11U) * 0x1p-52 - 1.0);
  }
  return values;
}

/// The same values, `offset` elements after the start of a cache line.
Tensor placed(Runtime& runtime,
              DType dtype,
              std::uint64_t seed,
              std::int64_t offset,
              std::int64_t n = kElems) {
  const Tensor values = Tensor::of(runtime, {n}, dtype, ragged(n, seed));
  const Tensor at = Tensor::zeros(runtime, {n + 16}, dtype).slice(offset, {n});
  runtime.kernels().copy(at, values);
  return at;
}

struct Operands {
  Kernels& kernels;
  Tensor out;
  Tensor a;
  Tensor b;
  Tensor c;
  Tensor scalar;
};

using Run = std::function<void(const Operands&)>;

/// How many different results `run` has over all starts of its operands.
std::size_t n_results(DType dtype, const Run& run) {
  std::set<std::uint64_t> digests;
  for (std::int64_t offset = 0; offset < 16; ++offset) {
    TestRuntime test;
    // Other offsets for other operands, so that their distances vary too.
    const Operands x{*test.kernels,
                     placed(test.runtime, dtype, 1, offset),
                     placed(test.runtime, dtype, 2, (offset * 3 + 1) % 16),
                     placed(test.runtime, dtype, 3, (offset * 5 + 2) % 16),
                     placed(test.runtime, dtype, 4, (offset * 7 + 3) % 16),
                     placed(test.runtime, dtype, 5, offset, 1)};
    run(x);
    digests.insert(test.kernels->digest(x.out, 0) + test.kernels->digest(x.c, 1000) +
                   test.kernels->digest(x.scalar, 2000));
  }
  return digests.size();
}

const std::vector<std::pair<std::string, Run>>& element_wise() {
  static const std::vector<std::pair<std::string, Run>> runs = {
      {"add", [](const Operands& x) { x.kernels.add(x.out, x.a, x.b); }},
      {"sub", [](const Operands& x) { x.kernels.sub(x.out, x.a, x.b); }},
      {"mul", [](const Operands& x) { x.kernels.mul(x.out, x.a, x.b); }},
      {"div", [](const Operands& x) { x.kernels.div(x.out, x.a, x.b); }},
      {"scale", [](const Operands& x) { x.kernels.scale(x.out, x.a, 0.3); }},
      {"div_scalar", [](const Operands& x) { x.kernels.div_scalar(x.out, x.a, 0.3); }},
      {"add_scaled", [](const Operands& x) { x.kernels.add_scaled(x.out, x.a, x.b, 0.3); }},
      {"relu", [](const Operands& x) { x.kernels.relu(x.out, x.a); }},
      {"relu_backward", [](const Operands& x) { x.kernels.relu_backward(x.out, x.a, x.b); }},
      {"tanh", [](const Operands& x) { x.kernels.tanh(x.out, x.a); }},
      {"tanh_backward", [](const Operands& x) { x.kernels.tanh_backward(x.out, x.a, x.b); }},
      {"round_to_grid", [](const Operands& x) { x.kernels.round_to_grid(x.out, x.a, 5, 0.5); }},
      {"average", [](const Operands& x) { x.kernels.average_into_bucket(x.out, x.a, 3); }},
      {"mse_backward",
       [](const Operands& x) { x.kernels.mse_backward(x.out, x.scalar, x.a, x.b, 3); }},
      {"l1_backward",
       [](const Operands& x) { x.kernels.l1_backward(x.out, x.scalar, x.a, x.b, 3); }},
      {"sgd",
       [](const Operands& x) {
         x.kernels.sgd(
             x.out, x.a, x.c, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true});
       }},
      {"plain sgd", [](const Operands& x) { x.kernels.sgd(x.out, x.a, Tensor(), {.lr = 0.1}); }},
  };
  return runs;
}

const std::vector<std::pair<std::string, Run>>& reductions() {
  static const std::vector<std::pair<std::string, Run>> runs = {
      {"mse", [](const Operands& x) { x.kernels.mse(x.scalar, x.a, x.b, 3); }},
      {"l1", [](const Operands& x) { x.kernels.l1(x.scalar, x.a, x.b, 3); }},
      {"sum_all", [](const Operands& x) { x.kernels.sum_all(x.scalar, x.a); }},
      {"sum_rows",
       [](const Operands& x) {
         x.kernels.sum_rows(x.out.slice(0, {29}), x.a.reshape({7, 29}));
       }},
      {"sketch",
       [](const Operands& x) {
         x.kernels.fill(x.out, x.kernels.sketch(x.a).sums[2]);
         x.kernels.fill(x.scalar, x.kernels.sketch(x.a).l1);
       }},
      {"reduce",
       [](const Operands& x) {
         const std::vector<void*> outputs = {x.out.raw(), x.c.raw()};
         const std::vector<const void*> inputs = {x.a.raw(), x.b.raw(), x.c.raw(), x.out.raw()};
         x.kernels.reduce(outputs, inputs, kElems, x.out.dtype(), ReduceOp::kAvg);
       }},
      {"batch_norm",
       [](const Operands& x) {
         const std::vector<Tensor> in = {x.a.reshape({7, 29}), x.b.slice(0, {29})};
         x.kernels.batch_norm(x.out.reshape({7, 29}), in, {}, {}, {});
       }},
      {"cross_entropy",
       [](const Operands& x) {
         const Tensor labels = Tensor::full(x.out.runtime(), {7}, DType::kI64, 4);
         x.kernels.cross_entropy(x.scalar, x.out.reshape({7, 29}), x.a.reshape({7, 29}), labels, 7);
         x.kernels.cross_entropy_backward(
             x.c.reshape({7, 29}), x.scalar, x.out.reshape({7, 29}), labels, 7);
       }},
  };
  return runs;
}

class AddressTest : public ::testing::TestWithParam<DType> {};

TEST_P(AddressTest, ElementWiseKernelsHaveOneResult) {
  for (const auto& [name, run] : element_wise()) EXPECT_EQ(n_results(GetParam(), run), 1U) << name;
}

TEST_P(AddressTest, ReductionsAndLossesHaveOneResult) {
  for (const auto& [name, run] : reductions()) EXPECT_EQ(n_results(GetParam(), run), 1U) << name;
}

TEST_P(AddressTest, ProductsHaveOneResult) {
  for (const std::int64_t size : {5, 16, 33, 70}) {  // 70 is Eigen's.
    for (const bool transposed : {false, true}) {
      std::set<std::uint64_t> digests;
      for (std::int64_t offset = 0; offset < 16; ++offset) {
        TestRuntime test;
        const std::int64_t n = size * size;
        const Shape square{size, size};
        const Tensor a = placed(test.runtime, GetParam(), 1, offset, n).reshape(square);
        const Tensor b =
            placed(test.runtime, GetParam(), 2, (offset * 3 + 1) % 16, n).reshape(square);
        const Tensor out =
            placed(test.runtime, GetParam(), 3, (offset * 5 + 2) % 16, n).reshape(square);
        test.kernels->gemm(out, a, b, {.transpose_a = !transposed, .transpose_b = transposed});
        digests.insert(test.kernels->digest(out, 0));
      }
      EXPECT_EQ(digests.size(), 1U) << size;
    }
  }
}

// The trap this file guards against: a sum that first runs to an aligned address and then takes
// four lanes at a time.
TEST(AddressCheckTest, AnAlignmentDependentSumWouldBeNoticed) {
  const auto peeled = [](const Operands& x) {
    std::vector<double> lanes(4, 0.0);
    const auto start = reinterpret_cast<std::uintptr_t>(x.a.raw()) / 8;
    for (std::int64_t i = 0; i < kElems; ++i) {
      lanes[(start + static_cast<std::uintptr_t>(i)) % 4] += x.a.at(i);
    }
    x.kernels.fill(x.scalar, ((lanes[0] + lanes[1]) + lanes[2]) + lanes[3]);
  };

  EXPECT_GT(n_results(DType::kF64, peeled), 1U);
}

INSTANTIATE_TEST_SUITE_P(Floats,
                         AddressTest,
                         ::testing::Values(DType::kF32, DType::kF64),
                         [](const auto& suite) { return std::string(name_of(suite.param)); });

}  // namespace
}  // namespace lockstep
