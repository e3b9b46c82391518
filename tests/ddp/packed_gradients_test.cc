#include "lockstep/ddp/packed_gradients.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/ddp/tiny_model.h"
#include "tests/support/test_runtime.h"

namespace lockstep {
namespace {

using testing::TestRuntime;
using testing::TinyModel;

using Elements = std::vector<float>;

/// Gradients of parameters a, b, ..., and one buffer for all of them.
class PackedGradientsTest : public ::testing::Test {
 protected:
  void have(const std::vector<Elements>& gradients) {
    parameters_.clear();
    for (const Elements& values : gradients) {
      const std::string name(1, static_cast<char>('a' + parameters_.size()));
      const Variable parameter = model_.parameter(name, std::vector<double>(values.size(), 0.0));
      parameters_.push_back({name, parameter});
      const auto n = static_cast<std::int64_t>(values.size());
      parameter.set_grad(Tensor::zeros(test_.runtime, {n}, DType::kF32));
    }
    set(gradients);
  }

  void set(const std::vector<Elements>& gradients) {
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      std::ranges::copy(gradients[i], parameters_[i].variable.grad().write_span<float>().begin());
    }
  }

  /// Sends `buffer`, gets `back` and steps with what gradients are then.
  std::optional<std::string> step(Elements buffer,
                                  Elements back,
                                  const std::vector<Elements>& used) {
    sent_.data = buffer.data();
    sent_.n_elems = std::ssize(buffer);
    packed_.on_sent(parameters_, sent_);
    sent_.data = back.data();
    sent_.n_elems = std::ssize(back);
    packed_.on_received(sent_);
    set(used);
    return packed_.on_step(parameters_, n_ranks_);
  }

