// The textbook loop with each kind of layer, loss, optimizer and schedule.
#include "lockstep/ddp.h"
#include "lockstep/optim.h"

#include "tests/programs/healthy/healthy.h"
#include "tests/programs/training.h"

namespace lockstep::programs {

namespace {

// Weights are drawn from the rank's own seed: wrapping replaces them by rank 0's.
void seed_by_rank_before_wrapping(RankContext& rank) {
  Generator init(static_cast<std::uint64_t>(rank.rank()));
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125, .momentum = 0.5});
  for (std::int64_t step = 0; step < 3; ++step) train_step(ddp, optimizer, batch_of(rank, step));
}

template <typename Optimizer, typename Options>
void trains_with(RankContext& rank, const Options& options) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  Optimizer optimizer(model.parameters(), options);
  for (std::int64_t step = 0; step < 3; ++step) train_step(ddp, optimizer, batch_of(rank, step));
}

void adam(RankContext& rank) { trains_with<optim::Adam>(rank, optim::AdamOptions{.lr = 0.01}); }

void adamw_with_decay(RankContext& rank) { trains_with<optim::AdamW>(rank, optim::AdamWOptions{}); }

void rmsprop(RankContext& rank) { trains_with<optim::Rmsprop>(rank, optim::RmspropOptions{}); }

void adagrad(RankContext& rank) { trains_with<optim::Adagrad>(rank, optim::AdagradOptions{}); }

// Biases decay differently from weights, and have a rate of their own.
void parameter_groups(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  std::vector<optim::ParamGroup> groups(2);
  groups[0].weight_decay = 0.01;
  groups[1].lr = 0.5;
  for (const NamedVariable& one : model.named_parameters()) {
    groups[one.name.ends_with("bias") ? 1 : 0].parameters.push_back(one.variable);
  }
  optim::Sgd optimizer(groups, {.lr = 0.125});
  for (std::int64_t step = 0; step < 3; ++step) train_step(ddp, optimizer, batch_of(rank, step));
}

template <typename Rule>
void trains_by_schedule(RankContext& rank, const Rule& rule) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
  optim::RuleLr schedule(optimizer, rule);
  for (std::int64_t step = 0; step < 6; ++step) {
    train_step(ddp, optimizer, batch_of(rank, step));
    schedule.step();
  }
}

// The rate jumps up again in the middle of the run.
void warm_restarts(RankContext& rank) {
  trains_by_schedule(rank, optim::CosineAnnealingWarmRestarts{.t_0 = 2});
}

void one_cycle(RankContext& rank) {
  trains_by_schedule(
      rank, optim::OneCycleLr{.max_lr = {0.25}, .total_steps = 7, .cycle_momentum = false});
}

// A plateau rule that is fed with the mean loss of all ranks.
void plateau_on_the_mean_loss(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
  optim::ReduceLrOnPlateau plateau(optimizer, {.factor = 0.5, .patience = 0});
  for (std::int64_t step = 0; step < 4; ++step) {
    const double loss = train_step(ddp, optimizer, batch_of(rank, step));
    plateau.step(summed(rank.world(), loss) / rank.world_size());
  }
}

