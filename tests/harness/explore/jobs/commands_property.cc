// Sequences of commands on every rank: a model that is easy to believe beside a DDP trainer with momentum
// that is saved and loaded. A load that forgets the momentum is found and comes out as four commands.
#include <gmock/gmock.h>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "lockstep/gtest.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/rapidcheck.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

/// SGD with momentum 1 and rate 1, in whole numbers: nothing rounds.
struct Model {
  struct Numbers {
    int weight = 0;
    int velocity = 0;
  };

  Numbers now{};
  std::optional<Numbers> saved{};
};

/// y = w * x on one rank.
struct Slope {
  explicit Slope(Runtime& runtime) : weight(Tensor::full(runtime, {1}, DType::kF32, 0.0), true) {}

  Variable forward(const Variable& x) const { return mul(weight, x); }

  std::vector<NamedVariable> named_parameters() const { return {{"weight", weight}}; }

  std::vector<NamedVariable> named_buffers() const { return {}; }

  bool is_training() const { return true; }

  Variable weight;
};

class Trainer {
 public:
  Trainer(RankContext& context, bool loads_momentum)
      : context_(context),
        slope_(context.runtime()),
        ddp_(slope_, context.world()),
        optimizer_({slope_.weight}, {.lr = 1.0, .momentum = 1.0}),
        loads_momentum_(loads_momentum) {}

  void step(int gradient) {
    optimizer_.zero_grad();
    sum(ddp_(Variable(number(gradient)))).backward();
    optimizer_.step();
  }

  void save() { saved_ = {weight(), velocity()}; }

  void load() {
    slope_.weight.data().span<float>()[0] = static_cast<float>(saved_.weight);
    if (loads_momentum_) optimizer_.load_state("momentum_buffer", 0, number(saved_.velocity));
  }

  int weight() const { return static_cast<int>(slope_.weight.data().item()); }

 private:
  Tensor number(int value) const {
    return Tensor::full(context_.runtime(), {1}, DType::kF32, value);
  }

  int velocity() const {
    for (const optim::StateList& list : optimizer_.state()) {
      if (list.name == "momentum_buffer" && list.tensors[0].defined()) {
        return static_cast<int>(list.tensors[0].item());
      }
    }
    return 0;
  }

  RankContext& context_;
  Slope slope_;
  DistributedDataParallel<Slope> ddp_;
  optim::Sgd optimizer_;
  bool loads_momentum_;
  Model::Numbers saved_{};
};

using TrainerCommand = Command<Model, Trainer>;

struct Step : TrainerCommand {
  int gradient = *rc::gen::inRange(0, 4);  // Shrinks towards 0.

  void apply(Model& model) const override {
    model.now.velocity += gradient;
    model.now.weight -= model.now.velocity;
  }

  void run(const Model& before, Trainer& trainer) const override {
    trainer.step(gradient);
    RC_ASSERT(trainer.weight() == nextState(before).now.weight);
  }

  void show(std::ostream& out) const override { out << "step(" << gradient << ")"; }
};

struct Save : TrainerCommand {
  void apply(Model& model) const override { model.saved = model.now; }

  void run(const Model& /*before*/, Trainer& trainer) const override { trainer.save(); }

  void show(std::ostream& out) const override { out << "save"; }
};

struct Load : TrainerCommand {
  void checkPreconditions(const Model& model) const override { RC_PRE(model.saved.has_value()); }

  void apply(Model& model) const override { model.now = *model.saved; }

  void run(const Model& before, Trainer& trainer) const override {
    trainer.load();
    RC_ASSERT(trainer.weight() == before.saved->weight);
  }

  void show(std::ostream& out) const override { out << "load"; }
};

/// Ranks that are powers of two, so that the mean of equal gradients is exact.
RunResult<void> train(bool loads_momentum) {
  RunOptions world = *gen::world(1, 2);
  const auto make = [loads_momentum](RankContext& context) {
    return Trainer(context, loads_momentum);
  };
  return run_commands(world, Model(), make, rc::state::gen::execOneOfWithArgs<Step, Save, Load>());
}

RC_GTEST_PROP(CommandsProperty, ATrainerDoesWhatItsModelSaysWhateverIsSavedAndLoaded, ()) {
  RC_ASSERT_LAWS_HOLD(train(true));
}

// The twin: step away from what was saved, load, step: the shortest sequence that shows it.
TEST(CommandsTest, AForgottenMomentumIsFoundAndShrunkToFourCommands) {
  ::testing::internal::CaptureStderr();
  const bool holds = rc::check([] { RC_ASSERT_LAWS_HOLD(train(false)); });
  const std::string printed = ::testing::internal::GetCapturedStderr();

  EXPECT_FALSE(holds);
  EXPECT_THAT(printed, HasSubstr("1 ranks, run-to-block, rank, rendezvous"));
  EXPECT_THAT(printed, HasSubstr("\nsave\nstep(1)\nload\nstep(0)\n"));
}

TEST(AllReachedTest, IsWhatATestExpectsOfItsMarks) {
  Marks marks;
  marks.sometimes("a step").look(true);
  EXPECT_ALL_REACHED(marks);

  marks.sometimes("a restart").look(false);
  const ::testing::AssertionResult result = all_reached("marks", marks);
  EXPECT_FALSE(result);
  EXPECT_THAT(result.message(), HasSubstr("never reached: a restart"));
}

// A property whose generator never draws what matters holds, and is not worth much.
TEST(CheckAndReachTest, APropertyThatNeverMetItsMarkFailsAndOneThatDidPasses) {
  for (const bool met : {true, false}) {
    Marks marks;
    const auto two_ranks = marks.sometimes("a world of two ranks");
    ::testing::internal::CaptureStderr();
    const bool holds = check_and_reach(marks, "every world is fine", [&] {
      two_ranks.look((*gen::world(1, met ? 2 : 1)).ranks == 2);
    });
    const std::string printed = ::testing::internal::GetCapturedStderr();

    EXPECT_EQ(holds, met) << printed;
    EXPECT_EQ(printed.find("never reached: a world of two ranks (tests/harness/explore/jobs/"
                           "commands_property.cc:") == std::string::npos,
              met)
        << printed;
  }
}

}  // namespace
}  // namespace lockstep
