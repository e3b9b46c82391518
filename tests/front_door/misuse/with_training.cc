// Wrappers, hooks, optimizers and schedules used as they are not meant.
#include <array>
#include <iostream>
#include <limits>
#include <lockstep/ddp.h>
#include <lockstep/nn.h>
#include <lockstep/optim.h>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tests/front_door/misuse/misuse.h"

namespace lockstep::misuse {
namespace {

Variable rows(RankContext& rank) {
  return Variable(Tensor::full(rank.runtime(), {4, 2}, DType::kF32, 1.0));
}

Tensor targets(RankContext& rank) { return Tensor::zeros(rank.runtime(), {4, 1}, DType::kF32); }

/// Returns half of what it was given.
class HalfHook final : public CommHook {
 public:
  std::unique_ptr<PendingBucket> run(GradBucket& bucket) override {
    class Pending final : public PendingBucket {
     public:
      explicit Pending(Tensor tensor) : tensor_(std::move(tensor)) {}

      Tensor wait() override { return tensor_; }

     private:
      Tensor tensor_;
    };

    const Tensor& whole = bucket.buffer();
    return std::make_unique<Pending>(
        Tensor::zeros(whole.runtime(), {whole.n_elems() / 2}, whole.dtype()));
  }
};

/// Forgets to return what it has started.
class NullHook final : public CommHook {
 public:
  std::unique_ptr<PendingBucket> run(GradBucket& /*bucket*/) override { return nullptr; }
};

class UndefinedHook final : public CommHook {
 public:
  std::unique_ptr<PendingBucket> run(GradBucket& /*bucket*/) override {
    class Pending final : public PendingBucket {
     public:
      Tensor wait() override { return {}; }
    };

    return std::make_unique<Pending>();
  }
};

int trains_with(CommHook& hook) {
  return on_two([&](RankContext& rank) {
    nn::Linear model(rank.runtime(), 2, 1);
    DistributedDataParallel ddp(model, rank.world());
    ddp.register_comm_hook(hook);
    mse_loss(ddp(rows(rank)), targets(rank)).backward();
  });
}

int hooks_return_half() {
  HalfHook hook;
  return trains_with(hook);
}

int hooks_return_null() {
  NullHook hook;
  return trains_with(hook);
}

int hooks_return_nothing() {
  UndefinedHook hook;
  return trains_with(hook);
}

int hooks_twice() {
  NoopHook hook;
  return on_one([&](RankContext& rank) {
    nn::Linear model(rank.runtime(), 2, 1);
    DistributedDataParallel ddp(model, rank.world());
    ddp.register_comm_hook(hook);
    ddp.register_comm_hook(hook);
  });
}

int wraps_other_shapes() {
  return on_two([](RankContext& rank) {
    nn::Linear model(rank.runtime(), 2, 1 + rank.rank());
    DistributedDataParallel ddp(model, rank.world());
  });
}

int wraps_a_model_without_parameters() {
  return on_two([](RankContext& rank) {
    nn::Sequential model(rank.runtime());
    DistributedDataParallel ddp(model, rank.world());
  });
}

int caps_buckets_at_nan() {
  return on_two([](RankContext& rank) {
    nn::Linear model(rank.runtime(), 2, 1);
    DistributedDataParallel ddp(
        model, rank.world(), {.bucket_cap_mb = std::numeric_limits<double>::quiet_NaN()});
  });
}

int forwards_twice_with_unused_parameters() {
  return on_two([](RankContext& rank) {
    nn::Linear model(rank.runtime(), 2, 1);
    nn::Linear other(rank.runtime(), 2, 1);
    nn::Sequential both(rank.runtime());
    auto& used = both.append<nn::Linear>(2, 1);
    (void)both.append<nn::Linear>(1, 1);
    DistributedDataParallel ddp(both, rank.world());
    (void)used;
    (void)ddp(rows(rank));
    ddp.module();
    mse_loss(used(rows(rank)), targets(rank)).backward();
    mse_loss(ddp(rows(rank)), targets(rank)).backward();
  });
}

int optimizes_nothing() {
  return on_one([](RankContext&) { optim::Sgd optimizer(std::vector<Variable>{}, {.lr = 0.1}); });
}

int optimizes_an_undefined_parameter() {
  return on_one([](RankContext& rank) {
    nn::Linear model(rank.runtime(), 2, 1, {.bias = false});
    optim::Sgd optimizer({model.weight(), model.bias()}, {.lr = 0.1});
    optimizer.step();
  });
}

int optimizes_a_parameter_twice() {
  return on_one([](RankContext& rank) {
    nn::Linear model(rank.runtime(), 2, 1);
    optim::Sgd optimizer({model.weight(), model.weight()}, {.lr = 0.1});
  });
}

int learns_backwards() {
  return on_one([](RankContext& rank) {
    nn::Linear model(rank.runtime(), 2, 1);
    optim::Sgd optimizer(model.parameters(), {.lr = -0.1});
  });
}

int learns_at_nan() {
  return on_one([](RankContext& rank) {
    nn::Linear model(rank.runtime(), 2, 1);
    optim::Adam optimizer(model.parameters(), {.lr = std::numeric_limits<double>::quiet_NaN()});
  });
}

int betas_beyond_one() {
  return on_one([](RankContext& rank) {
    nn::Linear model(rank.runtime(), 2, 1);
    optim::Adam optimizer(model.parameters(), {.beta1 = 1.5});
  });
}

int loads_a_state_of_a_parameter_that_is_not_there() {
  return on_one([](RankContext& rank) {
    nn::Linear model(rank.runtime(), 2, 1);
    optim::Sgd optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
    optimizer.load_state("momentum_buffer", 2, Tensor::zeros(rank.runtime(), {1}, DType::kF32));
  });
}

int loads_a_state_of_another_shape() {
  return on_one([](RankContext& rank) {
    nn::Linear model(rank.runtime(), 2, 1);
    optim::Sgd optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
    optimizer.load_state("momentum_buffer", 0, Tensor::zeros(rank.runtime(), {9}, DType::kF32));
    mse_loss(model(rows(rank)), targets(rank)).backward();
    optimizer.step();
  });
}

int loads_a_state_of_another_name() {
  return on_one([](RankContext& rank) {
    nn::Linear model(rank.runtime(), 2, 1);
    optim::Sgd optimizer(model.parameters(), {.lr = 0.1});
    optim::RuleLr schedule(optimizer, optim::StepLr{});
    const std::array<optim::StateNumber, 1> state = {{{"lsat_epoch", 3.0}}};
    schedule.load_state(state);
  });
}

int schedules_steps_of_nothing() {
  return on_one([](RankContext& rank) {
    nn::Linear model(rank.runtime(), 2, 1);
    optim::Sgd optimizer(model.parameters(), {.lr = 0.1});
    optim::RuleLr schedule(optimizer, optim::StepLr{.step_size = 0});
    schedule.step();
  });
}

int schedules_a_cycle_beyond_its_end() {
  return on_one([](RankContext& rank) {
    nn::Linear model(rank.runtime(), 2, 1);
    optim::Sgd optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
    optim::RuleLr schedule(optimizer, optim::OneCycleLr{.max_lr = {1.0}, .total_steps = 2});
    for (int i = 0; i < 4; ++i) schedule.step();
  });
}

int schedules_with_no_rules() {
  return on_one([](RankContext& rank) {
    nn::Linear model(rank.runtime(), 2, 1);
    optim::Sgd optimizer(model.parameters(), {.lr = 0.1});
    optim::ChainedLr schedule(optimizer, {});
  });
}

int updates_a_scaler_that_saw_nothing() {
  return on_one([](RankContext&) {
    optim::GradScaler scaler;
    scaler.update();
  });
}

int steps_a_scaler_twice() {
  return on_one([](RankContext& rank) {
    nn::Linear model(rank.runtime(), 2, 1);
    optim::Sgd optimizer(model.parameters(), {.lr = 0.1});
    optim::GradScaler scaler;
    scaler.scale(mse_loss(model(rows(rank)), targets(rank))).backward();
    scaler.step(optimizer);
    scaler.step(optimizer);
  });
}

int clips_gradients_of_other_dtypes() {
  return on_one([](RankContext& rank) {
    const Variable a(Tensor::zeros(rank.runtime(), {2}, DType::kF32), true);
    const Variable b(Tensor::zeros(rank.runtime(), {2}, DType::kF64), true);
    a.set_grad(Tensor::full(rank.runtime(), {2}, DType::kF32, 1.0));
    b.set_grad(Tensor::full(rank.runtime(), {2}, DType::kF64, 1.0));
    const std::array both = {a, b};
    optim::clip_grad_norm(both, {.max_norm = 1.0});
  });
}

int clips_at_a_negative_value() {
  return on_one([](RankContext& rank) {
    const Variable a(Tensor::zeros(rank.runtime(), {2}, DType::kF32), true);
    a.set_grad(Tensor::full(rank.runtime(), {2}, DType::kF32, 1.0));
    optim::clip_grad_value(std::span(&a, 1), -1.0);
  });
}

int appends_a_null_module() {
  return on_one([](RankContext& rank) {
    nn::Sequential model(rank.runtime());
    model.push(nullptr);
  });
}

int divides_an_optimizer_that_is_not_made() {
  return on_two([](RankContext& rank) {
    nn::Linear model(rank.runtime(), 2, 1);
    ZeroRedundancyOptimizer optimizer(
        model.parameters(), [](auto) { return nullptr; }, rank.world());
    optimizer.step();
  });
}

constexpr Misuse kTrainingMisuses[] = {
    {"HooksReturnHalf",
     "a communication hook's result has 1 elements, and its bucket 3",
     hooks_return_half},
    {"HooksReturnNull", "a communication hook returned no future", hooks_return_null},
    {"HooksReturnNothing",
     "a communication hook's result has no elements, and its bucket 3",
     hooks_return_nothing},
    {"RegistersTwoHooks",
     "register_comm_hook or register_builtin_comm_hook can only be called once",
     hooks_twice},
    {"WrapsOtherShapes",
     "params.0. in this process with sizes .2, 2. appears not to match",
     wraps_other_shapes},
    {"WrapsAModelWithoutParameters",
     "DistributedDataParallel is not needed when a module doesn't have any parameter",
     wraps_a_model_without_parameters},
    {"CapsBucketsAtNan", "bucket_cap_mb is not a number", caps_buckets_at_nan},
    {"LeavesAParameterUnused",
     "Expected to have finished reduction in the prior iteration",
     forwards_twice_with_unused_parameters},
    {"OptimizesNothing", "optimizer got an empty parameter list", optimizes_nothing},
    {"OptimizesAnUndefinedParameter",
     "parameter 1 of the 2 that an optimizer was given is undefined",
     optimizes_an_undefined_parameter},
    {"OptimizesAParameterTwice", "duplicate parameters", optimizes_a_parameter_twice},
    {"LearnsBackwards", "Invalid learning rate: -0.1", learns_backwards},
    {"LearnsAtNan", "Invalid learning rate: nan", learns_at_nan},
    {"ForgetsAtMoreThanOne", "Invalid beta parameter at index 0: 1.5", betas_beyond_one},
    {"LoadsTheStateOfAParameterThatIsNotThere",
     "no parameter 2 in this optimizer: it has 2",
     loads_a_state_of_a_parameter_that_is_not_there},
    {"LoadsAStateOfAnotherShape",
     "f32 .1, 2. and f32 .9. have 2 and 9 elements",
     loads_a_state_of_another_shape},
    {"LoadsAStateOfAnotherName",
     "saved by something else: it has lsat_epoch, where last_epoch",
     loads_a_state_of_another_name},
    {"SchedulesStepsOfNothing",
     "Expected positive step_size, but got 0",
     schedules_steps_of_nothing},
    {"SchedulesACycleBeyondItsEnd",
     "Tried to step 4 times. The specified number of total steps is 2",
     schedules_a_cycle_beyond_its_end},
    {"SchedulesWithoutRules",
     "at least one scheduler to be chained, but got no scheduler",
     schedules_with_no_rules},
    {"UpdatesAScalerThatSawNothing",
     "Attempted update but _scale is None",
     updates_a_scaler_that_saw_nothing},
    {"StepsAScalerTwice",
     "step.. has already been called since the last update",
     steps_a_scaler_twice},
    {"ClipsGradientsOfOtherDtypes",
     "cannot clip gradients of f32 and f64 together",
     clips_gradients_of_other_dtypes},
    {"ClipsAtANegativeValue", "clip_value is -1", clips_at_a_negative_value},
    {"AppendsANullModule", "module 0 of a Sequential is null", appends_a_null_module},
    {"DividesAnOptimizerThatIsNotMade",
     "returned no optimizer",
     divides_an_optimizer_that_is_not_made},
};

}  // namespace

std::span<const Misuse> with_training() { return kTrainingMisuses; }

}  // namespace lockstep::misuse
