// Gradients that are accumulated, scaled, clipped, averaged by hand or left out, as they should be.
#include <cmath>

#include "lockstep/comm.h"
#include "lockstep/ddp.h"
#include "lockstep/optim.h"

#include "tests/programs/healthy/healthy.h"
#include "tests/programs/training.h"

namespace lockstep::programs {

namespace {

constexpr optim::SgdOptions kSgd = {.lr = 0.125};

// Four micro-batches a step, the last of which synchronises.
void accumulation_under_no_sync(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t micro = 0; micro < 8; ++micro) {
    const Batch batch = batch_of(rank, micro);
    const bool last = micro % 4 == 3;
    const auto backward = [&] { scale(mse_loss(ddp(batch.x), batch.y), 0.25).backward(); };
    if (last) {
      backward();
      optimizer.step();
      optimizer.zero_grad();
    } else {
      const NoSync no_sync(ddp);
      backward();
    }
  }
}

// Every micro-batch synchronises: slower, and as right.
void accumulation_without_no_sync(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 2; ++step) {
    optimizer.zero_grad();
    for (std::int64_t micro = 0; micro < 2; ++micro) {
      const Batch batch = batch_of(rank, 2 * step + micro);
      scale(mse_loss(ddp(batch.x), batch.y), 0.5).backward();
    }
    optimizer.step();
  }
}

// Five micro-batches an epoch in windows of four: the last window is smaller, and divided by what
// it holds.
void uneven_last_window(RankContext& rank) {
  constexpr std::int64_t kPerEpoch = 5;
  constexpr std::int64_t kWindow = 4;
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    for (std::int64_t first = 0; first < kPerEpoch; first += kWindow) {
      const std::int64_t n = std::min(kWindow, kPerEpoch - first);
      optimizer.zero_grad();
      for (std::int64_t i = 0; i < n; ++i) {
        const Batch batch = batch_of(rank, epoch * kPerEpoch + first + i, 2);
        const double share = 1.0 / static_cast<double>(n);
        if (i + 1 < n) {
          const NoSync no_sync(ddp);
          scale(mse_loss(ddp(batch.x), batch.y), share).backward();
        } else {
          scale(mse_loss(ddp(batch.x), batch.y), share).backward();
        }
      }
      optimizer.step();
    }
  }
}

// The wrapper's own reduction is off; the program averages what it has accumulated.
void hand_written_averaging_under_no_sync(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  const NoSync no_sync(ddp);
  for (std::int64_t step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    const Batch batch = batch_of(rank, step);
    mse_loss(ddp(batch.x), batch.y).backward();
    average_gradients(rank, optimizer.parameters());
    optimizer.step();
  }
}

// No wrapper at all: weights are broadcast and gradients averaged by hand.
void hand_written_data_parallelism(RankContext& rank) {
  Generator init(static_cast<std::uint64_t>(rank.rank()));
  Mlp model(rank.runtime(), init);
  for (const Variable& parameter : model.parameters()) {
    rank.world().broadcast(Memory::of(parameter.data()), 0).wait_or_throw();
  }
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 3; ++step) {
    averaged_step(rank, model, optimizer, batch_of(rank, step));
  }
}

void clipping_after_the_reduction(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 3; ++step) {
    const Batch batch = batch_of(rank, step);
    optimizer.zero_grad();
    mse_loss(ddp(batch.x), batch.y).backward();
    optim::clip_grad_norm(optimizer.parameters(), {.max_norm = 0.125});
    optimizer.step();
  }
}

// The norm is computed once for a log line and once for the limit.
void clipping_by_a_norm_computed_before(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 3; ++step) {
    const Batch batch = batch_of(rank, step);
    optimizer.zero_grad();
    mse_loss(ddp(batch.x), batch.y).backward();
    const double norm = optim::total_norm(optimizer.parameters());
    if (rank.rank() == 0) rank.host().log("norm " + std::to_string(norm));
    optim::clip_grads_with_norm(optimizer.parameters(), {.max_norm = 0.125}, norm);
    optimizer.step();
  }
}

void clipping_values(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 3; ++step) {
    const Batch batch = batch_of(rank, step);
    optimizer.zero_grad();
    mse_loss(ddp(batch.x), batch.y).backward();
    optim::clip_grad_value(optimizer.parameters(), 0.0625);
    optimizer.step();
  }
}

// The first steps overflow on every rank, since infinities survive the average: all skip.
void scaler_that_finds_its_scale(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  optim::GradScaler scaler({.init_scale = std::ldexp(1.0, 127), .backoff_factor = 0.0009765625});
  for (std::int64_t step = 0; step < 4; ++step) {
    const Batch batch = batch_of(rank, step);
    optimizer.zero_grad();
    scaler.scale(mse_loss(ddp(batch.x), batch.y)).backward();
    scaler.unscale(optimizer);
    optim::clip_grad_norm(optimizer.parameters(), {.max_norm = 1.0});
    scaler.step(optimizer);
    scaler.update();
  }
}

