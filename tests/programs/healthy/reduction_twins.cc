// Gradients that hooks and hand-written calls reduce, and reduce wrongly.
#include <memory>
#include <span>
#include <utility>

#include "lockstep/comm.h"
#include "lockstep/ddp.h"
#include "lockstep/optim.h"

#include "tests/programs/healthy/broken_twins.h"
#include "tests/programs/healthy/shared_trunk.h"
#include "tests/programs/training.h"

namespace lockstep::programs {

namespace {

constexpr optim::SgdOptions kSgd = {.lr = 0.125};

/// Trains under no_sync and reduces what was accumulated with `reduce(gradients)`.
template <typename Reduce>
void reduces_by_hand(RankContext& rank, Reduce reduce) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  const NoSync no_sync(ddp);
  for (std::int64_t step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    const Batch batch = batch_of(rank, step);
    mse_loss(ddp(batch.x), batch.y).backward();
    reduce(optimizer.parameters());
    optimizer.step();
  }
}

/// Clips where no gradient waits for its step.
template <bool kAfter>
void clips_for_none(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  const auto clip = [&] { optim::clip_grad_norm(optimizer.parameters(), {.max_norm = 0.0625}); };
  for (std::int64_t step = 0; step < 4; ++step) {
    const Batch batch = batch_of(rank, step);
    optimizer.zero_grad();
    if (!kAfter) clip();
    mse_loss(ddp(batch.x), batch.y).backward();
    optimizer.step();
    if (kAfter) clip();
  }
}

void forgets_a_parameter(RankContext& rank) {
  reduces_by_hand(rank, [&](std::span<const Variable> parameters) {
    for (const Variable& parameter : parameters.first(parameters.size() - 1)) {
      rank.world().all_reduce(Memory::of(parameter.grad()), ReduceOp::kAvg).wait_or_throw();
    }
  });
}

void forgets_the_division(RankContext& rank) {
  reduces_by_hand(rank, [&](std::span<const Variable> parameters) {
    for (const Variable& parameter : parameters) {
      rank.world().all_reduce(Memory::of(parameter.grad())).wait_or_throw();
    }
  });
}

void forgets_one_division(RankContext& rank) {
  reduces_by_hand(rank, [&](std::span<const Variable> parameters) {
    for (const Variable& parameter : parameters) {
      const bool is_last = &parameter == &parameters.back();
      const ReduceOp op = is_last ? ReduceOp::kSum : ReduceOp::kAvg;
      rank.world().all_reduce(Memory::of(parameter.grad()), op).wait_or_throw();
    }
  });
}

void takes_those_of_rank_0(RankContext& rank) {
  reduces_by_hand(rank, [&](std::span<const Variable> parameters) {
    for (const Variable& parameter : parameters) {
      rank.world().broadcast(Memory::of(parameter.grad()), 0).wait_or_throw();
    }
  });
}

// The wrapper has averaged them already.
void sums_averages_again(RankContext& rank) {
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
    }
    optimizer.step();
  }
}

/// What a call leaves in `narrow`, widened into `wide`.
class Widened final : public PendingBucket {
 public:
  Widened(Work work, Tensor narrow, Tensor wide)
      : work_(std::move(work)), narrow_(std::move(narrow)), wide_(std::move(wide)) {}

  Tensor wait() override {
    work_.wait_or_throw();
    wide_.runtime().kernels().copy(wide_, narrow_);
    return wide_;
  }

 private:
  Work work_;
  Tensor narrow_;
  Tensor wide_;
};

/// Sends gradients in `wire` and says that it rounds, which excuses neither of its mistakes.
class CarelessHook final : public CommHook {
 public:
  enum class Mistake : std::uint8_t { kLosesRank1, kDoesNotDivide };

  CarelessHook(ProcessGroup& group, DType wire, Mistake mistake)
      : group_(&group), wire_(wire), mistake_(mistake) {}

  HookEffect effect() const override { return HookEffect::kRounded; }

  std::unique_ptr<PendingBucket> run(GradBucket& bucket) override {
    Kernels& kernels = bucket.buffer().runtime().kernels();
    const Tensor narrow = bucket.buffer().to(wire_);
    if (mistake_ == Mistake::kLosesRank1) {
      kernels.div_scalar(narrow, narrow, static_cast<double>(group_->size()));
      if (group_->rank() == 1) kernels.fill(narrow, 0.0);
    }
    Work work = group_->all_reduce(Memory::of(narrow), ReduceOp::kSum, bucket.op_options());
    return std::make_unique<Widened>(std::move(work), narrow, bucket.buffer());
  }

 private:
  ProcessGroup* group_;
  DType wire_;
  Mistake mistake_;
};

void trains_with(RankContext& rank, DType wire, CarelessHook::Mistake mistake) {
  CarelessHook hook(rank.world(), wire, mistake);
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  ddp.register_comm_hook(hook);
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 2; ++step) train_step(ddp, optimizer, batch_of(rank, step));
}

