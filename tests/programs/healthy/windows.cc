// Windows of accumulation with something in between, and parameters that are averaged by hand.
#include <span>
#include <vector>

#include "lockstep/comm.h"
#include "lockstep/ddp.h"
#include "lockstep/nn.h"
#include "lockstep/optim.h"

#include "tests/programs/healthy/healthy.h"
#include "tests/programs/training.h"

namespace lockstep::programs {

namespace {

constexpr optim::SgdOptions kSgd = {.lr = 0.125};

/// Eight micro-batches in windows of four; between(micro) runs after each.
template <typename Between>
void accumulates(RankContext& rank, Between between) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t micro = 0; micro < 8; ++micro) {
    const Batch batch = batch_of(rank, micro);
    const auto backward = [&] { scale(mse_loss(ddp(batch.x), batch.y), 0.25).backward(); };
    if (micro % 4 == 3) {
      backward();
      optimizer.step();
      optimizer.zero_grad();
    } else {
      const NoSync no_sync(ddp);
      backward();
    }
    between(micro, model);
  }
}

double evaluated(RankContext& rank, Mlp& model) {
  const NoGradGuard no_grad(rank.runtime());
  model.eval();
  const Batch batch = batch_of(rank, 99);
  const double loss = mse_loss(model(batch.x), batch.y).item();
  model.train();
  return loss;
}

// An evaluation every third micro-step falls into the middle of a window.
void evaluation_inside_a_window(RankContext& rank) {
  accumulates(rank, [&](std::int64_t micro, Mlp& model) {
    if (micro % 3 == 1 && evaluated(rank, model) > 1000.0) rank.host().log("diverges");
  });
}

// It asks how the loss depends on the rows, with parameters that need no gradient meanwhile.
void sensitivity_inside_a_window(RankContext& rank) {
  accumulates(rank, [&](std::int64_t micro, Mlp& model) {
    if (micro % 3 != 1) return;
    model.eval();
    for (const Variable& parameter : model.parameters()) parameter.set_requires_grad(false);
    const Variable rows(numbers(rank, micro, 4, 4), true);
    mse_loss(model(rows), batch_of(rank, micro).y).backward();
    for (const Variable& parameter : model.parameters()) parameter.set_requires_grad(true);
    model.train();
  });
}

// Some train with the model in evaluation mode, so that its statistics stay as they are.
void training_in_evaluation_mode(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  model.eval();
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 3; ++step) train_step(ddp, optimizer, batch_of(rank, step));
}

/// Ranks train alone, and average_all(parameters) brings them together every second step.
template <typename Average>
void averages_parameters(RankContext& rank, Average average_all) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  const NoSync no_sync(ddp);
  for (std::int64_t step = 0; step < 5; ++step) {
    train_step(ddp, optimizer, batch_of(rank, step));
    if (step % 2 == 1) average_all(optimizer.parameters());
  }
}

void parameters_averaged_by_hand(RankContext& rank) {
  averages_parameters(rank, [&](std::span<const Variable> parameters) {
    for (const Variable& parameter : parameters) {
      rank.world().all_reduce(Memory::of(parameter.data()), ReduceOp::kAvg).wait_or_throw();
    }
  });
}

void parameters_summed_and_divided(RankContext& rank) {
  averages_parameters(rank, [&](std::span<const Variable> parameters) {
    Kernels& kernels = rank.runtime().kernels();
    for (const Variable& parameter : parameters) {
      const Tensor& data = parameter.data();
      rank.world().all_reduce(Memory::of(data)).wait_or_throw();
      kernels.div_scalar(data, data, rank.world().size());
    }
  });
}

// All of them in one buffer, for fewer calls.
void parameters_averaged_in_one_buffer(RankContext& rank) {
  averages_parameters(rank, [&](std::span<const Variable> parameters) {
    std::vector<float> flat;
    for (const Variable& parameter : parameters) {
      const std::span<const float> values = parameter.data().read_span<float>();
      flat.insert(flat.end(), values.begin(), values.end());
    }
    rank.world().all_reduce(Memory::of(std::span(flat)), ReduceOp::kAvg).wait_or_throw();
    const float* next = flat.data();
    for (const Variable& parameter : parameters) {
      for (float& value : parameter.data().span<float>()) value = *next++;
    }
  });
}

// Ranks follow the one that leads instead: nothing says that they are to be averaged.
void parameters_of_the_leader(RankContext& rank) {
  averages_parameters(rank, [&](std::span<const Variable> parameters) {
    for (const Variable& parameter : parameters) {
      rank.world().broadcast(Memory::of(parameter.data()), 1).wait_or_throw();
    }
  });
}

}  // namespace

std::vector<HealthyProgram> window_programs() {
  return {
      {.name = "EvaluationInsideAWindow", .program = evaluation_inside_a_window},
      {.name = "SensitivityInsideAWindow", .program = sensitivity_inside_a_window},
      {.name = "TrainingInEvaluationMode", .program = training_in_evaluation_mode},
      {.name = "ParametersAveragedByHand", .ranks = 3, .program = parameters_averaged_by_hand},
      {.name = "ParametersSummedAndDivided", .program = parameters_summed_and_divided},
      {.name = "ParametersAveragedInOneBuffer", .program = parameters_averaged_in_one_buffer},
      {.name = "ParametersOfTheLeader", .program = parameters_of_the_leader},
  };
}

}  // namespace lockstep::programs
