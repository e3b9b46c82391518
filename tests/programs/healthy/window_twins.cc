// Windows that an evaluation disturbs or that differ between ranks, and averages by hand that fail.
#include <memory>
#include <span>
#include <vector>

#include "lockstep/comm.h"
#include "lockstep/ddp.h"
#include "lockstep/nn.h"
#include "lockstep/optim.h"

#include "tests/programs/healthy/broken_twins.h"
#include "tests/programs/training.h"

namespace lockstep::programs {

namespace {

constexpr optim::SgdOptions kSgd = {.lr = 0.125};

/// Eight micro-batches in windows of `window`; between(micro) runs after each.
template <typename Between>
void accumulates(RankContext& rank, std::int64_t window, Between between) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t micro = 0; micro < 8; ++micro) {
    const Batch batch = batch_of(rank, micro);
    const auto backward = [&] { scale(mse_loss(ddp(batch.x), batch.y), 0.25).backward(); };
    if (micro % window == window - 1) {
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

void evaluation_that_clears(RankContext& rank) {
  accumulates(rank, 4, [&](std::int64_t micro, Mlp& model) {
    if (micro % 3 != 1) return;
    model.eval();
    model.zero_grad();
    const NoGradGuard no_grad(rank.runtime());
    const Batch batch = batch_of(rank, 99);
    if (mse_loss(model(batch.x), batch.y).item() > 1000.0) rank.host().log("diverges");
    model.train();
  });
}

void evaluation_that_adds(RankContext& rank) {
  accumulates(rank, 4, [&](std::int64_t micro, Mlp& model) {
    if (micro % 3 != 1) return;
    model.eval();
    const Variable rows(numbers(rank, micro, 4, 4), true);
    mse_loss(model(rows), batch_of(rank, micro).y).backward();
    model.train();
  });
}

// Nothing turns back to training after the first evaluation.
void evaluation_that_stays(RankContext& rank) {
  accumulates(rank, 2, [&](std::int64_t micro, Mlp& model) {
    if (micro != 1) return;
    model.eval();
    const NoGradGuard no_grad(rank.runtime());
    const Batch batch = batch_of(rank, 99);
    if (mse_loss(model(batch.x), batch.y).item() > 1000.0) rank.host().log("diverges");
  });
}

void windows_of_two_sizes(RankContext& rank) {
  accumulates(rank, rank.rank() == 1 ? 4 : 2, [](std::int64_t /*micro*/, Mlp& /*model*/) {});
}

void optimizers_of_two_kinds(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  std::unique_ptr<optim::Optimizer> optimizer;
  if (rank.rank() == 1) {
    optimizer = std::make_unique<optim::Adam>(model.parameters(), optim::AdamOptions{.lr = 0.125});
  } else {
    optimizer = std::make_unique<optim::Sgd>(model.parameters(), kSgd);
  }
  for (std::int64_t step = 0; step < 2; ++step) train_step(ddp, *optimizer, batch_of(rank, step));
}

/// Ranks train alone, and average_all(parameters) is to bring them together every second step.
template <typename Average>
void averages_parameters(RankContext& rank, Average average_all) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  const NoSync no_sync(ddp);
  for (std::int64_t step = 0; step < 5; ++step) {
    train_step(ddp, optimizer, batch_of(rank, step));
    if (step % 2 == 1) average_all(step, optimizer.parameters());
  }
}

void average_all(RankContext& rank, std::span<const Variable> parameters) {
  for (const Variable& parameter : parameters) {
    rank.world().all_reduce(Memory::of(parameter.data()), ReduceOp::kAvg).wait_or_throw();
  }
}

void average_without_a_parameter(RankContext& rank) {
  averages_parameters(rank, [&](std::int64_t /*step*/, std::span<const Variable> parameters) {
    average_all(rank, parameters.first(parameters.size() - 1));
  });
}

void average_that_a_rank_skips(RankContext& rank) {
  averages_parameters(rank, [&](std::int64_t step, std::span<const Variable> parameters) {
    if (rank.rank() != 1 || step != 1) average_all(rank, parameters);
  });
}

// The number of ranks that the job was planned for.
void average_over_too_many(RankContext& rank) {
  averages_parameters(rank, [&](std::int64_t /*step*/, std::span<const Variable> parameters) {
    Kernels& kernels = rank.runtime().kernels();
    for (const Variable& parameter : parameters) {
      rank.world().all_reduce(Memory::of(parameter.data())).wait_or_throw();
      kernels.div_scalar(parameter.data(), parameter.data(), 4.0);
    }
  });
}

void average_that_is_a_sum(RankContext& rank) {
  averages_parameters(rank, [&](std::int64_t /*step*/, std::span<const Variable> parameters) {
    for (const Variable& parameter : parameters) {
      rank.world().all_reduce(Memory::of(parameter.data())).wait_or_throw();
    }
  });
}

// The classic three lines, two of them swapped.
void clears_before_the_step(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 3; ++step) {
    const Batch batch = batch_of(rank, step);
    mse_loss(ddp(batch.x), batch.y).backward();
    optimizer.zero_grad();
    optimizer.step();
  }
}

void zeroes_before_the_step(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 3; ++step) {
    const Batch batch = batch_of(rank, step);
    mse_loss(ddp(batch.x), batch.y).backward();
    optimizer.zero_grad(false);
    optimizer.step();
  }
}

}  // namespace

std::vector<BrokenTwin> window_twins() {
  return {
      {.name = "ClearingBeforeTheStep",
       .program = clears_before_the_step,
       .law = "trained-set",
       .says = "cleared between the backward pass and the step"},
      {.name = "ZeroingBeforeTheStep",
       .program = zeroes_before_the_step,
       .law = "trained-set",
       .says = "cleared-before-step"},
      {.name = "EvaluationThatClears",
       .program = evaluation_that_clears,
       .law = "accumulated-once",
       .says = "evaluation-touches-gradients"},
      {.name = "EvaluationThatAdds",
       .program = evaluation_that_adds,
       .law = "accumulated-once",
       .says = "evaluation-touches-gradients"},
      {.name = "EvaluationThatStays",
       .program = evaluation_that_stays,
       .law = "A-stays-in-evaluation",
       .says = "in eval mode from step 1 to the last step"},
      {.name = "WindowsOfTwoSizes",
       .ranks = 3,
       .program = windows_of_two_sizes,
       .law = "progress",
       .says = "4 on rank 1"},
      {.name = "OptimizersOfTwoKinds",
       .ranks = 3,
       .program = optimizers_of_two_kinds,
       .law = "optimizer-equal",
       .says = "optimizer is adam on rank 1"},
      {.name = "ParametersAveragedWithoutOne",
       .program = average_without_a_parameter,
       .law = "replicas-equal",
       .says = "last.bias"},
      {.name = "ParametersAveragedOnSomeRanks",
       .program = average_that_a_rank_skips,
       .law = "progress"},
      {.name = "ParametersAveragedOverTooMany",
       .ranks = 3,
       .program = average_over_too_many,
       .law = "outer-step",
       .says = "outer-step-denominator"},
      {.name = "ParametersSummed",
       .program = average_that_is_a_sum,
       .law = "outer-step",
       .says = "the division is missing"},
  };
}

}  // namespace lockstep::programs
