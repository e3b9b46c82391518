// Loops without a wrapper, and models beside a wrapped one, with one mistake each.
#include "lockstep/comm.h"
#include "lockstep/ddp.h"
#include "lockstep/optim.h"

#include "tests/programs/healthy/broken_twins.h"
#include "tests/programs/training.h"

namespace lockstep::programs {

namespace {

constexpr optim::SgdOptions kSgd = {.lr = 0.125};

/// What a rank leaves out of its turns.
struct Turn {
  bool clears = true;
  bool steps = true;
};

/// A loop that averages by itself; `after` may do something to the averaged gradients of a step.
template <typename After>
void loop(RankContext& rank, const After& after, Turn turn = {}) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 4; ++step) {
    const Batch batch = batch_of(rank, step);
    if (turn.clears) optimizer.zero_grad();
    mse_loss(model(batch.x), batch.y).backward();
    average_gradients(rank, model.parameters());
    after(step, model.parameters());
    if (turn.steps) optimizer.step();
  }
}

void nothing_after(std::int64_t /*step*/, const std::vector<Variable>& /*parameters*/) {}

// Only rank 0 clears its gradients: those of the others hold the averages of all steps before.
void cleared_on_rank_0(RankContext& rank) {
  loop(rank, nothing_after, {.clears = rank.rank() == 0});
}

// Only rank 0 takes the step that all have averaged for.
void steps_on_rank_0(RankContext& rank) { loop(rank, nothing_after, {.steps = rank.rank() == 0}); }

// The rate falls as for the steps of a single process, which would make as many as all ranks together.
void schedule_of_one_process(RankContext& rank) {
  constexpr std::int64_t kSteps = 4;
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  optim::RuleLr schedule(optimizer,
                         optim::PolynomialLr{.total_iters = kSteps * rank.world().size()});
  for (std::int64_t step = 0; step < kSteps; ++step) {
    train_step(ddp, optimizer, batch_of(rank, step));
    schedule.step();
  }
}

// Values are clipped and gradients never cleared: what was clipped is part of the next reduction.
void clipped_and_kept(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 3; ++step) {
    const Batch batch = batch_of(rank, step);
    mse_loss(ddp(batch.x), batch.y).backward();
    optim::clip_grad_value(optimizer.parameters(), 0.0625);
    optimizer.step();
  }
}

// All gradients go in one piece, of which rank 1 sends zeros.
void one_rank_sends_zeros(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  optim::Sgd optimizer(model.parameters(), kSgd);
  Kernels& kernels = rank.runtime().kernels();
  const Tensor piece = Tensor::zeros(rank.runtime(), {25}, DType::kF32);
  for (std::int64_t step = 0; step < 3; ++step) {
    const Batch batch = batch_of(rank, step);
    optimizer.zero_grad();
    mse_loss(model(batch.x), batch.y).backward();
    std::int64_t at = 0;
    for (const Variable& parameter : model.parameters()) {
      const std::int64_t n = parameter.grad().n_elems();
      kernels.copy(piece.slice(at, {n}), parameter.grad().slice(0, {n}));
      at += n;
    }
    if (rank.rank() == 1) kernels.fill(piece, 0.0);
    rank.world().all_reduce(Memory::of(piece), ReduceOp::kAvg).wait_or_throw();
    at = 0;
    for (const Variable& parameter : model.parameters()) {
      const std::int64_t n = parameter.grad().n_elems();
      kernels.copy(parameter.grad().slice(0, {n}), piece.slice(at, {n}));
      at += n;
    }
    optimizer.step();
  }
}

void doubled_on_one_rank(RankContext& rank) {
  loop(rank, [&](std::int64_t step, const std::vector<Variable>& parameters) {
    if (rank.rank() != 1 || step != 2) return;
    const Tensor& grad = parameters.front().grad();
    rank.runtime().kernels().scale(grad, grad, 2.0);
  });
}

// The loop averages twice, and forgets it from then on.
void stops_to_average(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 4; ++step) {
    const Batch batch = batch_of(rank, step);
    optimizer.zero_grad();
    mse_loss(model(batch.x), batch.y).backward();
    if (step < 2) average_gradients(rank, model.parameters());
    optimizer.step();
  }
}

