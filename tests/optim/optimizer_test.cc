#include "lockstep/optim/optimizer.h"

#include <algorithm>
#include <functional>
#include <gmock/gmock.h>
#include <map>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "lockstep/base/check.h"
#include "lockstep/base/text.h"
#include "lockstep/functional/functions.h"
#include "lockstep/optim/adam.h"
#include "lockstep/optim/clip.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/trace/recorder.h"

#include "tests/support/plain_runtime.h"

namespace lockstep::optim {
namespace {

using lockstep::testing::PlainRuntime;
using lockstep::testing::values_of;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

class OptimizerTest : public ::testing::Test {
 protected:
  Variable leaf(std::initializer_list<double> values) {
    return Variable(rt_.tensor({static_cast<std::int64_t>(values.size())}, values), true);
  }

  Tensor vector(std::initializer_list<double> values) {
    return rt_.tensor({static_cast<std::int64_t>(values.size())}, values);
  }

  PlainRuntime rt_;
};

// p = 4, g = 2, lr = 1/2, momentum 1/2, decay 1/4: d = 2 + 4/4 = 3, buffer 3, p = 4 - 3/2 = 5/2;
// then d = 2 + 5/8, buffer 3/2 + 21/8 = 33/8, p = 5/2 - 33/16 = 7/16.
TEST_F(OptimizerTest, MomentumAndDecayEqualTheStepsComputedByHand) {
  const Variable p = leaf({4});
  Sgd sgd({p}, {.lr = 0.5, .momentum = 0.5, .weight_decay = 0.25});
  p.set_grad(vector({2}));

  sgd.step();
  EXPECT_EQ(p.item(), 2.5);
  EXPECT_EQ(sgd.state()[0].tensors[0].item(), 3.0);

  sgd.step();
  EXPECT_EQ(p.item(), 0.4375);
  EXPECT_THAT(values_of(p.grad()), ElementsAre(2));
}

TEST_F(OptimizerTest, ParametersWithoutGradientAreSkippedWhole) {
  const Variable p = leaf({4});
  const Variable q = leaf({4});
  Sgd sgd({p, q}, {.lr = 0.5, .momentum = 0.5, .weight_decay = 0.25});
  q.set_grad(vector({2}));

  sgd.step();

  EXPECT_EQ(p.item(), 4.0);
  EXPECT_FALSE(sgd.state()[0].tensors[0].defined());
  EXPECT_EQ(q.item(), 2.5);
}

TEST_F(OptimizerTest, TheLearningRateMayChangeBetweenSteps) {
  const Variable p = leaf({4});
  Sgd sgd({p}, {.lr = 1.0});
  p.set_grad(vector({1}));

  sgd.step();
  sgd.set_lr(0.5);
  sgd.step();

  EXPECT_EQ(p.item(), 2.5);
  EXPECT_EQ(sgd.lr(), 0.5);
}

TEST_F(OptimizerTest, ZeroGradForgetsOrClearsInPlace) {
  const Variable p = leaf({4});
  const Variable q = leaf({4});
  const Sgd sgd({p, q}, {});
  const Tensor grad = vector({2});
  p.set_grad(grad);

  sgd.zero_grad(false);
  EXPECT_TRUE(p.grad().shares_memory_with(grad));
  EXPECT_EQ(grad.item(), 0.0);
  EXPECT_FALSE(q.grad().defined());

  sgd.zero_grad();
  EXPECT_FALSE(p.grad().defined());
}

TEST_F(OptimizerTest, AStepBetweenForwardAndBackwardIsNoticed) {
  const Variable p = leaf({4});
  Sgd sgd({p}, {.lr = 1.0});
  const Variable loss = sum(mul(p, p));
  p.set_grad(vector({1}));

  sgd.step();

  EXPECT_THAT([&] { loss.backward(); },
              ThrowsMessage<ContractViolation>(HasSubstr("in-place operation")));
}

// 4 - 0.3 = 3.7 -> 3.75 on quarters; clamped to 2.
TEST_F(OptimizerTest, AGridRoundsParametersAndMomentaAfterEachStep) {
  const Variable p = leaf({4, 1.1});
  Sgd sgd({p}, {.lr = 1.0, .momentum = 0.5});
  sgd.round_each_step({.bits = 2, .limit = 2.0});
  p.set_grad(vector({0.3, 0.2}));

  sgd.step();

  EXPECT_THAT(values_of(p.data()), ElementsAre(2, 1));
  EXPECT_THAT(values_of(sgd.state()[0].tensors[0]), ElementsAre(0.25, 0.25));
}

TEST_F(OptimizerTest, OptionsThatMakeNoSenseAreRefusedInPyTorchsWords) {
  const Variable p = leaf({4});
  const auto make = [&p](const SgdOptions& options) {
    return [&p, options] { const Sgd sgd({p}, options); };
  };
  EXPECT_THAT(make({.lr = -1.0}),
              ThrowsMessage<std::invalid_argument>("Invalid learning rate: -1"));
  EXPECT_THAT(make({.momentum = -0.5}),
              ThrowsMessage<std::invalid_argument>("Invalid momentum value: -0.5"));
  EXPECT_THAT(make({.weight_decay = -2}),
              ThrowsMessage<std::invalid_argument>("Invalid weight_decay value: -2"));
  EXPECT_THAT(make({.nesterov = true}),
              ThrowsMessage<std::invalid_argument>(HasSubstr("Nesterov momentum")));
  EXPECT_THAT(make({.momentum = 0.5, .dampening = 0.1, .nesterov = true}),
              ThrowsMessage<std::invalid_argument>(HasSubstr("zero dampening")));
  EXPECT_THROW(Sgd(std::vector<Variable>{}, {}), ContractViolation);
}

// -- groups

TEST_F(OptimizerTest, GroupsHaveTheirOwnRatesAndDecay) {
  const Variable p = leaf({4});
  const Variable q = leaf({4});
  Sgd sgd(std::vector<ParamGroup>{{.parameters = {p}},
                                  {.parameters = {q}, .lr = 0.25, .weight_decay = 1.0}},
          {.lr = 0.5});
  p.set_grad(vector({2}));
  q.set_grad(vector({2}));

  sgd.step();

  EXPECT_EQ(p.data().data<double>()[0], 3.0);  // 4 - 0.5 * 2
  EXPECT_EQ(q.data().data<double>()[0], 2.5);  // 4 - 0.25 * (2 + 1 * 4)
  sgd.set_lr(1.0);
  EXPECT_EQ(sgd.groups()[1].lr, 1.0);
  EXPECT_EQ(sgd.lr(), 1.0);
}

TEST_F(OptimizerTest, AParameterGivenTwiceIsRefused) {
  const Variable p = leaf({4});
  const Variable& tied = p;
  using Groups = std::vector<ParamGroup>;

  EXPECT_THAT(
      [&] {
        Sgd({p, tied}, {});
      },
      ThrowsMessage<std::invalid_argument>(
          "optimizer contains a parameter group with duplicate parameters"));
  EXPECT_THAT(
      [&] {
        Sgd(Groups{{.parameters = {p}}, {.parameters = {tied}}}, {});
      },
      ThrowsMessage<std::invalid_argument>(
          "some parameters appear in more than one parameter group"));
}

// -- what a step records

class Lines final : public EventSink {
 public:
  void on_event(const Event& event, const NameTable& names) override {
    std::string line = std::string(name_of(kind_of(event.body))) + " w" +
                       std::to_string(event.at.wrapper) + " opt" + std::to_string(event.at.opt);
    const auto add_names = [&](LayoutId layout) {
      for (const NameId name : names.layout(layout)) line += " " + std::string(names.text(name));
    };
    if (const auto* grad = std::get_if<GradEvent>(&event.body)) add_names(grad->layout);
    if (const auto* state = std::get_if<StateEvent>(&event.body)) add_names(state->layout);
    if (const auto* lone = std::get_if<LoneEvent>(&event.body)) {
      line += " " + std::string(name_of(lone->point));
    }
    if (const auto* step = std::get_if<StepEvent>(&event.body)) {
      add_names(step->layout);
      if (step->scale != 1.0) line += " scale " + exact(step->scale);
      if (step->skipped && step->found_inf) line += " skipped";
    }
    lines.push_back(line);
  }

