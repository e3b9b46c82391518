// One wrapper with unusual options, or several of them.
#include <optional>

#include "lockstep/comm.h"
#include "lockstep/ddp.h"
#include "lockstep/optim.h"

#include "tests/programs/healthy/healthy.h"
#include "tests/programs/healthy/shared_trunk.h"
#include "tests/programs/training.h"

namespace lockstep::programs {

namespace {

constexpr optim::SgdOptions kSgd = {.lr = 0.125};

// Two networks with a wrapper and an optimizer each; one loss goes through both.
void adversaries(RankContext& rank) {
  Generator init(1);
  nn::Linear generator(rank.runtime(), 4, 1, init);
  nn::Linear discriminator(rank.runtime(), 1, 1, init);
  DistributedDataParallel ddp_g(generator, rank.world());
  DistributedDataParallel ddp_d(discriminator, rank.world());
  optim::Adam optimizer_g(generator.parameters(), {.lr = 0.01});
  optim::Adam optimizer_d(discriminator.parameters(), {.lr = 0.01});
  const Tensor ones = Tensor::full(rank.runtime(), {4, 1}, DType::kF32, 1.0);
  const Tensor zeros = Tensor::zeros(rank.runtime(), {4, 1}, DType::kF32);
  for (std::int64_t step = 0; step < 3; ++step) {
    const Batch batch = batch_of(rank, step);
    const Variable fake = ddp_g(batch.x);
    optimizer_d.zero_grad();
    mse_loss(ddp_d(Variable(batch.y)), ones).backward();
    mse_loss(ddp_d(fake.detach()), zeros).backward();
    optimizer_d.step();
    optimizer_g.zero_grad();
    mse_loss(ddp_d(fake), ones).backward();
    optimizer_g.step();
  }
}

// The critic is trained several times for each step of the generator.
void critic_trained_more_often(RankContext& rank) {
  Generator init(1);
  nn::Linear generator(rank.runtime(), 4, 1, init);
  nn::Linear critic(rank.runtime(), 1, 1, init);
  DistributedDataParallel ddp_g(generator, rank.world());
  DistributedDataParallel ddp_c(critic, rank.world());
  optim::Rmsprop optimizer_g(generator.parameters(), {});
  optim::Rmsprop optimizer_c(critic.parameters(), {});
  const Tensor ones = Tensor::full(rank.runtime(), {4, 1}, DType::kF32, 1.0);
  for (std::int64_t step = 0; step < 4; ++step) {
    const Batch batch = batch_of(rank, step);
    optimizer_c.zero_grad();
    mse_loss(ddp_c(Variable(batch.y)), ones).backward();
    optimizer_c.step();
    if (step % 2 == 0) continue;
    optimizer_g.zero_grad();
    mse_loss(ddp_c(ddp_g(batch.x)), ones).backward();
    optimizer_g.step();
  }
}

// One backward for two wrapped halves of a model, each with an optimizer.
void two_optimizers_and_one_loss(RankContext& rank) {
  Generator init(1);
  nn::Linear trunk(rank.runtime(), 4, 4, init);
  nn::Linear head(rank.runtime(), 4, 1, init);
  DistributedDataParallel ddp_trunk(trunk, rank.world());
  DistributedDataParallel ddp_head(head, rank.world());
  optim::Sgd slow(trunk.parameters(), {.lr = 0.015625});
  optim::Sgd fast(head.parameters(), kSgd);
  for (std::int64_t step = 0; step < 3; ++step) {
    const Batch batch = batch_of(rank, step);
    slow.zero_grad();
    fast.zero_grad();
    mse_loss(ddp_head(ddp_trunk(batch.x)), batch.y).backward();
    slow.step();
    fast.step();
  }
}

// Each backward reduces what the other's has left of the trunk's gradients.
template <bool kSecondFirst>
void trunk_shared_by_two_models(RankContext& rank) {
  Generator init(1);
  TwoTasks tasks(rank, init);
  optim::Sgd optimizer(tasks.parameters(), kSgd);
  auto& sooner = kSecondFirst ? tasks.ddp_second : tasks.ddp_first;
  auto& later = kSecondFirst ? tasks.ddp_first : tasks.ddp_second;
  for (std::int64_t step = 0; step < 3; ++step) {
    const Batch batch = batch_of(rank, step);
    optimizer.zero_grad();
    mse_loss(sooner(batch.x), batch.y).backward();
    mse_loss(later(batch.x), batch.y).backward();
    optimizer.step();
  }
}

// Each rank trains one of two heads; the wrapper looks for the parameters that a step left out.
void heads_used_in_turn(RankContext& rank) {
  Generator init(1);
  nn::TwoHead model(rank.runtime(), {.in = 4, .hidden = 4, .out = 1});
  model.reset_parameters(init);
  DistributedDataParallel ddp(model, rank.world(), {.find_unused_parameters = true});
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 4; ++step) {
    model.use((step + rank.rank()) % 2 == 0 ? nn::Heads::kA : nn::Heads::kB);
    train_step(ddp, optimizer, batch_of(rank, step));
  }
}

// A shared stream drops a layer on all ranks in the same steps.
void layers_dropped_together(RankContext& rank) {
  Generator init(1);
  nn::TwoHead model(rank.runtime(), {.in = 4, .hidden = 4, .out = 1});
  model.reset_parameters(init);
  DistributedDataParallel ddp(model, rank.world(), {.find_unused_parameters = true});
  optim::Sgd optimizer(model.parameters(), kSgd);
  Generator choices(7);
  for (std::int64_t step = 0; step < 4; ++step) {
    model.use(choices.random() % 2 == 0 ? nn::Heads::kA : nn::Heads::kBoth);
    train_step(ddp, optimizer, batch_of(rank, step));
  }
}

// The first layer never trains.
void frozen_layer(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  for (const Variable& parameter : model.first().parameters()) parameter.set_requires_grad(false);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125, .weight_decay = 0.01});
  for (std::int64_t step = 0; step < 3; ++step) train_step(ddp, optimizer, batch_of(rank, step));
}

