// What happens to gradients between backward and step.
#include <cmath>
#include <optional>

#include "lockstep/comm.h"
#include "lockstep/ddp.h"
#include "lockstep/optim.h"

#include "tests/programs/bugs/bug.h"
#include "tests/programs/training.h"

namespace lockstep::programs {

namespace {

// Ten samples on two ranks are five micro-batches, and a window takes four: the fifth is left in
// the gradients when the epoch ends, and the next epoch's first step uses it.
void partial_window(RankContext& rank, Form form) {
  constexpr std::int64_t kPerEpoch = 5;
  constexpr std::int64_t kWindow = 4;
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    for (std::int64_t i = 0; i < kPerEpoch; ++i) {
      const bool flush = form.fixed && i + 1 == kPerEpoch;
      const bool steps = (i + 1) % kWindow == 0 || flush;
      const double window = flush ? kPerEpoch % kWindow : kWindow;
      const Batch batch = batch_of(rank, epoch * kPerEpoch + i, 1);
      const auto backward = [&] {
        scale(mse_loss(ddp(batch.x), batch.y), 1.0 / window).backward();
      };
      if (!steps) {
        const NoSync no_sync(ddp);
        backward();
        continue;
      }
      backward();
      optimizer.step();
      optimizer.zero_grad();
    }
  }
}

class OneWeight final : public nn::Module {
 public:
  explicit OneWeight(Runtime& runtime)
      : Module(runtime),
        weight_(register_parameter("weight", Tensor::full(runtime, {1, 1}, DType::kF32, 0.5))) {}

  Variable forward(const Variable& x) override { return linear(x, weight_, Variable()); }

 private:
  Variable weight_;
};

// The norm of averaged gradients, summed over ranks once more: with a gradient of 0.8 it comes out
// as 0.8 times the square root of two, and a limit of 1 clips what it should leave alone.
void clip_norm_recounted(RankContext& rank, Form form) {
  OneWeight model(rank.runtime());
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
  const Variable x(Tensor::full(rank.runtime(), {1, 1}, DType::kF32, 0.8));

  optimizer.zero_grad();
  sum(ddp(x)).backward();
  double norm = optim::total_norm(optimizer.parameters());
  if (!form.fixed) norm = std::sqrt(summed(rank.world(), norm * norm));
  optim::clip_grads_with_norm(optimizer.parameters(), {.max_norm = 1.0}, norm);
  optimizer.step();
}

// Each rank divides its loss by the number of ranks, as a sum of gradients asks for; the wrapper averages.
void loss_over_ranks(RankContext& rank, Form form) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
  for (std::int64_t step = 0; step < 3; ++step) {
    const Batch batch = batch_of(rank, step);
    optimizer.zero_grad();
    const Variable loss = mse_loss(ddp(batch.x), batch.y);
    (form.fixed ? loss : scale(loss, 1.0 / rank.world_size())).backward();
    optimizer.step();
  }
}

// A plateau schedule that follows each rank's own loss: it falls on rank 0 and rises on rank 1.
void lr_per_rank(RankContext& rank, Form form) {
  OneWeight model(rank.runtime());
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
  optim::ReduceLrOnPlateau plateau(optimizer, {.factor = 0.5, .patience = 0});
  const Batch batch = {
      Variable(Tensor::full(rank.runtime(), {1, 1}, DType::kF32, 1.0)),
      Tensor::full(rank.runtime(), {1, 1}, DType::kF32, rank.rank() == 0 ? 4.0 : 0.0)};
  for (std::int64_t step = 0; step < 3; ++step) {
    double loss = train_step(ddp, optimizer, batch);
    if (form.fixed) loss = summed(rank.world(), loss) / rank.world_size();
    plateau.step(loss);
  }
}

// The generator's loss goes through the discriminator and leaves gradients there; nothing clears
// them before the discriminator's next turn.
void two_optimizer_leak(RankContext& rank, Form form) {
  Generator init(1);
  nn::Linear generator(rank.runtime(), 4, 1, init);
  nn::Linear discriminator(rank.runtime(), 1, 1, init);
  DistributedDataParallel ddp_g(generator, rank.world());
  DistributedDataParallel ddp_d(discriminator, rank.world());
  optim::Sgd optimizer_g(generator.parameters(), {.lr = 0.125});
  optim::Sgd optimizer_d(discriminator.parameters(), {.lr = 0.125});
  const Tensor ones = Tensor::full(rank.runtime(), {4, 1}, DType::kF32, 1.0);
  const Tensor zeros = Tensor::zeros(rank.runtime(), {4, 1}, DType::kF32);
  for (std::int64_t step = 0; step < 2; ++step) {
    const Batch batch = batch_of(rank, step);
    const Variable fake = ddp_g(batch.x);
    if (form.fixed) optimizer_d.zero_grad();
    add(mse_loss(ddp_d(Variable(batch.y)), ones), mse_loss(ddp_d(fake.detach()), zeros)).backward();
    optimizer_d.step();

    optimizer_g.zero_grad();
    mse_loss(ddp_d(fake), ones).backward();
    optimizer_g.step();
  }
}

