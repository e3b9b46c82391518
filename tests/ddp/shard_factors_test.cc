#include "lockstep/ddp/shard_factors.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/ddp/tiny_model.h"
#include "tests/support/test_runtime.h"

namespace lockstep {
namespace {

using testing::TestRuntime;
using testing::TinyModel;

using Elements = std::vector<float>;

/// 1, 2, ... times `factor`.
Elements counted(std::size_t n, float factor = 1.0F, float first = 1.0F) {
  Elements elements(n);
  for (std::size_t i = 0; i < n; ++i) elements[i] = (first + static_cast<float>(i)) * factor;
  return elements;
}

/// Rank 1 of two, which steps one parameter or several.
class ShardFactorsTest : public ::testing::Test {
 protected:
  static OwnReductions::Sent sent(const Elements& elements) {
    return {.data = elements.data(), .n_elems = std::ssize(elements), .adds = true};
  }

  std::optional<double> step(const std::vector<Elements>& gradients, std::int32_t wrapper = -1) {
    std::vector<Variable> parameters;
    for (const Elements& values : gradients) {
      const Variable parameter = model_.parameter("p" + std::to_string(n_made_++),
                                                  std::vector<double>(values.size(), 0.0));
      const auto n = static_cast<std::int64_t>(values.size());
      parameter.set_grad(Tensor::zeros(test_.runtime, {n}, DType::kF32));
      std::ranges::copy(values, parameter.grad().write_span<float>().begin());
      parameter.state().wrapper = wrapper;
      parameters.push_back(parameter);
    }
    return factors_.on_step(parameters);
  }

  TestRuntime test_;
  TinyModel model_{test_.runtime};
  ShardFactors factors_{Rank{1}, 2};
  int n_made_ = 0;
};

TEST_F(ShardFactorsTest, AReduceScatterReturnsTheShard) {
  factors_.on_shard(sent(counted(16)));
  EXPECT_EQ(step({counted(16, 0.25F)}), 0.25);
  EXPECT_EQ(step({counted(16, 0.25F)}), std::nullopt) << "nothing has come since";
}

TEST_F(ShardFactorsTest, AnAllReduceReturnsTheShardsOfAllRanksInTheirOrder) {
  const Elements whole = counted(32);
  factors_.on_whole(sent(whole));
  EXPECT_EQ(step({counted(16, 0.5F, 17.0F)}), 0.5);
  factors_.on_whole(sent(whole));
  EXPECT_EQ(step({counted(16, 0.5F)}), std::nullopt) << "the shard of rank 0";
  factors_.on_whole(sent(counted(33)));
  EXPECT_EQ(step({counted(16, 0.5F, 17.0F)}), std::nullopt) << "not divisible by two";
}

TEST_F(ShardFactorsTest, AWorldOfOneRankHasNoShards) {
  factors_ = {Rank{0}, 1};
  factors_.on_whole(sent(counted(16)));
  EXPECT_EQ(step({counted(16)}), std::nullopt);
}

TEST_F(ShardFactorsTest, SeveralShardsAreThoseOfSeveralParameters) {
  factors_.on_shard(sent(counted(8)));
  factors_.on_shard(sent(counted(8, 1.0F, 9.0F)));
  EXPECT_EQ(step({counted(8, 2.0F), counted(8, 2.0F, 9.0F)}), 2.0);
  factors_.on_shard(sent(counted(16)));
  EXPECT_EQ(step({counted(8, 2.0F), counted(8, 3.0F, 9.0F)}), std::nullopt) << "two factors";
}

TEST_F(ShardFactorsTest, EachElementMustHaveTheFactorButForRounding) {
  Elements used = counted(16, 0.1F);
  factors_.on_shard(sent(counted(16)));
  EXPECT_NEAR(step({used}).value_or(0.0), double{0.1F}, 1e-8);
  used[3] *= 1.0F + 0x1p-20F;
  factors_.on_shard(sent(counted(16)));
  EXPECT_EQ(step({used}), std::nullopt);
}

TEST_F(ShardFactorsTest, FewerElementsThan16ZerosAndOtherSizesSayNothing) {
  factors_.on_shard(sent(counted(15)));
  EXPECT_EQ(step({counted(15, 2.0F)}), std::nullopt);
  factors_.on_shard(sent(Elements(16, 0.0F)));
  EXPECT_EQ(step({Elements(16, 0.0F)}), std::nullopt);
  factors_.on_shard(sent(counted(16)));
  EXPECT_EQ(step({Elements(16, 0.0F)}), std::nullopt) << "forgotten on purpose";
  factors_.on_shard(sent(counted(16)));
  EXPECT_EQ(step({counted(17, 2.0F)}), std::nullopt);
  factors_.on_shard(sent(counted(17)));
  EXPECT_EQ(step({counted(16, 2.0F)}), std::nullopt);
  factors_.on_shard(sent(counted(16)));
  EXPECT_EQ(step({counted(16, -1.0F)}), std::nullopt) << "an ascent";
}

TEST_F(ShardFactorsTest, TheFirst4096ElementsOfAShardCount) {
  Elements used = counted(5000, 2.0F);
  used[4096] = 1.0F;
  factors_.on_shard(sent(counted(5000)));
  EXPECT_EQ(step({used}), 2.0);
  used[4095] = 1.0F;
  factors_.on_shard(sent(counted(5000)));
  EXPECT_EQ(step({used}), std::nullopt);
}

TEST_F(ShardFactorsTest, OtherTypesDevicesAndWrappersAreNotLookedAt) {
  const Elements values = counted(16);
  OwnReductions::Sent on_device = sent(values);
  on_device.on_host = false;
  OwnReductions::Sent wide = sent(values);
  wide.dtype = DType::kF64;
  OwnReductions::Sent copied = sent(values);
  copied.adds = false;
  for (const OwnReductions::Sent& one : {on_device, wide}) {
    factors_.on_shard(one);
    EXPECT_EQ(step({values}), std::nullopt);
  }
  const Elements whole = counted(32);
  for (OwnReductions::Sent one : {on_device, wide, copied}) {
    one.data = whole.data();
    one.n_elems = std::ssize(whole);
    factors_.on_whole(one);
    EXPECT_EQ(step({counted(16, 1.0F, 17.0F)}), std::nullopt);
  }
  factors_.on_shard(sent(values));
  EXPECT_EQ(step({values}, 0), std::nullopt) << "a wrapper's";
  EXPECT_EQ(step({values}), 1.0) << "the next optimizer's";
}

TEST_F(ShardFactorsTest, TheFirst32StepsAreLookedAt) {
  for (int i = 0; i < 32; ++i) {
    factors_.on_shard(sent(counted(16)));
    ASSERT_EQ(step({counted(16)}), 1.0);
  }
  factors_.on_shard(sent(counted(16)));
  EXPECT_EQ(step({counted(16)}), std::nullopt);
}

}  // namespace
}  // namespace lockstep