// It thaws after the warm-up, with a new wrapper and a new optimizer.
void thawed_and_wrapped_again(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  for (const bool trains : {false, true}) {
    for (const Variable& one : model.first().parameters()) one.set_requires_grad(trains);
    DistributedDataParallel ddp(model, rank.world());
    optim::Sgd optimizer(model.parameters(), kSgd);
    for (std::int64_t step = 0; step < 2; ++step) train_step(ddp, optimizer, batch_of(rank, step));
  }
}

void static_graph(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world(), {.static_graph = true});
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 4; ++step) train_step(ddp, optimizer, batch_of(rank, step));
}

// Each rank has its own head, which the wrapper leaves alone: personalised training.
void personal_heads(RankContext& rank) {
  Generator init(1 + static_cast<std::uint64_t>(rank.rank()));
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world(), {.ignored = {"last.weight", "last.bias"}});
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 3; ++step) train_step(ddp, optimizer, batch_of(rank, step));
}

// Batch norm keeps statistics of each rank's own batches.
void local_batch_norm(RankContext& rank) {
  Generator init(1);
  NormedMlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world(), {.broadcast_buffers = false});
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 3; ++step) train_step(ddp, optimizer, batch_of(rank, step));
}

void batch_norm_with_broadcast(RankContext& rank) {
  Generator init(1);
  NormedMlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 3; ++step) train_step(ddp, optimizer, batch_of(rank, step));
}

// One backward from two wrappers' losses, of which one has the weight 0.25: with four ranks it is divided by their number.
void a_quarter_of_one_loss(RankContext& rank) {
  Generator init(1);
  nn::Linear encoder(rank.runtime(), 4, 4, init);
  nn::Linear decoder(rank.runtime(), 4, 4, init);
  DistributedDataParallel ddp_encoder(encoder, rank.world());
  DistributedDataParallel ddp_decoder(decoder, rank.world());
  optim::Sgd of_encoder(encoder.parameters(), kSgd);
  optim::Sgd of_decoder(decoder.parameters(), kSgd);
  const Tensor code = Tensor::full(rank.runtime(), {4, 4}, DType::kF32, 0.5);
  for (std::int64_t step = 0; step < 4; ++step) {
    const Batch batch = batch_of(rank, step);
    of_encoder.zero_grad();
    of_decoder.zero_grad();
    const Variable inner = ddp_encoder(batch.x);
    const Variable commitment = mse_loss(inner, code);
    add(mse_loss(ddp_decoder(inner), batch.x.data()), scale(commitment, 0.25)).backward();
    of_encoder.step();
    of_decoder.step();
  }
}

// Statistics of the whole batch, with an empty share on one rank.
void synchronised_batch_norm(RankContext& rank) {
  Generator init(1);
  nn::Sequential model(rank.runtime());
  model.append<nn::Linear>(4, 4, init);
  model.append<nn::SyncBatchNorm>(4, rank.world());
  model.append<nn::Linear>(4, 1, init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 3; ++step) train_step(ddp, optimizer, batch_of(rank, step));
}

template <typename Hook>
void trains_with_hook(RankContext& rank, Hook& hook) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  ddp.register_comm_hook(hook);
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 4; ++step) train_step(ddp, optimizer, batch_of(rank, step));
}