  TestRuntime test_;
  TinyModel model_{test_.runtime};
  std::vector<NamedVariable> parameters_;
  OwnReductions::Sent sent_{.adds = true, .site = {"train.cc", 8, ""}};
  PackedGradients packed_;
  std::int32_t n_ranks_ = 4;
};

TEST_F(PackedGradientsTest, TakenOutInAnotherOrderIsSaidOnce) {
  have({{1.0F}, {2.0F, 3.0F}});
  const std::string text =
      "the gradient of `a` was packed at element 2 of the buffer reduced at train.cc:8, but "
      "unpacked from element 0 (and 1 more gradient)";
  EXPECT_EQ(step({2, 3, 1}, {8, 12, 4}, {{2}, {3, 1}}), text);
  have({{1.0F}, {2.0F, 3.0F}});
  EXPECT_EQ(step({2, 3, 1}, {8, 12, 4}, {{2}, {3, 1}}), std::nullopt);
}

TEST_F(PackedGradientsTest, TheOrderItselfMayBeAny) {
  have({{1.0F}, {2.0F, 3.0F}});
  EXPECT_EQ(step({2, 3, 1}, {8, 12, 4}, {{1}, {2, 3}}), std::nullopt);
  have({{1.0F}, {2.0F, 3.0F}});
  EXPECT_EQ(step({1, 2, 3}, {4, 8, 12}, {{4}, {8, 12}}), std::nullopt);
}

// As it came back, divided by three ranks, and multiplied by their inverse: of 5, 7 and 10 these differ in float32.
TEST_F(PackedGradientsTest, WhatIsMadeOfTheSumIsKnownInThreeWays) {
  n_ranks_ = 3;
  const float inverse = 1.0F / 3.0F;
  ASSERT_NE(5 / 3.0F, 5 * inverse);
  const std::vector<Elements> ways = {
      {5, 7, 10}, {5 / 3.0F, 7 / 3.0F, 10 / 3.0F}, {5 * inverse, 7 * inverse, 10 * inverse}};
  for (const Elements& made : ways) {
    packed_ = {};
    have({{1.0F}, {2.0F, 3.0F}});
    EXPECT_NE(step({2, 3, 1}, {5, 7, 10}, {{made[0]}, {made[1], made[2]}}), std::nullopt);
  }
  packed_ = {};
  have({{1.0F}, {2.0F, 3.0F}});
  EXPECT_EQ(step({2, 3, 1}, {5, 7, 10}, {{2.5F}, {3.5F, 5}}), std::nullopt) << "half of it";
}

TEST_F(PackedGradientsTest, WhereTwoWouldFitNothingIsKnown) {
  for (const bool swapped : {false, true}) {
    packed_ = {};
    have({{0.0F}, {0.0F}});
    const Elements back = swapped ? Elements{8, 4} : Elements{4, 8};
    EXPECT_EQ(step({0, 0}, back, {{4}, {8}}), std::nullopt) << "as they were sent";
    packed_ = {};
    have({{1.0F}, {2.0F}});
    const Elements sent = swapped ? Elements{2, 1} : Elements{1, 2};
    EXPECT_EQ(step(sent, {4, 4}, {{4}, {4}}), std::nullopt) << "as they came back";
  }
}

TEST_F(PackedGradientsTest, WhatWasSentIsNotTheGradients) {
  have({{1.0F}, {2.0F, 3.0F}});
  EXPECT_EQ(step({4, 6, 2}, {8, 12, 4}, {{2}, {3, 1}}), std::nullopt);
  EXPECT_EQ(step({2, 3, 1, 5}, {8, 12, 4, 5}, {{2}, {3, 1}}), std::nullopt);
  sent_.adds = false;
  have({{1.0F}, {2.0F, 3.0F}});
  EXPECT_EQ(step({2, 3, 1}, {8, 12, 4}, {{2}, {3, 1}}), std::nullopt);
}

TEST_F(PackedGradientsTest, ABroadcastOfTheBufferAfterwardsChangesNothing) {
  have({{1.0F}, {2.0F, 3.0F}});
  Elements buffer = {2, 3, 1};
  sent_.data = buffer.data();
  sent_.n_elems = 3;
  packed_.on_sent(parameters_, sent_);
  buffer = {8, 12, 4};
  packed_.on_received(sent_);
  sent_.adds = false;
  packed_.on_sent(parameters_, sent_);
  packed_.on_received(sent_);
  set({{2}, {3, 1}});
  EXPECT_NE(packed_.on_step(parameters_, 4), std::nullopt);
}

TEST_F(PackedGradientsTest, MemoryElsewhereIsNotRead) {
  sent_.on_host = false;
  have({{1.0F}, {2.0F, 3.0F}});
  EXPECT_EQ(step({2, 3, 1}, {8, 12, 4}, {{2}, {3, 1}}), std::nullopt);
  sent_.on_host = true;
  sent_.dtype = DType::kF64;
  EXPECT_EQ(step({2, 3, 1}, {8, 12, 4}, {{2}, {3, 1}}), std::nullopt);
}

TEST_F(PackedGradientsTest, GradientsOfAnotherTypeAreLeftAlone) {
  have({{1.0F}, {2.0F, 3.0F}});
  parameters_.front().variable.set_grad(Tensor::zeros(test_.runtime, {1}, DType::kF64));
  Elements buffer = {2, 3, 1};
  sent_.data = buffer.data();
  sent_.n_elems = 3;
  packed_.on_sent(parameters_, sent_);
  packed_.on_received(sent_);
  EXPECT_EQ(packed_.on_step(parameters_, 4), std::nullopt);
}

TEST_F(PackedGradientsTest, OnlyTheFirstStepsAreLookedAt) {
  for (int i = 0; i < 3; ++i) {
    have({{1.0F}, {2.0F, 3.0F}});
    EXPECT_EQ(step({2, 3, 1}, {8, 12, 4}, {{1}, {2, 3}}), std::nullopt);
  }
  have({{1.0F}, {2.0F, 3.0F}});
  EXPECT_EQ(step({2, 3, 1}, {8, 12, 4}, {{2}, {3, 1}}), std::nullopt);
}

}  // namespace
}  // namespace lockstep