  std::vector<std::string> lines;
};

class RecordedStepTest : public OptimizerTest {
 protected:
  RecordedStepTest() { rt_.runtime().set_recorder(&recorder_); }

  lockstep::testing::TestHost host_;
  NameTable names_;
  Lines lines_;
  Recorder recorder_{Rank{0}, host_, names_, lines_, RecordOptions{}};
};

TEST_F(RecordedStepTest, AStepReportsWhatItUsedWhatItMadeAndMovesOn) {
  const Variable p = leaf({4});
  const Variable frozen = leaf({1});
  frozen.set_requires_grad(false);
  Sgd sgd({p, frozen}, {.lr = 0.5, .momentum = 0.5});
  p.state().wrapper = recorder_.open_wrapper();
  p.state().name = names_.intern("fc.weight");
  recorder_.position(0).micro = 3;
  p.set_grad(vector({2}));

  sgd.step();
  sgd.step();

  EXPECT_THAT(lines_.lines,
              ElementsAre("options w-1 opt0",
                          "options w0 opt0",
                          "grad w0 opt0 fc.weight",
                          "param w0 opt0 fc.weight",
                          "optimizer w0 opt0 fc.weight/momentum_buffer",
                          "step w0 opt0 fc.weight",
                          "grad w0 opt1 fc.weight",
                          "param w0 opt1 fc.weight",
                          "optimizer w0 opt1 fc.weight/momentum_buffer",
                          "step w0 opt1 fc.weight"));
  EXPECT_EQ(recorder_.position(0).opt, 2);
  EXPECT_EQ(recorder_.position(0).micro, -1);
  EXPECT_EQ(recorder_.position(-1).opt, 0);
}

TEST_F(RecordedStepTest, AStepThatIsLeftOutIsRecordedAndDoesNotMoveOn) {
  const Variable p = leaf({4});
  Sgd sgd({p}, {.lr = 0.5});
  p.state().wrapper = recorder_.open_wrapper();
  p.state().name = names_.intern("w");
  p.set_grad(vector({2}));

  sgd.step_scaled(8.0, true);
  sgd.step_scaled(4.0, false);

  EXPECT_THAT(lines_.lines,
              ElementsAre("options w0 opt0",
                          "param w0 opt0 w",
                          "step w0 opt0 w scale 8 skipped",
                          "grad w0 opt0 w",
                          "param w0 opt0 w",
                          "step w0 opt0 w scale 4"));
  EXPECT_EQ(p.data().data<double>()[0], 3.0);
  EXPECT_EQ(recorder_.position(0).opt, 1);
}

TEST_F(RecordedStepTest, ParametersOutsideWrappersAreNumbered) {
  const Variable p = leaf({4});
  const Variable q = leaf({4});
  Sgd sgd({p, q}, {.lr = 0.5});

  sgd.step();

  EXPECT_THAT(lines_.lines,
              ElementsAre("options w-1 opt0",
                          "param w-1 opt0 parameter.0 parameter.1",
                          "grad w-1 opt0 parameter.0 parameter.1",
                          "param w-1 opt0 parameter.0 parameter.1",
                          "step w-1 opt0 parameter.0 parameter.1",
                          "lone w-1 opt1 stepped"));
}

// Ranks may train alone: what a step left is looked at again as the next one begins.
TEST_F(RecordedStepTest, ParametersOutsideWrappersAreLookedAtAroundSteps) {
  Sgd sgd({leaf({4})}, {.lr = 0.5});
  sgd.step();
  lines_.lines.clear();
  sgd.step();
  EXPECT_THAT(lines_.lines,
              ElementsAre("lone w-1 opt1 found",
                          "grad w-1 opt1 parameter.0",
                          "param w-1 opt1 parameter.0",
                          "step w-1 opt1 parameter.0",
                          "lone w-1 opt2 stepped"));
  lines_.lines.clear();
  sgd.step_scaled(2.0, true);
  EXPECT_THAT(lines_.lines, Not(Contains(::testing::HasSubstr("lone"))));
}

TEST_F(RecordedStepTest, AStepOfAnotherOptimizerInBetweenHidesWhatAStepHasLeft) {
  Sgd sgd({leaf({4})}, {.lr = 0.5});
  Sgd other({leaf({4})}, {.lr = 0.5});
  sgd.step();
  other.step();
  lines_.lines.clear();
  sgd.step();
  EXPECT_THAT(lines_.lines, Not(Contains("lone w-1 opt2 found")));
}

TEST_F(RecordedStepTest, WrappingAfterConstructionIsNoticed) {
  const Variable p = leaf({4});
  Sgd sgd({p}, {.lr = 0.5});
  sgd.step();
  lines_.lines.clear();

  p.state().wrapper = recorder_.open_wrapper();
  p.state().name = names_.intern("w");
  sgd.step();

  EXPECT_THAT(
      lines_.lines,
      ElementsAre("options w0 opt0", "grad w0 opt0 w", "param w0 opt0 w", "step w0 opt0 w"));
}

TEST_F(RecordedStepTest, AParameterThatIsFrozenOrThawedLeavesOrJoinsTheRecord) {
  const Variable p = leaf({4});
  const Variable q = leaf({4});
  Sgd sgd({p, q}, {.lr = 0.5});
  sgd.step();

  p.set_requires_grad(false);
  lines_.lines.clear();
  sgd.step();
  EXPECT_THAT(lines_.lines,
              ElementsAre("grad w-1 opt1 parameter.1",
                          "param w-1 opt1 parameter.1",
                          "step w-1 opt1 parameter.1",
                          "lone w-1 opt2 stepped"));

  p.set_requires_grad(true);
  lines_.lines.clear();
  sgd.step();
  EXPECT_THAT(lines_.lines.front(), "grad w-1 opt2 parameter.0 parameter.1");
}

TEST_F(RecordedStepTest, AGroupThatIsAddedAndARateThatChangesAreRecordedOnce) {
  Sgd sgd({leaf({4})}, {.lr = 0.5});
  const auto n_told = [&] {
    lines_.lines.clear();
    sgd.step();
    return std::count(lines_.lines.begin(), lines_.lines.end(), lines_.lines.front()) *
           (lines_.lines.front().starts_with("options") ? 1 : 0);
  };
  EXPECT_EQ(n_told(), 1);
  EXPECT_EQ(n_told(), 0);
  sgd.set_lr(0.25);
  EXPECT_EQ(n_told(), 1);
  EXPECT_EQ(n_told(), 0);
  sgd.add_param_group({.parameters = {leaf({4})}});
  EXPECT_EQ(n_told(), 2);
  EXPECT_EQ(n_told(), 0);
}

/// Keeps events of one kind.
template <typename Body>
class Kept final : public EventSink {
 public:
  void on_event(const Event& event, const NameTable& names) override {
    const auto* body = std::get_if<Body>(&event.body);
    if (body == nullptr) return;
    bodies.push_back(*body);
    if constexpr (std::is_same_v<Body, OptimizerEvent>) {
      kinds.emplace_back(names.text(body->kind));
      for (std::size_t i = 0; i < body->values.size(); ++i) {
        options[std::string(names.text(names.layout(body->options)[i]))] = body->values[i];
      }
    }
  }