// Images, filters and pools, and a loss over classes.
void convolutions(RankContext& rank) {
  Generator init(1);
  nn::Sequential model(rank.runtime());
  model.append<nn::Unflatten>(Shape{1, 4, 4});
  model.append<nn::Conv2d>(1, 2, init, nn::Conv2dOptions{.padding = 1});
  model.append<nn::BatchNorm2d>(2);
  model.append<nn::ReLU>();
  model.append<nn::MaxPool2d>(nn::tile(2));
  model.append<nn::Flatten>();
  model.append<nn::Linear>(8, 3, init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
  const nn::CrossEntropyLoss criterion;
  const Tensor labels =
      Tensor::of(rank.runtime(), {3}, DType::kI64, std::vector<double>{0.0, 1.0, 2.0});
  for (std::int64_t step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    criterion(ddp(Variable(numbers(rank, step, 3, 16))), labels).backward();
    optimizer.step();
  }
}

// A transformer whose head uses the token table, with dropout from a stream of the rank's own.
void tied_transformer_with_dropout(RankContext& rank) {
  nn::Gpt model(rank.runtime(),
                {.vocab = 5, .context = 4, .layers = 1, .heads = 2, .width = 8, .dropout = 0.25});
  Generator init(1);
  model.reset_parameters(init);
  model.dropout_generator() = Generator(100 + static_cast<std::uint64_t>(rank.rank()));
  DistributedDataParallel ddp(model, rank.world());
  optim::AdamW optimizer(model.parameters(), optim::AdamWOptions{});
  for (std::int64_t step = 0; step < 2; ++step) {
    std::vector<double> tokens;
    for (std::int64_t i = 0; i < 8; ++i)
      tokens.push_back(static_cast<double>((i + rank.rank() + step) % 5));
    const Tensor text = Tensor::of(rank.runtime(), {2, 4}, DType::kI64, tokens);
    optimizer.zero_grad();
    cross_entropy(ddp(Variable(text)), text.reshape({8})).backward();
    optimizer.step();
  }
}

// The gradient of a large table lists the rows that were read.
void sparse_embedding(RankContext& rank) {
  Generator init(1);
  nn::Sequential model(rank.runtime());
  model.append<nn::Embedding>(6, 4, init, nn::EmbeddingOptions{.sparse = true});
  DistributedDataParallel ddp(model, rank.world());
  optim::SparseAdam optimizer(model.parameters(), {});
  for (std::int64_t step = 0; step < 2; ++step) {
    const std::vector<double> ids = {static_cast<double>(rank.rank() + step), 4.0};
    const Variable rows(Tensor::of(rank.runtime(), {2}, DType::kI64, ids));
    optimizer.zero_grad();
    mse_loss(ddp(rows), numbers(rank, step, 2, 4)).backward();
    optimizer.step();
  }
}

// The mean absolute error, over a layer norm.
void layer_norm_and_l1(RankContext& rank) {
  Generator init(1);
  nn::Sequential model(rank.runtime());
  model.append<nn::Linear>(4, 4, init);
  model.append<nn::LayerNorm>(4);
  model.append<nn::Linear>(4, 1, init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
  const nn::L1Loss criterion;
  for (std::int64_t step = 0; step < 3; ++step) {
    const Batch batch = batch_of(rank, step);
    optimizer.zero_grad();
    criterion(ddp(batch.x), batch.y).backward();
    optimizer.step();
  }
}

// Activations are computed again in the backward.
void checkpointed_activations(RankContext& rank) {
  Generator init(1);
  nn::Sequential model(rank.runtime());
  model.append<nn::Linear>(4, 4, init);
  model.append<nn::Tanh>();
  model.append<nn::Linear>(4, 1, init);
  model.checkpoint_modules(false);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
  for (std::int64_t step = 0; step < 2; ++step) train_step(ddp, optimizer, batch_of(rank, step));
}

}  // namespace

std::vector<HealthyProgram> plain_programs() {
  return {
      {.name = "SeedByRankBeforeWrapping", .ranks = 4, .program = seed_by_rank_before_wrapping},
      {.name = "Adam", .program = adam},
      {.name = "AdamWWithDecay", .program = adamw_with_decay},
      {.name = "RmsProp", .program = rmsprop},
      {.name = "Adagrad", .program = adagrad},
      {.name = "ParameterGroups", .program = parameter_groups},
      {.name = "WarmRestarts", .program = warm_restarts},
      {.name = "OneCycle", .program = one_cycle},
      {.name = "PlateauOnTheMeanLoss", .ranks = 3, .program = plateau_on_the_mean_loss},
      {.name = "Convolutions", .program = convolutions},
      {.name = "TiedTransformerWithDropout", .program = tied_transformer_with_dropout},
      {.name = "SparseEmbedding", .program = sparse_embedding},
      {.name = "LayerNormAndL1", .program = layer_norm_and_l1},
      {.name = "CheckpointedActivations", .program = checkpointed_activations},
  };
}

}  // namespace lockstep::programs
