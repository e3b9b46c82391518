// An optimizer's state as a value: taken out, loaded into another, refused where it does not fit.
#include <gmock/gmock.h>

#include <gtest/gtest.h>

#include "lockstep/optim/adam.h"
#include "lockstep/optim/sgd.h"

#include "tests/support/plain_runtime.h"

namespace lockstep::optim {
namespace {

using lockstep::testing::PlainRuntime;
using ::testing::HasSubstr;

class OptimizerStateTest : public ::testing::Test {
 protected:
  Variable leaf(double value, double grad, std::int64_t n = 1) {
    const Variable p(Tensor::full(rt_, {n}, DType::kF64, value), true);
    p.set_grad(Tensor::full(rt_, {n}, DType::kF64, grad));
    return p;
  }

  template <typename Act>
  static std::string refusal(Act act) {
    try {
      act();
    } catch (const std::invalid_argument& refused) {
      return refused.what();
    }
    return "";
  }

  PlainRuntime rt_;
};

// Two steps of one optimizer, or one step and one of another that has loaded the state of the first.
TEST_F(OptimizerStateTest, ALoadedOptimizerContinuesBitForBit) {
  const auto second_step = [&](Adam& optimizer, const Variable& p) {
    p.set_grad(Tensor::full(rt_, {1}, DType::kF64, 3));
    optimizer.step();
    return p.item();
  };
  const Variable whole = leaf(4, 1);
  Adam straight({whole}, {.lr = 0.5});
  straight.step();
  straight.set_lr(0.25);
  const double expected = second_step(straight, whole);

  for (const bool loads : {true, false}) {
    const Variable part = leaf(4, 1);
    Adam first({part}, {.lr = 0.5});
    first.step();
    first.set_lr(0.25);
    Adam second({part}, {.lr = 0.25});
    if (loads) second.load_state_dict(first.state_dict().clone());
    EXPECT_EQ(second_step(second, part) == expected, loads);
  }
}

TEST_F(OptimizerStateTest, RatesAreLoaded) {
  const Variable p = leaf(4, 1);
  Sgd first({p}, {.lr = 0.5});
  Sgd second({p}, {.lr = 0.125});
  second.load_state_dict(first.state_dict());
  EXPECT_EQ(second.lr(), 0.5);
}

TEST_F(OptimizerStateTest, MomentumIsLoadedBeforeTheFirstStep) {
  const Variable p = leaf(4, 1);
  Sgd first({p}, {.lr = 1.0, .momentum = 0.5});
  first.step();  // 4 - 1
  Sgd second({p}, {.lr = 1.0, .momentum = 0.5});
  second.load_state_dict(first.state_dict());
  second.step();  // 3 - (0.5 + 1)
  EXPECT_EQ(p.item(), 1.5);
}

TEST_F(OptimizerStateTest, ALoadKeepsNothingOfBothSides) {
  const Variable p = leaf(4, 1);
  Sgd first({p}, {.lr = 1.0, .momentum = 0.5});
  first.step();
  Sgd second({p}, {.lr = 1.0, .momentum = 0.5});
  second.load_state_dict(first.state_dict());
  second.step();

  EXPECT_EQ(first.state()[0].tensors[0].item(), 1.0);
  EXPECT_EQ(second.state()[0].tensors[0].item(), 1.5);

  Sgd fresh({p}, {.lr = 1.0, .momentum = 0.5});
  second.load_state_dict(fresh.state_dict());
  EXPECT_FALSE(second.state()[0].tensors[0].defined());
}

// The first two texts are PyTorch's.
TEST_F(OptimizerStateTest, WhatDoesNotFitIsRefused) {
  const Variable p = leaf(4, 1);
  const Variable q = leaf(4, 1);
  Sgd one({p}, {.lr = 1.0, .momentum = 0.5});
  Sgd two({p, q}, {.lr = 1.0, .momentum = 0.5});
  Sgd groups(std::vector<ParamGroup>{{.parameters = {p}}, {.parameters = {q}}},
             {.lr = 1.0, .momentum = 0.5});
  Sgd wide({leaf(4, 1, 3)}, {.lr = 1.0, .momentum = 0.5});
  wide.step();

  EXPECT_EQ(refusal([&] { one.load_state_dict(groups.state_dict()); }),
            "loaded state dict has a different number of parameter groups");
  EXPECT_EQ(refusal([&] { one.load_state_dict(two.state_dict()); }),
            "loaded state dict contains a parameter group that doesn't match the size of "
            "optimizer's group");
  EXPECT_THAT(refusal([&] { one.load_state_dict(wide.state_dict()); }),
              HasSubstr("momentum_buffer of shape [3] for parameter 0, which has shape [1]"));

  OptimizerState longer = two.state_dict();
  two.step();
  longer.state = two.state_dict().state;
  longer.groups = one.state_dict().groups;
  EXPECT_EQ(
      refusal([&] { one.load_state_dict(longer); }),
      "loaded state dict has " + std::string(longer.state[0].name) + " of 2 parameters for 1");
}

}  // namespace
}  // namespace lockstep::optim
