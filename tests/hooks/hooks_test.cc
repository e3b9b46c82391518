// Hooks whose results can be computed in the head, and what each of them refuses.
#include <cmath>
#include <gmock/gmock.h>
#include <limits>

#include <gtest/gtest.h>

#include "lockstep/hooks/compress_hooks.h"
#include "lockstep/hooks/default_hooks.h"
#include "lockstep/hooks/hook_catalog.h"
#include "lockstep/hooks/quantization_hooks.h"
#include "lockstep/hooks/step_hooks.h"

#include "tests/ddp/tiny_model.h"
#include "tests/hooks/replica_runs.h"

namespace lockstep {
namespace {

using testing::collectives_of;
using testing::make_bucket;
using testing::MiniRank;
using testing::plain;
using testing::ReplicaRun;
using testing::run_and_wait;
using testing::run_replicas;
using testing::TinyModel;
using testing::values_of;
using Texts = std::vector<std::string>;
using Values = std::vector<double>;

TEST(AllReduceHookTest, TheResultIsTheAverageOverTheRanks) {
  const ReplicaRun run = run_replicas({{2, 4}, {6, 16}}, plain<AllReduceHook>());

  EXPECT_EQ(run.values[0], (Values{4, 10}));
  EXPECT_EQ(run.values[1], (Values{4, 10}));
  EXPECT_EQ(collectives_of(*run.mini.trace, 0), (Texts{"AR f32[2]"}));
}

// 5 / 3 rounds to a different float than 5 * (1 / 3) does.
TEST(AllReduceHookTest, DividesWhereTheReducerMultiplies) {
  const ReplicaRun run = run_replicas({{5}, {0}, {0}}, plain<AllReduceHook>());

  EXPECT_EQ(run.values[0][0], static_cast<double>(5.0F / 3.0F));
  EXPECT_NE(run.values[0][0], static_cast<double>(5.0F * (1.0F / 3.0F)));
}

/// A user's hook with the classic mistake.
class ForgetfulHook final : public CommHook {
 public:
  explicit ForgetfulHook(ProcessGroup& group) : group_(&group) {}

  std::unique_ptr<PendingBucket> run(GradBucket& bucket) override {
    group_->all_reduce(Memory::of(bucket.buffer())).wait_or_throw();
    return NoopHook().run(bucket);
  }

 private:
  ProcessGroup* group_;
};

TEST(AllReduceHookTest, ForgettingTheDivisionGivesNTimesTheMeanOnEveryRank) {
  const ReplicaRun run = run_replicas({{2, 4}, {6, 16}}, plain<ForgetfulHook>());

  EXPECT_EQ(run.values[0], (Values{8, 20}));
  EXPECT_TRUE(run.replicas_equal());
}

TEST(NoopHookTest, CommunicatesNothingAndReplicasDiffer) {
  const ReplicaRun run =
      run_replicas({{1}, {2}}, [](MiniRank&) { return std::make_unique<NoopHook>(); });

  EXPECT_EQ(run.values[0], (Values{1}));
  EXPECT_EQ(run.values[1], (Values{2}));
  EXPECT_FALSE(run.replicas_equal());
  EXPECT_TRUE(collectives_of(*run.mini.trace, 0).empty());
}

// 65520 is halfway between the largest half, 65504, and what would be the next; ties go to even.
TEST(CompressHookTest, HalvesOverflowToInfinityBeforeTheDivision) {
  const ReplicaRun run =
      run_replicas({{65519, 65520, 1}, {0, 0, 3}}, plain<CompressHook>(DType::kF16));

  EXPECT_EQ(run.values[1], (Values{32752, std::numeric_limits<double>::infinity(), 2}));
  EXPECT_EQ(collectives_of(*run.mini.trace, 0), (Texts{"AR f16[3]"}));
}

TEST(CompressHookTest, Bfloat16KeepsTheRangeAndEightBits) {
  const ReplicaRun run =
      run_replicas({{65520, 257}, {65520, 257}}, plain<CompressHook>(DType::kBF16));

  EXPECT_EQ(run.values[0], (Values{65536, 256}));
}

TEST(CompressHookTest, TheResultIsTheBucketInItsOwnType) {
  testing::run_to_the_end(2, [](MiniRank& rank) {
    CompressHook hook(rank.group, DType::kF16);
    GradBucket bucket = make_bucket(rank.runtime, Values{1, 3}, DType::kF64);
    const Tensor result = run_and_wait(hook, bucket);

    EXPECT_EQ(result.dtype(), DType::kF64);
    EXPECT_TRUE(result.shares_memory_with(bucket.buffer()));
  });
}

TEST(CompressHookTest, RefusesWireTypesThatDoNotCompress) {
  testing::run_to_the_end(1, [](MiniRank& rank) {
    EXPECT_THROW(CompressHook(rank.group, DType::kF32), ContractViolation);
    EXPECT_THROW(CompressWrapper(std::make_unique<NoopHook>(), DType::kI8), ContractViolation);
    EXPECT_THROW(CompressWrapper(nullptr, DType::kF16), ContractViolation);
  });
}

/// Writes down what an inner hook is shown.
class LookingHook final : public CommHook {
 public:
  explicit LookingHook(std::vector<DType>& seen) : seen_(&seen) {}

