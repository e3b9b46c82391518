// Laws of all hooks over random buckets, sizes of worlds and orders of reduction.
#include <cmath>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "lockstep/hooks/compress_hooks.h"
#include "lockstep/hooks/default_hooks.h"
#include "lockstep/hooks/low_rank.h"
#include "lockstep/hooks/power_sgd_hook.h"
#include "lockstep/hooks/quantization_hooks.h"

#include "tests/hooks/replica_runs.h"

namespace lockstep {
namespace {

using testing::Bytes;
using testing::MakeHook;
using testing::MiniRank;
using testing::MiniResult;
using testing::plain;

constexpr PowerSgdOptions kRankTwo{.rank = 2, .start_iter = 2, .min_compression_rate = 1.0};
constexpr PowerSgdOptions kRankFour{
    .rank = 4, .start_iter = 2, .min_compression_rate = 1.0, .batch_same_shapes = true};

std::vector<MakeHook> deterministic_hooks() {
  return {plain<AllReduceHook>(),
          plain<CompressHook>(DType::kF16),
          plain<CompressHook>(DType::kBF16),
          [](MiniRank& rank) {
            return std::make_unique<CompressWrapper>(std::make_unique<AllReduceHook>(rank.group),
                                                     DType::kF16);
          },
          plain<QuantizePerTensorHook>(),
          plain<QuantizePerChannelHook>(std::int64_t{5}),
          plain<PowerSgdHook>(kRankTwo),
          plain<PowerSgdHook>(kRankFour)};
}

std::vector<Shape> any_shapes() {
  std::vector<Shape> shapes;
  const int n = *rc::gen::inRange(1, 5);
  for (int i = 0; i < n; ++i) {
    const auto rows = *rc::gen::inRange<std::int64_t>(1, 12);
    const auto columns = *rc::gen::inRange<std::int64_t>(1, 12);
    shapes.push_back(*rc::gen::arbitrary<bool>() ? Shape{rows, columns} : Shape{rows});
  }
  return shapes;
}

/// By rank, the results of four steps.
std::vector<Bytes> four_steps(const MakeHook& make_hook, const std::vector<Shape>& shapes) {
  const auto n_ranks = *rc::gen::inRange(1, 5);
  const auto seed = *rc::gen::inRange<std::uint64_t>(0, 1000000);
  const auto order = *rc::gen::element(
      ReductionOrder::kRank, ReductionOrder::kGlooRing, ReductionOrder::kPairwise);
  std::vector<Bytes> results(static_cast<std::size_t>(n_ranks));
  const MiniResult run =
      testing::run_mini_world({.n_ranks = n_ranks, .order = order}, [&](MiniRank& rank) {
        const auto hook = make_hook(rank);
        for (std::uint64_t step = 0; step < 4; ++step) {
          GradBucket bucket = testing::make_bucket(rank.runtime, shapes);
          testing::fill_normal(bucket.buffer(),
                               seed + step * 100 + static_cast<std::uint64_t>(rank.rank));
          const Bytes bytes = testing::bytes_of(testing::run_and_wait(*hook, bucket));
          Bytes& all = results[static_cast<std::size_t>(rank.rank)];
          all.insert(all.end(), bytes.begin(), bytes.end());
        }
      });
  RC_ASSERT(run.ok());
  return results;
}

RC_GTEST_PROP(HooksProperty, ReplicasStayBitEqual, ()) {
  const std::vector<MakeHook> hooks = deterministic_hooks();
  const MakeHook& make_hook = hooks[*rc::gen::inRange<std::size_t>(0, hooks.size())];
  for (const std::vector<Bytes> results = four_steps(make_hook, any_shapes());
       const Bytes& one : results) {
    RC_ASSERT(one == results[0]);
  }
}

RC_GTEST_PROP(HooksProperty, ReplicasDivergeWithoutCommunication, ()) {
  const std::vector<Bytes> results =
      four_steps([](MiniRank&) { return std::make_unique<NoopHook>(); }, any_shapes());
  for (std::size_t r = 1; r < results.size(); ++r) RC_ASSERT(results[r] != results[0]);
}

// Each error is one rounded subtraction: sent + error differs from what was wanted by at most half
// a unit in the last place of the error.
RC_GTEST_PROP(HooksProperty, ErrorFeedbackLosesNothing, ()) {
  const std::vector<Shape> shapes = any_shapes();
  const auto seed = *rc::gen::inRange<std::uint64_t>(0, 1000000);
  const MiniResult run = testing::run_mini_world({.n_ranks = 1}, [&](MiniRank& rank) {
    PowerSgdHook hook(rank.group, kRankTwo);
    std::vector<double> error;
    for (std::uint64_t step = 0; step < 5; ++step) {
      GradBucket bucket = testing::make_bucket(rank.runtime, shapes, DType::kF32);
      testing::fill_normal(bucket.buffer(), seed + step);
      std::vector<double> wanted = testing::values_of(bucket.buffer());
      for (std::size_t i = 0; i < error.size(); ++i) {
        wanted[i] = static_cast<double>(static_cast<float>(wanted[i] + error[i]));
      }
      const std::vector<double> sent = testing::values_of(testing::run_and_wait(hook, bucket));
      if (step < 2) continue;
      error = testing::values_of(hook.state().errors.at(0));
      for (std::size_t i = 0; i < error.size(); ++i) {
        RC_ASSERT(std::abs(sent[i] + error[i] - wanted[i]) <= std::abs(error[i]) * 0x1p-24);
      }
    }
  });
  RC_ASSERT(run.ok());
}

// |Q'Q - I| <= 8 n r eps in f64: Householder's factors are orthonormal whatever the matrix is.
RC_GTEST_PROP(HooksProperty, HouseholderFactorsAreOrthonormal, ()) {
  const auto r = *rc::gen::inRange<std::int64_t>(3, 7);
  const auto n = *rc::gen::inRange<std::int64_t>(r, 30);
  testing::TestRuntime test;
  const Tensor q = Tensor::empty(test.runtime, {1, n, r}, DType::kF64);
  testing::fill_normal(q, *rc::gen::inRange<std::uint64_t>(0, 1000000));
  orthogonalize(q, 0.0);

  const Tensor gram = Tensor::empty(test.runtime, {1, r, r}, DType::kF64);
  multiply(gram, q, q, StackProduct::kTransposeA);
  for (std::int64_t i = 0; i < r * r; ++i) {
    const double expected = i / r == i % r ? 1.0 : 0.0;
    RC_ASSERT(std::abs(gram.at(i) - expected) <= 8.0 * static_cast<double>(n * r) * 0x1p-53);
  }
}

}  // namespace
}  // namespace lockstep