void rounding_hook_loses_a_rank(RankContext& rank) {
  trains_with(rank, DType::kBF16, CarelessHook::Mistake::kLosesRank1);
}

void rounding_hook_does_not_divide(RankContext& rank) {
  trains_with(rank, DType::kF16, CarelessHook::Mistake::kDoesNotDivide);
}

// It might lose more than any bound says, and loses nothing but the division.
void any_hook_does_not_divide(RankContext& rank) {
  trains_with(rank, DType::kF32, CarelessHook::Mistake::kDoesNotDivide);
}

/// Two models on one trunk; last(tasks, batch) is the second backward of a step.
template <typename Last>
void trains_two_tasks(RankContext& rank, Last last) {
  Generator init(1);
  TwoTasks tasks(rank, init);
  optim::Sgd optimizer(tasks.parameters(), {.lr = 0.125});
  for (std::int64_t step = 0; step < 3; ++step) {
    const Batch batch = batch_of(rank, step);
    optimizer.zero_grad();
    mse_loss(tasks.ddp_first(batch.x), batch.y).backward();
    last(tasks, batch);
    optimizer.step();
  }
}

void second_task_without_its_wrapper(RankContext& rank) {
  trains_two_tasks(rank, [](TwoTasks& tasks, const Batch& batch) {
    mse_loss(tasks.second(batch.x), batch.y).backward();
  });
}

void second_task_under_no_sync(RankContext& rank) {
  trains_two_tasks(rank, [](TwoTasks& tasks, const Batch& batch) {
    const NoSync no_sync(tasks.ddp_second);
    mse_loss(tasks.ddp_second(batch.x), batch.y).backward();
  });
}

/// The wrapper has divided by the number of ranks already, or will.
template <bool kInTheLoss>
void divides_again(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
  for (std::int64_t step = 0; step < 3; ++step) {
    const Batch batch = batch_of(rank, step);
    optimizer.zero_grad();
    const double n_ranks = kInTheLoss ? rank.world_size() : 1;
    mse_loss(ddp(batch.x), batch.y, static_cast<double>(batch.y.n_elems()) * n_ranks).backward();
    for (const Variable& parameter : optimizer.parameters()) {
      const Tensor& grad = parameter.grad();
      if (!kInTheLoss) rank.runtime().kernels().div_scalar(grad, grad, rank.world_size());
    }
    optimizer.step();
  }
}

}  // namespace

std::vector<BrokenTwin> reduction_twins() {
  return {
      {.name = "ClippedAfterTheStep",
       .program = clips_for_none<true>,
       .law = "norm-true",
       .says = "gradients are clipped after the step that used them"},
      {.name = "ClippedBeforeTheBackward",
       .program = clips_for_none<false>,
       .law = "norm-true",
       .says = "after they were cleared and before the next backward"},
      {.name = "AveragesDividedAgain",
       .program = divides_again<false>,
       .law = "A-divided-again",
       .says = "divided the averaged gradients by"},
      {.name = "LossesDividedByTheRanks",
       .program = divides_again<true>,
       .law = "A-divided-again",
       .says = "the losses were divided by"},
      {.name = "SecondTaskWithoutItsWrapper",
       .program = second_task_without_its_wrapper,
       .law = "reduced-once",
       .says = "trunk.weight"},
      {.name = "SecondTaskUnderNoSync",
       .program = second_task_under_no_sync,
       .law = "reduced-once",
       .says = "last-micro-unsynced"},
      {.name = "HandWrittenAverageWithoutAParameter",
       .program = forgets_a_parameter,
       .law = "reduced-once",
       .says = "last.bias"},
      {.name = "HandWrittenSum",
       .program = forgets_the_division,
       .law = "A-summed-gradients",
       .says = "3 steps"},
      {.name = "HandWrittenAverageOfAllButOne",
       .program = forgets_one_division,
       .law = "gradient-mean",
       .says = "last.bias"},
      {.name = "HandWrittenBroadcastForAnAverage",
       .ranks = 3,
       .program = takes_those_of_rank_0,
       .law = "gradient-mean",
       .says = "rank 0"},
      {.name = "AveragesSummedAgain",
       .ranks = 3,
       .program = sums_averages_again,
       .law = "norm-true",
       .says = "3 times the averaged gradients"},
      {.name = "RoundingHookThatLosesARank",
       .ranks = 4,
       .program = rounding_hook_loses_a_rank,
       .law = "gradient-mean",
       .says = "rank 1"},
      {.name = "RoundingHookThatDoesNotDivide",
       .ranks = 4,
       .program = rounding_hook_does_not_divide,
       .law = "gradient-mean",
       .says = "division is missing"},
      {.name = "HookThatDoesNotDivide",
       .ranks = 3,
       .program = any_hook_does_not_divide,
       .law = "gradient-mean",
       .says = "division is missing"},
  };
}

}  // namespace lockstep::programs
