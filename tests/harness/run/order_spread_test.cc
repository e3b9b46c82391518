// How far apart orders of addition take a job, against sums made by hand.
#include "lockstep/harness/run/order_spread.h"

#include <cmath>

#include "tests/support/scenario_files.h"

namespace lockstep {
namespace {

class OrderSpreadTest : public ScenarioFiles {
 protected:
  static OrderSpread spread_of(const std::string& text) {
    Result<OrderSpread> spread = order_spread(write(text), "", {});
    EXPECT_TRUE(spread.ok()) << (spread.ok() ? "" : spread.error().text());
    return spread.ok() ? std::move(spread).value() : OrderSpread();
  }

  static const Spread& orders_of(const TensorSpread& tensor) {
    return tensor.by_axis[static_cast<std::size_t>(SpreadAxis::kOrders)];
  }
};

/// f32 gradients of four ranks, averaged: 1, 2^-24, 2^-24 and 0. With w = 0, x = 1 a rank's
/// gradient is -2 y. lr = 1 makes the weight minus the mean.
std::string four_contributions() {
  return "format = 1\nworld = { ranks = 4 }\n"
         "model = { kind = \"linear\", in = 1, out = 1, bias = false, init = { kind = "
         "\"constant\", value = 0.0 } }\n"
         "data = { rows = [ { x = [1], y = [-2] }, { x = [1], y = [-1.1920928955078125e-7] }, { x "
         "= [1], y = [-1.1920928955078125e-7] }, { x = [1], y = [0] } ] }\n"
         "loss = { kind = \"mse\" }\n"
         "optimizer = { kind = \"sgd\", lr = 1.0 }\n"
         "loop = { steps = 1 }\n";
}

TEST_F(OrderSpreadTest, TheSpreadOfThreeContributionsIsThatOfTheirOrders) {
  const OrderSpread spread = spread_of(four_contributions());

  // From the left: (1 + 2^-24) + 2^-24 rounds to 1 twice. The small ones first: 1 + 2^-23.
  ASSERT_EQ(spread.tensors.size(), 2U);
  EXPECT_TRUE(spread.tensors[0].is_gradient);
  EXPECT_EQ(orders_of(spread.tensors[0]).ulps, 1U);
  EXPECT_EQ(orders_of(spread.tensors[0]).scaled, 1.0);
  EXPECT_EQ(orders_of(spread.tensors[0]).low, 1.0);
  EXPECT_EQ(orders_of(spread.tensors[0]).high, 1.0 + std::ldexp(1.0, -23));
  EXPECT_FALSE(spread.tensors[1].is_gradient);
  EXPECT_EQ(orders_of(spread.tensors[1]).low, -1.0 - std::ldexp(1.0, -23));
  EXPECT_EQ(orders_of(spread.tensors[1]).high, -1.0);
  // One parameter is one bucket, however large.
  EXPECT_EQ(spread.tensors[0].by_axis[static_cast<std::size_t>(SpreadAxis::kBuckets)].ulps, 0U);
}

// A second input of 2^20 gives a second gradient, 2^20 times as large: of the same bits, so it is
// one unit apart too, and the first one's unit is negligible.
TEST_F(OrderSpreadTest, ScaledIsInUnitsOfTheLargestElement) {
  std::string text = replaced(four_contributions(), "in = 1", "in = 2");
  for (int i = 0; i < 4; ++i) text = replaced(text, "x = [1],", "x = [1, 1048576],");

  const OrderSpread spread = spread_of(text);

  ASSERT_EQ(spread.tensors.size(), 2U);
  EXPECT_EQ(orders_of(spread.tensors[0]).ulps, 1U);
  EXPECT_EQ(orders_of(spread.tensors[0]).scaled, 1.0);

  // Only the first input in the ranks that differ: 2^-23 of a tensor whose largest element is 2^20.
  text = replaced(four_contributions(), "in = 1", "in = 2");
  text = replaced(text, "x = [1],", "x = [1, 1048576],");
  for (int i = 0; i < 3; ++i) text = replaced(text, "x = [1],", "x = [1, 0],");

  const OrderSpread small = spread_of(text);

  ASSERT_EQ(small.tensors.size(), 2U);
  EXPECT_EQ(orders_of(small.tensors[0]).ulps, 1U);
  EXPECT_EQ(orders_of(small.tensors[0]).scaled, std::ldexp(1.0, -20));
}

TEST_F(OrderSpreadTest, OrdersThatAgreeHaveNoSpread) {
  // Four equal contributions add up exactly in any order.
  std::string text = four_contributions();
  for (int i = 0; i < 2; ++i) text = replaced(text, "-1.1920928955078125e-7", "-2.0");
  text = replaced(text, "y = [0]", "y = [-2]");

  for (const TensorSpread& tensor : spread_of(text).tensors) {
    EXPECT_EQ(tensor.all.ulps, 0U) << tensor.name;
  }
}

TEST_F(OrderSpreadTest, AnExactJobHasNoneOverOrdersBucketsAndWorlds) {
  const OrderSpread spread = spread_of(
      "format = 1\nworld = { ranks = 4 }\nexact = { grid = 6, clamp = 8.0 }\n"
      "model = { kind = \"mlp\", widths = [4, 8, 2], init = { kind = \"grid\", seed = 3 } }\n"
      "data = { kind = \"synthetic\", task = \"dyadic\", size = 64, features = 4, outputs = 2 }\n"
      "loader = { batch = 4, shuffle = true }\nloss = { kind = \"mse\" }\n"
      "optimizer = { kind = \"sgd\", lr = 0.125, momentum = 0.5 }\nloop = { steps = 8 }\n");

  std::size_t n_worlds = 0;
  for (const SpreadRun& run : spread.runs) {
    EXPECT_EQ(run.left_out, "") << run.name;
    n_worlds += run.axis == SpreadAxis::kWorlds ? 1U : 0U;
  }
  EXPECT_EQ(n_worlds, 3U);  // 1, 2 and 8 ranks.
  EXPECT_EQ(spread.tensors.size(), 8U);
  EXPECT_EQ(spread.tensors.back().step, 7);
  for (const TensorSpread& tensor : spread.tensors) EXPECT_EQ(tensor.all.ulps, 0U) << tensor.name;
}

TEST_F(OrderSpreadTest, AWorldThatSeesOtherSamplesIsLeftOut) {
  // Two ranks pad seven rows to eight, as four ranks do; one rank pads nothing.
  const OrderSpread spread = spread_of(
      "format = 1\nworld = { ranks = 2 }\n"
      "model = { kind = \"linear\", in = 1, out = 1, init = { kind = \"pytorch\", seed = 1 } }\n"
      "data = { kind = \"synthetic\", size = 7, features = 1, outputs = 1 }\n"
      "loader = { batch = 2 }\nloss = { kind = \"mse\" }\n"
      "optimizer = { kind = \"sgd\", lr = 0.1 }\n");

  for (const SpreadRun& run : spread.runs) {
    const bool one = run.name == "1 rank";
    EXPECT_EQ(run.left_out, one ? "its steps consume different samples" : "") << run.name;
  }
}

TEST_F(OrderSpreadTest, SaysWhatItCannotMeasure) {
  const std::string path = write(
      "format = 1\nworld = { ranks = 2 }\ntensor.x = { shape = [1] }\n"
      "program = [ { ranks = \"all\", body = [ { op = \"all_reduce\", tensor = \"x\" } ] } ]\n");
  EXPECT_EQ(order_spread(path, "", {}).error().message,
            "a raw program has no gradients; the spread is that of a job");
  EXPECT_FALSE(order_spread("nowhere.toml", "", {}).ok());
}

TEST(UlpsTest, CountTheNumbersBetween) {
  const double one_more = std::nextafter(1.0F, 2.0F);
  EXPECT_EQ(ulps_between(1.0, 1.0, DType::kF32), 0U);
  EXPECT_EQ(ulps_between(1.0, one_more, DType::kF32), 1U);
  EXPECT_EQ(ulps_between(one_more, 1.0, DType::kF32), 1U);
  EXPECT_EQ(ulps_between(1.0, 2.0, DType::kF32), 1U << 23U);
  EXPECT_EQ(ulps_between(1.0, 2.0, DType::kF64), std::uint64_t{1} << 52U);
  EXPECT_EQ(ulps_between(1.0, 1.0 + 0x1p-7, DType::kBF16), 1U);
  EXPECT_EQ(ulps_between(1.0, 1.0 + 0x1p-10, DType::kF16), 1U);
  EXPECT_EQ(ulps_between(-0x1p-133, 0x1p-133, DType::kBF16), 2U);
  EXPECT_EQ(ulps_between(0.0, -0.0, DType::kF32), 0U);
  const double tiny = std::ldexp(1.0, -149);  // The smallest f32.
  EXPECT_EQ(ulps_between(-tiny, tiny, DType::kF32), 2U);
  EXPECT_EQ(ulps_between(-1.0, 1.0, DType::kF64), 2 * std::uint64_t{1023} << 52U);
  EXPECT_EQ(ulps_between(std::nan(""), 1.0, DType::kF32), Spread::kNotANumber);
  EXPECT_EQ(ulps_between(std::nan(""), std::nan(""), DType::kF32), 0U);
}

}  // namespace
}  // namespace lockstep