void never_together(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  optim::Adam optimizer(model.parameters(), {.lr = 0.01});
  for (std::int64_t step = 0; step < 4; ++step) train_step(model, optimizer, batch_of(rank, step));
}

// The ranks' moments differ from the start, although they step with the same gradients.
void moments_of_their_own(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  optim::Adam optimizer(model.parameters(), {.lr = 0.01});
  const Shape& shape = model.parameters().front().shape();
  optimizer.load_state(
      "exp_avg", 0, Tensor::full(rank.runtime(), shape, DType::kF32, 0.25 * rank.rank()));
  for (std::int64_t step = 0; step < 3; ++step) {
    averaged_step(rank, model, optimizer, batch_of(rank, step));
  }
}

// The last parameter is left out of the average.
void one_left_out(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  const std::vector<Variable> parameters = model.parameters();
  optim::Sgd optimizer(parameters, kSgd);
  for (std::int64_t step = 0; step < 3; ++step) {
    const Batch batch = batch_of(rank, step);
    optimizer.zero_grad();
    mse_loss(model(batch.x), batch.y).backward();
    average_gradients(rank, std::span(parameters).first(parameters.size() - 1));
    optimizer.step();
  }
}

// Only rank 0's target follows the model.
void target_of_rank_0(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  Generator same(1);
  Mlp target(rank.runtime(), same);
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 5; ++step) {
    const Batch batch = batch_of(rank, step);
    const Tensor wanted = output_of(target, batch.x);
    rank.runtime().kernels().add(wanted, wanted, batch.y);
    train_step(ddp, optimizer, {batch.x, wanted});
    if (rank.rank() != 0) continue;
    const Tensor& to = target.first().parameters().front().data();
    rank.runtime().kernels().copy(to, model.first().parameters().front().data());
  }
}

}  // namespace

std::vector<BrokenTwin> loop_twins() {
  return {
      {.name = "OneRankSendsZeros",
       .ranks = 3,
       .program = one_rank_sends_zeros,
       .law = "gradient-mean",
       .says = "one rank's contribution is missing (rank 1)"},
      {.name = "ClearedOnRank0",
       .program = cleared_on_rank_0,
       .law = "gradient-mean",
       .says = "`first.bias` on rank 1: the manually averaged gradient"},
      {.name = "StepsOnRank0",
       .program = steps_on_rank_0,
       .law = "A-never-steps",
       .says = "rank 1 computed gradients and took part in the reductions of rank 0, but was not "
               "seen to step"},
      {.name = "ClippedAndKept",
       .program = clipped_and_kept,
       .law = "accumulated-once",
       .says = "the gradient that enters the reduction still contains the previous step's"},
      {.name = "DoubledOnOneRank",
       .program = doubled_on_one_rank,
       .law = "replicas-equal",
       .says = "step 2, after optimizer.step: `first.weight` on rank 1"},
      {.name = "StopsToAverage",
       .program = stops_to_average,
       .law = "replicas-equal",
       .says = "step 2, after optimizer.step: `first.weight` on rank 1"},
      {.name = "ScheduleOfOneProcess",
       .program = schedule_of_one_process,
       .law = "A-schedule-too-long",
       .says = "planned for 8 steps, as for a single process. With 2 ranks the run made 4"},
      {.name = "NeverTogether",
       .program = never_together,
       .law = "replicas-equal",
       .says = "step 0, after optimizer.step: `first.weight` on rank 1"},
      {.name = "MomentsOfTheirOwn",
       .program = moments_of_their_own,
       .law = "optimizer-equal",
       .says = "`first.weight/exp_avg` on rank 1"},
      {.name = "OneLeftOut",
       .program = one_left_out,
       .law = "A-unwrapped",
       .says = "1 parameter outside the manual reduction (first: `last.bias`)"},
      {.name = "TargetOfRank0",
       .program = target_of_rank_0,
       .law = "replicas-equal",
       .says = "`copy/first.weight` on rank 1"},
  };
}

}  // namespace lockstep::programs
