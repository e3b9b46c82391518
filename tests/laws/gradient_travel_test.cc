#include "lockstep/laws/rules/detail/mean/gradient_travel.h"

#include <gtest/gtest.h>

namespace lockstep::laws {
namespace {

Signature call_of(CollectiveOp op, DType dtype) { return {.op = op, .dtype = dtype}; }

TEST(GradientTravelTest, WithoutAHookGradientsTravelAsTheyAre) {
  GradientTravel travel(true);
  travel.on_call(call_of(CollectiveOp::kAllReduce, DType::kF16));
  EXPECT_EQ(travel.manner_of({}).effect, HookEffect::kMean);
  EXPECT_FALSE(travel.manner_of({}).wire.has_value());
  EXPECT_EQ(travel.halves(), DType::kF16);
}

TEST(GradientTravelTest, AHookThatRoundsSendsWhatItsCallsSay) {
  GradientTravel travel(true);
  travel.on_hook({}, {.effect = HookEffect::kRounded});
  EXPECT_FALSE(travel.manner_of(wrapper_of({})).wire.has_value()) << "nothing narrow was sent";
  travel.on_call(call_of(CollectiveOp::kAllReduce, DType::kBF16));
  EXPECT_EQ(travel.manner_of(wrapper_of({})).wire, DType::kBF16);
  travel.on_call(call_of(CollectiveOp::kAllGather, DType::kU8));
  EXPECT_FALSE(travel.manner_of(wrapper_of({})).wire.has_value()) << "bytes have any meaning";
}

TEST(GradientTravelTest, OnlyAllReducesCarryGradientsAsHalves) {
  GradientTravel travel(true);
  travel.on_call(call_of(CollectiveOp::kBroadcast, DType::kF16));
  EXPECT_FALSE(travel.halves().has_value());
}

TEST(GradientTravelTest, LosslessPolicyIgnoresHookAnnotations) {
  GradientTravel travel(false);
  travel.on_hook({}, {.effect = HookEffect::kOther});
  EXPECT_EQ(travel.manner_of(wrapper_of({})).effect, HookEffect::kMean);
}

}  // namespace
}  // namespace lockstep::laws