  std::unique_ptr<PendingBucket> run(GradBucket& bucket) override {
    *seen_ = {bucket.buffer().dtype(), bucket.gradients().front().dtype()};
    EXPECT_TRUE(bucket.gradients().front().shares_memory_with(bucket.buffer()));
    return NoopHook().run(bucket);
  }

 private:
  std::vector<DType>* seen_;
};

TEST(CompressWrapperTest, TheInnerHookSeesTheNarrowBucketAndItsGradients) {
  std::vector<DType> seen;
  const ReplicaRun run = run_replicas({{1.0 / 3.0}}, [&](MiniRank&) {
    return std::make_unique<CompressWrapper>(std::make_unique<LookingHook>(seen), DType::kF16);
  });

  EXPECT_EQ(seen, (std::vector<DType>{DType::kF16, DType::kF16}));
  EXPECT_EQ(run.values[0], (Values{1365.0 / 4096.0}));  // 1/3 with 11 bits.
}

// The range 0 to 255 makes the scale 1: integers are sent exactly.
TEST(QuantizationTest, IntegersBetween0And255AreExactAndTheBucketKeepsItsOwn) {
  testing::run_to_the_end(2, [](MiniRank& rank) {
    QuantizePerTensorHook hook(rank.group);
    const double mine = rank.rank == 0 ? 10.0 : 20.0;
    GradBucket bucket = make_bucket(rank.runtime, Values{0, 255, mine});

    EXPECT_EQ(values_of(run_and_wait(hook, bucket)), (Values{0, 255, 15}));
    EXPECT_EQ(values_of(bucket.buffer()), (Values{0, 255, mine}));
  });
}

// From -1 to 254 the zero point is 1. Halves go to even: 0.5 is sent as 0, 1.5 as 2.
TEST(QuantizationTest, TheRestIsRoundedToTheNearestLevel) {
  const ReplicaRun run = run_replicas({{-1, 254, 0.5, 1.5, 3.25}}, plain<QuantizePerTensorHook>());

  EXPECT_EQ(run.values[0], (Values{-1, 254, 0, 2, 3}));
}

TEST(QuantizationTest, ChannelsHaveTheirOwnScalesAndAMultipleGetsAChannelOfPadding) {
  const ReplicaRun run =
      run_replicas({{0, 255, 1, 0, 510, 3}}, plain<QuantizePerChannelHook>(std::int64_t{3}));

  EXPECT_EQ(run.values[0], (Values{0, 255, 1, 0, 510, 4}));  // 3 is 1.5 levels of 2.
  EXPECT_EQ(collectives_of(*run.mini.trace, 0), (Texts{"AG f32[6]", "AG u8[9]"}));
}

TEST(QuantizationTest, RefusesWhatHasNoScale) {
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    const ReplicaRun run = run_replicas({{1, bad}}, plain<QuantizePerTensorHook>());
    EXPECT_THAT(run.mini.error(0), ::testing::HasSubstr("finite"));
  }
  const ReplicaRun run = run_replicas({{1}}, plain<QuantizePerTensorHook>(), DType::kF64);
  EXPECT_THAT(run.mini.error(0), ::testing::HasSubstr("f32"));
}

/// parameter -= gradient.
class PlainStep final : public ParameterStep {
 public:
  void step(const Variable& parameter, const Tensor& gradient) override {
    parameter.runtime().kernels().sub(parameter.data(), parameter.data(), gradient);
  }
};

TEST(StepHooksTest, StepsWithTheAveragedGradient) {
  testing::run_to_the_end(2, [](MiniRank& rank) {
    PlainStep step;
    StepAfterHook hook(std::make_unique<AllReduceHook>(rank.group), step);
    GradBucket bucket = make_bucket(rank.runtime, Values{rank.rank == 0 ? 2.0 : 4.0});

    EXPECT_EQ(values_of(run_and_wait(hook, bucket)), (Values{3}));
    EXPECT_EQ(values_of(bucket.parameters()[0].data()), (Values{-3}));
  });
}

TEST(StepHooksTest, LeavesOtherParametersAlone) {
  testing::run_to_the_end(1, [](MiniRank& rank) {
    PlainStep step;
    GradBucket bucket = make_bucket(rank.runtime, std::vector<Shape>{{1}, {1}});
    rank.runtime.kernels().fill(bucket.buffer(), 5.0);
    StepAfterHook hook(
        std::make_unique<NoopHook>(), step, std::vector<Variable>{bucket.parameters()[1]});
    static_cast<void>(run_and_wait(hook, bucket));

    EXPECT_EQ(bucket.parameters()[0].data().item(), 0.0);
    EXPECT_EQ(bucket.parameters()[1].data().item(), -5.0);
  });
}

// What PyTorch does too: the step reads the bucket, quantization answers elsewhere.
TEST(StepHooksTest, AroundQuantizationRanksStepWithTheirLocalGradients) {
  Values weights(2);
  testing::run_to_the_end(2, [&](MiniRank& rank) {
    PlainStep step;
    StepAfterHook hook(std::make_unique<QuantizePerTensorHook>(rank.group), step);
    GradBucket bucket = make_bucket(rank.runtime, Values{rank.rank == 0 ? 51.0 : 255.0});
    static_cast<void>(run_and_wait(hook, bucket));
    weights[static_cast<std::size_t>(rank.rank)] = bucket.parameters()[0].data().item();
  });

  EXPECT_EQ(weights, (Values{-51, -255}));
}

TEST(StepHooksTest, DividingAfterwardsOverflowsWhereDividingFirstDoesNot) {
  const double huge = 0x1p127;
  testing::run_to_the_end(2, [&](MiniRank& rank) {
    PlainStep step;
    DivideThenStepHook late(rank.group, step);
    AllReduceHook early(rank.group);

    EXPECT_EQ(run_and_wait(late, make_bucket(rank.runtime, Values{6})).item(), 6.0);
    EXPECT_TRUE(std::isinf(run_and_wait(late, make_bucket(rank.runtime, Values{huge})).item()));
    EXPECT_EQ(run_and_wait(early, make_bucket(rank.runtime, Values{huge})).item(), huge);
  });
}

TEST(HookCatalogTest, MakesEveryHookOfPytorchs) {
  testing::run_to_the_end(1, [](MiniRank& rank) {
    for (const HookKind kind : every<HookKind>()) {
      if (kind == HookKind::kNone || kind == HookKind::kBatchedPowerSgd) continue;
      SCOPED_TRACE(name_of(kind));
      const auto hook = make_comm_hook({.kind = kind}, rank.group);
      ASSERT_TRUE(hook.ok());
      EXPECT_EQ(run_and_wait(*hook.value(), make_bucket(rank.runtime, Values{0, 255})).at(1),
                255.0);
    }
  });
}

TEST(HookCatalogTest, RefusesTheBatchedPowerSgd) {
  testing::run_to_the_end(1, [](MiniRank& rank) {
    EXPECT_THAT(make_comm_hook({.kind = HookKind::kBatchedPowerSgd}, rank.group).error().message,
                ::testing::HasSubstr("fails in PyTorch at its first compressed iteration"));
  });
}

TEST(HookCatalogTest, RefusesWhatPytorchOrTheArithmeticRefuses) {
  const auto refusal = [](const HookSpec& spec) { return check_hook(spec, 4).error().message; };

  EXPECT_THAT(refusal({.kind = HookKind::kPowerSgd, .power_sgd = {.start_iter = 1}}),
              ::testing::HasSubstr("Expect `start_powerSGD_iter` > 1 if `use_error_feedback`"));
  EXPECT_TRUE(
      check_hook({.kind = HookKind::kPowerSgd,
                  .power_sgd = {.start_iter = 0, .error_feedback = false, .warm_start = false}},
                 4)
          .ok());
  EXPECT_THAT(refusal({.kind = HookKind::kPowerSgd, .wrapper = HookWrapper::kFp16}),
              ::testing::HasSubstr("which takes no 16-bit gradients"));
  EXPECT_EQ(refusal({.kind = HookKind::kPostLocalSgd, .local_sgd = {.subgroup = 3}}),
            "subgroups of 3 ranks do not divide 4 ranks");
  EXPECT_TRUE(check_hook({.kind = HookKind::kPostLocalSgd, .wrapper = HookWrapper::kBf16}, 4).ok());
}

TEST(HookCatalogTest, WrapsAHookInSixteenBits) {
  testing::run_to_the_end(1, [](MiniRank& rank) {
    const auto run = [&](HookWrapper wrapper) {
      const auto hook =
          make_comm_hook({.kind = HookKind::kAllReduce, .wrapper = wrapper}, rank.group);
      return run_and_wait(*hook.value(), make_bucket(rank.runtime, Values{257})).item();
    };

    EXPECT_EQ(run(HookWrapper::kNone), 257.0);
    EXPECT_EQ(run(HookWrapper::kFp16), 257.0);  // Eleven significant bits.
    EXPECT_EQ(run(HookWrapper::kBf16), 256.0);  // Eight of them: a tie, to even.
  });
}

// One backward under `hook`: what traces say of the collectives it posted.
std::vector<std::pair<std::int32_t, bool>> positions_of(const testing::MakeHook& make_hook) {
  const testing::MiniResult result = testing::run_mini_world({}, [&](MiniRank& rank) {
    TinyModel model(rank.runtime);
    const Variable w = model.parameter("w", {1, 2});
    Ddp ddp(model.state(), rank.group, {.init_sync = false});
    const auto hook = make_hook(rank);
    ddp.register_comm_hook(*hook);
    testing::forward_backward(ddp, [&] { return testing::flat_term(w, 2.0); });
  });
  EXPECT_EQ(result.error(0), "");
  std::vector<std::pair<std::int32_t, bool>> positions;
  for (const Event& event : result.trace->events(Rank{0})) {
    const auto* collective = std::get_if<CollectiveEvent>(&event.body);
    if (collective == nullptr || collective->phase != CollectivePhase::kPosted) continue;
    positions.emplace_back(event.at.wrapper, collective->signature.layout != 0);
  }
  return positions;
}

TEST(HookPositionTest, CollectivesBelongToTheWrapperAndCarryTheLayoutTheySend) {
  using Positions = std::vector<std::pair<std::int32_t, bool>>;
  EXPECT_EQ(positions_of(plain<AllReduceHook>()), (Positions{{0, true}}));
  EXPECT_EQ(positions_of(plain<CompressHook>(DType::kBF16)), (Positions{{0, true}}));
  EXPECT_EQ(positions_of(plain<QuantizePerTensorHook>()), (Positions{{0, false}, {0, false}}));
}

}  // namespace
}  // namespace lockstep