// Layers in f16, and a scale that is too large at first: all ranks skip the same steps.
void autocast_with_a_scaler(RankContext& rank) {
  Generator init(1);
  NormedMlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Adam optimizer(model.parameters(), {.lr = 0.01});
  optim::GradScaler scaler({.init_scale = 0x1p24, .growth_interval = 2});
  for (std::int64_t step = 0; step < 8; ++step) {
    const Batch batch = batch_of(rank, step);
    optimizer.zero_grad();
    Variable loss;
    {
      const AutocastGuard autocast(rank.runtime(), {.dtype = DType::kF16});
      loss = mse_loss(ddp(batch.x), batch.y);
    }
    scaler.scale(loss).backward();
    scaler.unscale(optimizer);
    optim::clip_grad_norm(optimizer.parameters(), {.max_norm = 1.0});
    scaler.step(optimizer);
    scaler.update();
  }
}

// Backwards inside of the region, which PyTorch allows: both use one conversion of each parameter.
void autocast_around_a_whole_window(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    const AutocastGuard autocast(rank.runtime(), {.dtype = DType::kBF16});
    {
      const NoSync no_sync(ddp);
      const Batch first = batch_of(rank, 2 * step);
      scale(mse_loss(ddp(first.x), first.y), 0.5).backward();
    }
    const Batch second = batch_of(rank, 2 * step + 1);
    scale(mse_loss(ddp(second.x), second.y), 0.5).backward();
    optimizer.step();
  }
}

// A batch is bad on one rank, and all ranks skip it together.
void skip_agreed_on(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 4; ++step) {
    const bool bad = rank.rank() == 1 && step == 1;
    if (largest(rank.world(), bad ? 1.0 : 0.0) > 0.0) continue;
    train_step(ddp, optimizer, batch_of(rank, step));
  }
}

// A regularisation term that does not go through the wrapper's output.
void weight_penalty_in_the_loss(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 2; ++step) {
    const Batch batch = batch_of(rank, step);
    const Variable& weight = model.last().weight();
    optimizer.zero_grad();
    add(mse_loss(ddp(batch.x), batch.y), scale(sum(mul(weight, weight)), 0.01)).backward();
    optimizer.step();
  }
}

// Ranks have 1 and 3 rows, and each sample counts the same: the sum of losses times the number of
// ranks over the number of rows of all ranks.
void uneven_batches_weighted_by_rows(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  const std::int64_t rows = 1 + 2 * rank.rank();
  for (std::int64_t step = 0; step < 2; ++step) {
    const Batch batch = batch_of(rank, step, rows);
    const double total = summed(rank.world(), static_cast<double>(rows));
    optimizer.zero_grad();
    mse_loss(ddp(batch.x), batch.y, total / rank.world_size()).backward();
    optimizer.step();
  }
}

// Gradients are kept for a look after the step, and zeroed in place.
void zeroing_in_place(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world(), {.gradient_as_bucket_view = true});
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 3; ++step) {
    optimizer.zero_grad(false);
    const Batch batch = batch_of(rank, step);
    mse_loss(ddp(batch.x), batch.y).backward();
    optimizer.step();
  }
}

// The mean over ranks of what all ranks have is that: superfluous, and right.
void averages_averaged_again(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    const Batch batch = batch_of(rank, step);
    mse_loss(ddp(batch.x), batch.y).backward();
    for (const Variable& parameter : optimizer.parameters()) {
      rank.world().all_reduce(Memory::of(parameter.grad())).wait_or_throw();
      rank.runtime().kernels().div_scalar(parameter.grad(), parameter.grad(), rank.world_size());
    }
    optimizer.step();
  }
}

// A loss that every rank has divided by a number of all ranks: DDP's division is taken back.
void sums_instead_of_averages(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    const Batch batch = batch_of(rank, step);
    const double rows = summed(rank.world(), static_cast<double>(batch.x.data().shape()[0]));
    mse_loss(ddp(batch.x), batch.y, rows).backward();
    for (const Variable& parameter : optimizer.parameters()) {
      rank.runtime().kernels().scale(parameter.grad(), parameter.grad(), rank.world_size());
    }
    optimizer.step();
  }
}

}  // namespace

std::vector<HealthyProgram> gradient_programs() {
  return {
      {.name = "AccumulationUnderNoSync", .program = accumulation_under_no_sync},
      {.name = "AccumulationWithoutNoSync",
       .program = accumulation_without_no_sync,
       .advice = "A-extra-reductions"},
      {.name = "UnevenLastWindow", .program = uneven_last_window},
      {.name = "HandWrittenAveragingUnderNoSync", .program = hand_written_averaging_under_no_sync},
      {.name = "HandWrittenDataParallelism", .program = hand_written_data_parallelism},
      {.name = "ClippingAfterTheReduction", .program = clipping_after_the_reduction},
      {.name = "ClippingByANormComputedBefore", .program = clipping_by_a_norm_computed_before},
      {.name = "ClippingValues", .program = clipping_values},
      {.name = "ScalerThatFindsItsScale", .program = scaler_that_finds_its_scale},
      {.name = "AutocastWithAScaler", .program = autocast_with_a_scaler},
      {.name = "AutocastAroundAWholeWindow", .program = autocast_around_a_whole_window},
      {.name = "SkipAgreedOn", .program = skip_agreed_on},
      {.name = "WeightPenaltyInTheLoss", .program = weight_penalty_in_the_loss},
      {.name = "UnevenBatchesWeightedByRows", .program = uneven_batches_weighted_by_rows},
      {.name = "ZeroingInPlace", .program = zeroing_in_place},
      {.name = "AveragesAveragedAgain", .program = averages_averaged_again},
      {.name = "SumsInsteadOfAverages", .ranks = 4, .program = sums_instead_of_averages},
  };
}

}  // namespace lockstep::programs