  std::vector<Body> bodies;
  std::vector<std::string> kinds;
  std::map<std::string, double> options;
};

class RecordedOptionsTest : public OptimizerTest {};

TEST_F(RecordedOptionsTest, OptionsHaveTheNamesThatTorchGivesThem) {
  lockstep::testing::TestHost host;
  NameTable names;
  Kept<OptimizerEvent> kept;
  Recorder recorder(Rank{0}, host, names, kept, RecordOptions{});
  rt_.runtime().set_recorder(&recorder);
  AdamW({leaf({4})}, {.lr = 0.5, .beta1 = 0.25, .beta2 = 0.75, .weight_decay = 0.125}).step();
  rt_.runtime().set_recorder(nullptr);

  EXPECT_EQ(kept.kinds, std::vector<std::string>{"adamw"});
  const std::map<std::string, double> expected = {{"lr", 0.5},
                                                  {"weight_decay", 0.125},
                                                  {"beta1", 0.25},
                                                  {"beta2", 0.75},
                                                  {"eps", 1e-8},
                                                  {"amsgrad", 0.0},
                                                  {"maximize", 0.0}};
  EXPECT_EQ(kept.options, expected);
}

TEST_F(RecordedOptionsTest, ClippingTellsTheNormItFound) {
  lockstep::testing::TestHost host;
  NameTable names;
  Kept<ClipEvent> kept;
  Recorder recorder(Rank{0}, host, names, kept, RecordOptions{});
  rt_.runtime().set_recorder(&recorder);
  const Variable p = leaf({0});
  const Variable q = leaf({0});
  p.set_grad(vector({3}));
  q.set_grad(vector({4}));
  const std::vector<Variable> both = {p, q};
  clip_grad_norm(both, {.max_norm = 2.5});
  clip_grad_value(both, 0.5);
  rt_.runtime().set_recorder(nullptr);

  ASSERT_EQ(kept.bodies.size(), 2U);
  EXPECT_EQ(kept.bodies[0].kind, ClipKind::kNorm);
  EXPECT_EQ(kept.bodies[0].norm, 5.0);  // 3-4-5.
  EXPECT_EQ(kept.bodies[0].own, 0.0);   // It is that norm.
  EXPECT_EQ(kept.bodies[0].limit, 2.5);
  EXPECT_NEAR(kept.bodies[0].factor, 0.5, 1e-6);
  EXPECT_EQ(names.layout(kept.bodies[0].layout).size(), 2U);
  EXPECT_EQ(kept.bodies[1].kind, ClipKind::kValue);
  EXPECT_EQ(kept.bodies[1].limit, 0.5);
}

TEST_F(RecordedOptionsTest, ClippingByAGivenNormTellsThatOfTheGradientsBeforeTheyAreScaled) {
  lockstep::testing::TestHost host;
  NameTable names;
  Kept<ClipEvent> kept;
  Recorder recorder(Rank{0}, host, names, kept, RecordOptions{});
  rt_.runtime().set_recorder(&recorder);
  const Variable p = leaf({0});
  p.set_grad(vector({-4}));
  const std::vector<Variable> one = {p};
  clip_grads_with_norm(one, {.max_norm = 2.0}, 8.0);
  rt_.runtime().set_recorder(nullptr);

  ASSERT_EQ(kept.bodies.size(), 1U);
  EXPECT_EQ(kept.bodies[0].norm, 8.0);
  EXPECT_EQ(kept.bodies[0].own, 4.0);
}

}  // namespace
}  // namespace lockstep::optim