// The loss to report is read while its all-reduce is still on its way.
void async_no_wait(RankContext& rank, Form form) {
  const Tensor loss = Tensor::full(rank.runtime(), {1}, DType::kF32, 1.0 + rank.rank());
  const Work work = rank.world().all_reduce(Memory::of(loss), ReduceOp::kAvg);
  if (form.fixed) work.wait_or_throw();
  const double reported = loss.item();
  if (reported < 0.0) rank.host().log("diverged");
  if (!form.fixed) work.wait_or_throw();
}

// A window of two micro-batches: what the first left, which nothing has averaged yet, is clipped by
// each rank's own norm.
void clip_before_sync(RankContext& rank, Form form) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
  for (std::int64_t step = 0; step < 2; ++step) {
    optimizer.zero_grad();
    const Batch first = batch_of(rank, 2 * step, 1);
    {
      const NoSync no_sync(ddp);
      mse_loss(ddp(first.x), first.y).backward();
    }
    if (!form.fixed) (void)optim::clip_grad_norm(optimizer.parameters(), {.max_norm = 0.125});
    const Batch second = batch_of(rank, 2 * step + 1, 1);
    mse_loss(ddp(second.x), second.y).backward();
    if (form.fixed) (void)optim::clip_grad_norm(optimizer.parameters(), {.max_norm = 0.125});
    optimizer.step();
  }
}

// The loss scaler's factor is taken off after the first micro-batch of two, and what the second adds keeps it.
void unscaled_mid_window(RankContext& rank, Form form) {
  constexpr std::int64_t kWindow = 2;
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.0625});
  optim::GradScaler scaler({.init_scale = 64.0});
  for (std::int64_t step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    for (std::int64_t micro = 0; micro < kWindow; ++micro) {
      const bool is_last = micro + 1 == kWindow;
      const Batch batch = batch_of(rank, kWindow * step + micro, 1);
      std::optional<NoSync> no_sync;
      if (!is_last) no_sync.emplace(ddp);
      scaler.scale(scale(mse_loss(ddp(batch.x), batch.y), 1.0 / kWindow)).backward();
      if (form.fixed ? is_last : micro == 0) scaler.unscale(optimizer);
    }
    scaler.step(optimizer);
    scaler.update();
  }
}

// Rank 1 freezes a layer where its own loss has stopped falling. Unused parameters are looked for, so nothing fails.
void layer_frozen_on_one_rank(RankContext& rank, Form form) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world(), {.find_unused_parameters = true});
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
  for (std::int64_t step = 0; step < 6; ++step) {
    if (step == 2 && (form.fixed || rank.rank() == 1)) {
      for (const Variable& parameter : model.first().parameters())
        parameter.set_requires_grad(false);
    }
    train_step(ddp, optimizer, batch_of(rank, step));
  }
}

}  // namespace

std::vector<Bug> gradient_bugs() {
  return {
      {.id = "loss-over-ranks",
       .ranks = 4,
       .program = loss_over_ranks,
       .expected = {.law = "A-divided-again",
                    .says = "in all 3 steps the losses were divided by 4 (the number of ranks)"}},
      {.id = "clip-before-sync",
       .program = clip_before_sync,
       .expected = {.law = "norm-true", .cause = "clip-before-sync", .ranks = {0, 1}, .step = 0}},
      {.id = "partial-window",
       .program = partial_window,
       .expected = {.law = "trained-set", .cause = "partial-window", .step = 1}},
      {.id = "clip-norm-recounted",
       .program = clip_norm_recounted,
       .expected = {.law = "norm-true", .cause = "clip-norm-recounted", .step = 0}},
      {.id = "layer-frozen-on-one-rank",
       .program = layer_frozen_on_one_rank,
       .expected = {.law = "A-contribution-ended",
                    .says = "rank 1 contributes nothing to `first.weight` from step 2 on"}},
      {.id = "unscaled-mid-window",
       .program = unscaled_mid_window,
       .expected = {.law = "accumulated-once", .step = 0}},
      {.id = "lr-per-rank",
       .program = lr_per_rank,
       .expected = {.law = "optimizer-equal", .cause = "lr-per-rank", .ranks = {1}, .step = 2}},
      {.id = "two-optimizer-leak",
       .program = two_optimizer_leak,
       .expected = {.law = "accumulated-once",
                    .cause = "zero-grad-forgotten",
                    .step = 1,
                    .tensor = "weight"}},
      {.id = "async-no-wait",
       .program = async_no_wait,
       .expected = {.law = "in-flight-untouched", .cause = "overlap-race", .ranks = {0, 1}}},
  };
}

}  // namespace lockstep::programs
