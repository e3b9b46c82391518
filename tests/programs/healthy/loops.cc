// Programs without a wrapper, and models beside a wrapped one, as they should be.
#include "lockstep/comm.h"
#include "lockstep/ddp.h"
#include "lockstep/optim.h"

#include "tests/programs/healthy/healthy.h"
#include "tests/programs/training.h"

namespace lockstep::programs {

namespace {

constexpr optim::SgdOptions kSgd = {.lr = 0.125};

void average_values(RankContext& rank, const nn::Module& model) {
  for (const Variable& parameter : model.parameters()) {
    rank.world().all_reduce(Memory::of(parameter.data()), ReduceOp::kAvg).wait_or_throw();
  }
}

// Half of a mean of squares is a loss of its own, on two ranks, too; so is one of four terms that have weights of a
// quarter.
void halves_and_quarters(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 4; ++step) {
    const Batch batch = batch_of(rank, step);
    const Variable out = ddp(batch.x);
    const Variable half = scale(mse_loss(out, batch.y), 0.5);
    const Variable quarter = scale(l1_loss(out, batch.y), 0.25);
    optimizer.zero_grad();
    (rank.world_size() == 2 ? half : add(half, quarter)).backward();
    optimizer.step();
  }
}

// As many micro-batches as there are ranks, of which each loss is its share.
void window_like_the_ranks(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  constexpr std::int64_t kWindow = 3;
  for (std::int64_t step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    for (std::int64_t micro = 0; micro < kWindow; ++micro) {
      const Batch batch = batch_of(rank, kWindow * step + micro);
      const auto backward = [&] {
        scale(mse_loss(ddp(batch.x), batch.y), 1.0 / kWindow).backward();
      };
      if (micro + 1 == kWindow) {
        backward();
      } else {
        const NoSync no_sync(ddp);
        backward();
      }
    }
    optimizer.step();
  }
}

// Sums of gradients, of losses that each rank has divided by the number of ranks.
void sums_of_shares(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 4; ++step) {
    const Batch batch = batch_of(rank, step);
    optimizer.zero_grad();
    scale(mse_loss(model(batch.x), batch.y), 1.0 / rank.world_size()).backward();
    for (const Variable& parameter : optimizer.parameters()) {
      rank.world().all_reduce(Memory::of(parameter.grad())).wait_or_throw();
    }
    optimizer.step();
  }
}

// Running statistics are each rank's own, and only rank 0 evaluates; a sum over the ranks belongs to the training.
void rank_0_evaluates_with_its_own(RankContext& rank) {
  Generator init(1);
  NormedMlp model(rank.runtime(), init);
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 4; ++step) {
    const Batch batch = batch_of(rank, step);
    averaged_step(rank, model, optimizer, batch);
    if (rank.rank() == 0) {
      model.eval();
      (void)output_of(model, batch.x);
      model.train();
    }
    (void)summed(rank.world(), 1.0);
  }
}

// Each rank evaluates with statistics of its own, and keeps what it finds to itself; in the end they are averaged, and
// what all find is added up.
void averaged_statistics(RankContext& rank) {
  Generator init(1);
  NormedMlp model(rank.runtime(), init);
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 4; ++step) {
    const Batch batch = batch_of(rank, step);
    averaged_step(rank, model, optimizer, batch);
    for (const NamedVariable& buffer : model.named_buffers()) {
      const bool counts = !is_floating(buffer.variable.data().dtype());
      if (step < 3 || counts) continue;
      rank.world().all_reduce(Memory::of(buffer.variable), ReduceOp::kAvg).wait_or_throw();
    }
    model.eval();
    const Tensor out = output_of(model, batch.x);
    if (step == 3) (void)summed(rank.world(), out.at(0));
    model.train();
  }
}