void all_reduce_hook(RankContext& rank) {
  AllReduceHook hook(rank.world());
  trains_with_hook(rank, hook);
}

void half_precision_hook(RankContext& rank) {
  CompressHook hook(rank.world(), DType::kBF16);
  trains_with_hook(rank, hook);
}

void power_sgd_hook(RankContext& rank) {
  PowerSgdHook hook(rank.world(), {.rank = 1, .start_iter = 2, .min_compression_rate = 0.5});
  trains_with_hook(rank, hook);
}

void quantizing_hook(RankContext& rank) {
  QuantizePerTensorHook hook(rank.world());
  trains_with_hook(rank, hook);
}

// Multiplies each entry by a gain: lent narrow ones, which it widens for its arithmetic.
class Gains final : public nn::Module {
 public:
  explicit Gains(Runtime& runtime)
      : Module(runtime),
        weight_(register_parameter("weight", Tensor::full(runtime, {4, 4}, DType::kF32, 0.5))) {}

  Variable forward(const Variable& x) override {
    return mul(cast(x, DType::kF32), cast(weight_, DType::kF32));
  }

 private:
  Variable weight_;
};

// Forwards in bfloat16 around full parameters.
void mixed_precision(RankContext& rank) {
  Gains model(rank.runtime());
  DistributedDataParallel ddp(model,
                              rank.world(),
                              {.mixed_precision = MixedPrecision{.param_dtype = DType::kBF16,
                                                                 .reduce_dtype = DType::kF32}});
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 2; ++step) {
    optimizer.zero_grad();
    sum(ddp(batch_of(rank, step).x)).backward();
    optimizer.step();
  }
}

// An evaluation in between, on the inner module and without gradients.
void evaluation_in_between(RankContext& rank) {
  Generator init(1);
  NormedMlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 3; ++step) {
    train_step(ddp, optimizer, batch_of(rank, step));
    if (rank.rank() != 0) continue;
    const NoGradGuard no_grad(rank.runtime());
    model.eval();
    const Batch batch = batch_of(rank, 100);
    rank.host().log("loss " + std::to_string(mse_loss(model(batch.x), batch.y).item()));
    model.train();
  }
}

// All ranks evaluate through the wrapper, each on its share.
void evaluation_through_the_wrapper(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 2; ++step) {
    train_step(ddp, optimizer, batch_of(rank, step));
    const NoGradGuard no_grad(rank.runtime());
    model.eval();
    const Batch batch = batch_of(rank, 100 + step);
    const double loss = summed(rank.world(), mse_loss(ddp(batch.x), batch.y).item());
    if (rank.rank() == 0) rank.host().log("loss " + std::to_string(loss / rank.world_size()));
    model.train();
  }
}

}  // namespace

std::vector<HealthyProgram> wrapper_programs() {
  return {
      // The discriminator is reduced for the real rows and again for the false ones.
      {.name = "Adversaries", .program = adversaries, .advice = "A-extra-reductions"},
      {.name = "CriticTrainedMoreOften", .program = critic_trained_more_often},
      {.name = "TwoOptimizersAndOneLoss", .program = two_optimizers_and_one_loss},
      {.name = "TrunkSharedByTwoModels", .program = trunk_shared_by_two_models<false>},
      {.name = "TrunkSharedTheOtherWayRound", .program = trunk_shared_by_two_models<true>},
      {.name = "HeadsUsedInTurn", .program = heads_used_in_turn},
      {.name = "LayersDroppedTogether", .program = layers_dropped_together},
      {.name = "FrozenLayer", .program = frozen_layer},
      {.name = "ThawedAndWrappedAgain", .program = thawed_and_wrapped_again},
      {.name = "StaticGraph", .program = static_graph},
      {.name = "PersonalHeads", .program = personal_heads},
      {.name = "LocalBatchNorm", .program = local_batch_norm},
      {.name = "BatchNormWithBroadcast", .program = batch_norm_with_broadcast},
      {.name = "AQuarterOfOneLoss", .ranks = 4, .program = a_quarter_of_one_loss},
      {.name = "SynchronisedBatchNorm", .ranks = 3, .program = synchronised_batch_norm},
      {.name = "AllReduceHook", .ranks = 3, .program = all_reduce_hook},
      {.name = "HalfPrecisionHook", .program = half_precision_hook},
      {.name = "PowerSgdHook", .program = power_sgd_hook},
      {.name = "QuantizingHook", .program = quantizing_hook},
      {.name = "MixedPrecision", .program = mixed_precision},
      {.name = "EvaluationInBetween", .program = evaluation_in_between},
      {.name = "EvaluationThroughTheWrapper", .program = evaluation_through_the_wrapper},
  };
}

}  // namespace lockstep::programs
