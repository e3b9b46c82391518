// Every hook against PyTorch's, bit for bit, on two and three ranks over several steps.
#include <algorithm>
#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "lockstep/hooks/compress_hooks.h"
#include "lockstep/hooks/default_hooks.h"
#include "lockstep/hooks/low_rank.h"
#include "lockstep/hooks/post_local_sgd_hook.h"
#include "lockstep/hooks/power_sgd_hook.h"
#include "lockstep/hooks/quantization_hooks.h"

#include "tests/golden/golden_bits.h"
#include "tests/hooks/buckets.h"
#include "tests/hooks/golden_case.h"
#include "tests/support/mini_world.h"

namespace lockstep {
namespace {

using golden::HookCase;
using testing::MiniRank;
using testing::MiniResult;
using Words = std::vector<std::string>;

std::unique_ptr<CommHook> make_hook(const HookCase& one, ProcessGroup& group) {
  const std::string& name = one.hook;
  if (name.ends_with("allreduce")) return std::make_unique<AllReduceHook>(group);
  if (name == "noop") return std::make_unique<NoopHook>();
  if (name == "quantize_tensor") return std::make_unique<QuantizePerTensorHook>(group);
  if (name == "quantize_channel") return std::make_unique<QuantizePerChannelHook>(group);
  const DType wire = name.starts_with("bf16") ? DType::kBF16 : DType::kF16;
  if (!name.ends_with("wrapper")) return std::make_unique<CompressHook>(group, wire);
  return std::make_unique<CompressWrapper>(std::make_unique<AllReduceHook>(group), wire);
}

/// What one rank's hook makes of all steps and buckets.
Words results_of(const HookCase& one, CommHook& hook, const MiniRank& rank) {
  Words words;
  for (std::int64_t step = 0; step < one.n_steps; ++step) {
    for (std::size_t b = 0; b < one.buckets.size(); ++b) {
      GradBucket bucket = one.bucket(rank.runtime, b);
      one.fill(bucket, step, rank.rank);
      golden::append_short(words, testing::run_and_wait(hook, bucket));
    }
  }
  return words;
}

/// Results and collectives of all ranks, laid out as the golden file has them.
Words run_case(const HookCase& one, Words& collectives) {
  std::vector<Words> results(static_cast<std::size_t>(one.n_ranks));
  const MiniResult run = testing::run_mini_world(
      {.n_ranks = one.n_ranks, .order = ReductionOrder::kGlooRing}, [&](MiniRank& rank) {
        const auto hook = make_hook(one, rank.group);
        results[static_cast<std::size_t>(rank.rank)] = results_of(one, *hook, rank);
      });
  EXPECT_TRUE(run.ok()) << run.error(0);
  collectives = testing::collectives_of(*run.trace, 0);
  return one.layout(results);
}

class HooksGoldenTest : public ::testing::TestWithParam<const char*> {};

TEST_P(HooksGoldenTest, HooksAndTheirCollectivesEqualPyTorchs) {
  const std::vector<HookCase> cases = golden::hook_cases(GetParam());
  ASSERT_FALSE(cases.empty());

  for (const HookCase& one : cases) {
    Words collectives;
    EXPECT_EQ(run_case(one, collectives), one.results) << one.text;
    if (!one.collectives.empty()) {
      EXPECT_EQ(collectives, one.collectives) << one.text;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Hooks,
                         HooksGoldenTest,
                         ::testing::Values("allreduce",
                                           "builtin_allreduce",
                                           "ddp_allreduce",
                                           "fp16",
                                           "builtin_fp16",
                                           "ddp_fp16",
                                           "fp16_wrapper",
                                           "bf16",
                                           "bf16_wrapper",
                                           "noop",
                                           "quantize_tensor",
                                           "quantize_channel"));

TEST(PowerSgdGoldenTest, EqualsPytorchInResultsErrorsCountsAndCollectives) {
  const std::vector<HookCase> cases = golden::hook_cases("powersgd");
  ASSERT_FALSE(cases.empty());

  for (const HookCase& one : cases) {
    std::vector<Words> results(static_cast<std::size_t>(one.n_ranks));
    std::vector<Words> states(results.size());
    const MiniResult run = testing::run_mini_world(
        {.n_ranks = one.n_ranks, .order = ReductionOrder::kGlooRing}, [&](MiniRank& rank) {
          PowerSgdHook hook(rank.group, one.power_sgd());
          const auto r = static_cast<std::size_t>(rank.rank);
          results[r] = results_of(one, hook, rank);
          const PowerSgdState& state = hook.state();
          if (r == 0) {
            states[r] = {std::to_string(state.n_elems_before),
                         std::to_string(state.n_elems_after),
                         std::to_string(state.iteration)};
          }
          for (const auto& [index, error] : state.errors) golden::append_short(states[r], error);
        });
    ASSERT_TRUE(run.ok()) << run.error(0);
    for (std::size_t r = 1; r < states.size(); ++r) {
      states[0].insert(states[0].end(), states[r].begin(), states[r].end());
    }

    EXPECT_EQ(one.layout(results), one.results) << one.text;
    EXPECT_EQ(states[0], one.state) << one.text;
    EXPECT_EQ(testing::collectives_of(*run.trace, 0), one.collectives) << one.text;
  }
}

TEST(PowerSgdGoldenTest, SeedsAreThoseOfRandomState) {
  std::size_t n_cases = 0;
  for (const golden::Case& one : golden::read("hooks.txt")) {
    if (one.kind != "seeds") continue;
    ++n_cases;
    Generator stream(static_cast<std::uint64_t>(one.integer(0)));
    for (const std::string& expected : golden::words_of(one.values)) {
      EXPECT_EQ(std::to_string(next_low_rank_seed(stream)), expected) << one.text();
    }
  }
  EXPECT_EQ(n_cases, 3U);
}

/// One line: the stack it starts from is drawn, the result must have these bits.
Tensor drawn_stack(const golden::Case& one, Runtime& runtime) {
  const Shape shape{one.integer(1), one.integer(2), one.integer(3)};
  const Tensor stack = Tensor::empty(runtime, shape, parse_enum<DType>(one.arguments[0]).value());
  testing::fill_normal(stack, static_cast<std::uint64_t>(shape[0] + shape[1] + shape[2]));
  return stack;
}

TEST(PowerSgdGoldenTest, GramAndSchmidtEqualsPytorch) {
  testing::TestRuntime test;
  for (const golden::Case& one : golden::read("hooks.txt")) {
    if (one.kind != "orthogonalize" || one.integer(3) > 2) continue;
    const Tensor stack = drawn_stack(one, test.runtime);
    orthogonalize(stack, one.arguments[4] == "0" ? 0.0 : 1e-3);

    Words words;
    golden::append_short(words, stack);
    EXPECT_EQ(words, golden::words_of(one.values)) << one.text();
  }
}

// Both sides are within the backward error of Householder's method, c n r eps, of the exact Q times
// the condition of the matrix; the drawn ones have a condition below 100.
TEST(PowerSgdGoldenTest, HouseholderIsWithinRoundingOfLapackSignsIncluded) {
  testing::TestRuntime test;
  std::size_t n_cases = 0;
  for (const golden::Case& one : golden::read("hooks.txt")) {
    if (one.kind != "orthogonalize" || one.integer(3) <= 2) continue;
    ++n_cases;
    const Tensor stack = drawn_stack(one, test.runtime);
    orthogonalize(stack, 0.0);

    golden::WordReader reader(one.values);
    const Tensor expected = reader.take(test.runtime, stack.shape(), stack.dtype());
    const double eps = stack.dtype() == DType::kF32 ? 0x1p-24 : 0x1p-53;
    const double bound = 2.0 * 100.0 * static_cast<double>(stack.size(1) * stack.size(2)) * eps;
    for (std::int64_t i = 0; i < stack.n_elems(); ++i) {
      EXPECT_NEAR(stack.at(i), expected.at(i), bound) << one.text();
    }
  }
  EXPECT_EQ(n_cases, 6U);
}

}  // namespace
}  // namespace lockstep