// Two optimizers, whose parameters all get gradients from the generator's loss.
void two_players(RankContext& rank) {
  Generator init(1);
  nn::Linear generator(rank.runtime(), 4, 1, init);
  nn::Linear discriminator(rank.runtime(), 1, 1, init);
  optim::Sgd optimizer_g(generator.parameters(), kSgd);
  optim::Sgd optimizer_d(discriminator.parameters(), kSgd);
  const Tensor ones = Tensor::full(rank.runtime(), {4, 1}, DType::kF32, 1.0);
  const Tensor zeros = Tensor::zeros(rank.runtime(), {4, 1}, DType::kF32);
  for (std::int64_t step = 0; step < 4; ++step) {
    const Batch batch = batch_of(rank, step);
    const Variable fake = generator(batch.x);
    optimizer_d.zero_grad();
    add(mse_loss(discriminator(Variable(batch.y)), ones),
        mse_loss(discriminator(fake.detach()), zeros))
        .backward();
    average_gradients(rank, discriminator.parameters());
    optimizer_d.step();

    optimizer_g.zero_grad();
    mse_loss(discriminator(fake), ones).backward();
    average_gradients(rank, generator.parameters());
    optimizer_g.step();
  }
}

// A head without a gradient, and a layer that all ranks freeze in the middle: neither is sent.
void less_is_sent(RankContext& rank) {
  Generator init(1);
  nn::TwoHead model(rank.runtime(), {.in = 4, .hidden = 4, .out = 1});
  model.reset_parameters(init);
  model.use(nn::Heads::kA);
  const std::vector<Variable> parameters = model.parameters();
  optim::Sgd optimizer(parameters, kSgd);
  for (std::int64_t step = 0; step < 5; ++step) {
    if (step == 3) parameters.front().set_requires_grad(false);
    const Batch batch = batch_of(rank, step);
    optimizer.zero_grad();
    mse_loss(model(batch.x), batch.y).backward();
    average_gradients(rank, parameters);
    optimizer.step();
  }
}

// Averages gradients as they arrive, inside the backward.
class AveragingHook final : public GradHook {
 public:
  AveragingHook(RankContext& rank, const std::vector<Variable>& parameters)
      : rank_(rank), parameters_(parameters) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i].add_hook(*this, i);
  }

  ~AveragingHook() override {
    for (const Variable& parameter : parameters_) parameter.remove_hook(*this);
  }

  AveragingHook(const AveragingHook&) = delete;
  AveragingHook& operator=(const AveragingHook&) = delete;
  AveragingHook(AveragingHook&&) = delete;
  AveragingHook& operator=(AveragingHook&&) = delete;

  void on_grad_ready(std::size_t index) override {
    rank_.world().all_reduce(Memory::of(parameters_[index].grad()), ReduceOp::kAvg).wait_or_throw();
  }

 private:
  RankContext& rank_;
  const std::vector<Variable>& parameters_;
};

void averaged_in_hooks(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  const std::vector<Variable> parameters = model.parameters();
  const AveragingHook hook(rank, parameters);
  optim::Sgd optimizer(parameters, kSgd);
  for (std::int64_t step = 0; step < 4; ++step) {
    train_step(model, optimizer, batch_of(rank, step));
  }
}

// Clipped after the average, which all ranks have alike; a window of two micro-batches.
void accumulated_averaged_clipped(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 4; ++step) {
    optimizer.zero_grad(false);
    for (std::int64_t micro = 0; micro < 2; ++micro) {
      const Batch batch = batch_of(rank, 2 * step + micro);
      scale(mse_loss(model(batch.x), batch.y), 0.5).backward();
    }
    average_gradients(rank, model.parameters());
    (void)optim::clip_grad_norm(optimizer.parameters(), {.max_norm = 0.125});
    optimizer.step();
  }
}

// Ranks train alone, with moments of their own, and average their parameters every third step.
void alone_between_averages(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  optim::Adam optimizer(model.parameters(), {.lr = 0.01});
  for (std::int64_t step = 0; step < 7; ++step) {
    train_step(model, optimizer, batch_of(rank, step));
    if (step % 3 == 2) average_values(rank, model);
  }
}

// Each rank trains a model of its own; only their losses are compared.
void models_of_their_own(RankContext& rank) {
  Generator init(1 + static_cast<std::uint64_t>(rank.rank()));
  Mlp model(rank.runtime(), init);
  optim::Adam optimizer(model.parameters(), {.lr = 0.01});
  double loss = 0.0;
  for (std::int64_t step = 0; step < 3; ++step) {
    loss = train_step(model, optimizer, batch_of(rank, step));
  }
  rank.host().log("largest loss " + std::to_string(largest(rank.world(), loss)));
}

// Rank 0 steps with the mean gradient and sends what it has come to.
void parameter_server(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 3; ++step) {
    const Batch batch = batch_of(rank, step);
    optimizer.zero_grad();
    mse_loss(model(batch.x), batch.y).backward();
    for (const Variable& parameter : optimizer.parameters()) {
      rank.world().reduce(Memory::of(parameter.grad()), 0, ReduceOp::kAvg).wait_or_throw();
    }
    if (rank.rank() == 0) optimizer.step();
    for (const Variable& parameter : optimizer.parameters()) {
      rank.world().broadcast(Memory::of(parameter.data()), 0).wait_or_throw();
    }
  }
}

// One model after another, the second one wrapped.
void a_loop_then_a_wrapper(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  {
    optim::Sgd optimizer(model.parameters(), kSgd);
    for (std::int64_t step = 0; step < 3; ++step) {
      averaged_step(rank, model, optimizer, batch_of(rank, step));
    }
  }
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 3; ++step) train_step(ddp, optimizer, batch_of(rank, step));
}

void follow(RankContext& rank, const nn::Module& target, const nn::Module& model) {
  const std::vector<Variable> to = target.parameters();
  const std::vector<Variable> from = model.parameters();
  Kernels& kernels = rank.runtime().kernels();
  for (std::size_t i = 0; i < to.size(); ++i) {
    kernels.scale(to[i].data(), to[i].data(), 0.75);
    kernels.add_scaled(to[i].data(), to[i].data(), from[i].data(), 0.25);
  }
}

// A target network follows the trained one.
void target_network(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  Generator same(1);
  Mlp target(rank.runtime(), same);
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 4; ++step) {
    const Batch batch = batch_of(rank, step);
    const Tensor wanted = output_of(target, batch.x);
    rank.runtime().kernels().add(wanted, wanted, batch.y);
    train_step(ddp, optimizer, {batch.x, wanted});
    follow(rank, target, model);
  }
}

// Opponents of each rank's own beside the model: none of several is a copy.
void opponents(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  Generator own(10 + static_cast<std::uint64_t>(rank.rank()));
  Mlp first(rank.runtime(), own);
  Mlp second(rank.runtime(), own);
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 4; ++step) {
    const Batch batch = batch_of(rank, step);
    const Tensor wanted = output_of(step % 2 == 0 ? first : second, batch.x);
    train_step(ddp, optimizer, {batch.x, wanted});
  }
}

// A model that each rank adapts to data of its own.
void adapted_beside(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  Generator same(1);
  Mlp fast(rank.runtime(), same);
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 3; ++step) {
    const Batch batch = batch_of(rank, step);
    fast.zero_grad();
    mse_loss(fast(batch.x), batch.y).backward();
    for (const Variable& parameter : fast.parameters()) {
      const Tensor& data = parameter.data();
      rank.runtime().kernels().add_scaled(data, data, parameter.grad(), -0.125);
    }
    train_step(ddp, optimizer, batch);
  }
}

}  // namespace

std::vector<HealthyProgram> loop_programs() {
  return {
      {.name = "HalfOfSquares", .program = halves_and_quarters},
      {.name = "HalvesAndQuarters", .ranks = 4, .program = halves_and_quarters},
      {.name = "WindowLikeTheRanks", .ranks = 3, .program = window_like_the_ranks},
      {.name = "SumsOfShares", .ranks = 3, .program = sums_of_shares},
      {.name = "RankZeroEvaluatesWithItsOwn", .ranks = 3, .program = rank_0_evaluates_with_its_own},
      {.name = "AveragedStatistics", .ranks = 3, .program = averaged_statistics},
      {.name = "TwoPlayers", .program = two_players},
      {.name = "LessIsSent", .program = less_is_sent},
      {.name = "AveragedInHooks", .ranks = 3, .program = averaged_in_hooks},
      {.name = "AccumulatedAveragedClipped", .program = accumulated_averaged_clipped},
      {.name = "AloneBetweenAverages", .ranks = 3, .program = alone_between_averages},
      {.name = "ModelsOfTheirOwn", .program = models_of_their_own, .advice = "A-nothing-wrapped"},
      {.name = "ParameterServer", .program = parameter_server},
      {.name = "ALoopThenAWrapper", .program = a_loop_then_a_wrapper},
      {.name = "TargetNetwork", .program = target_network},
      {.name = "Opponents", .program = opponents},
      {.name = "AdaptedBeside", .program = adapted_beside},
  };
}

}  // namespace lockstep::programs
