// State beside trained parameters, kept as it should be; checkpoints written, found and read.
#include <string>

#include "lockstep/comm.h"
#include "lockstep/ddp.h"
#include "lockstep/optim.h"

#include "tests/programs/healthy/healthy.h"
#include "tests/programs/training.h"

namespace lockstep::programs {

namespace {

constexpr optim::SgdOptions kSgd = {.lr = 0.125, .momentum = 0.5};

// Every rank averages the same parameters, so all have the same average.
void moving_average_on_every_rank(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  std::vector<Tensor> averages;
  for (const Variable& one : model.parameters()) averages.push_back(one.data().clone());
  for (std::int64_t step = 0; step < 3; ++step) {
    train_step(ddp, optimizer, batch_of(rank, step));
    for (std::size_t i = 0; i < averages.size(); ++i) {
      Kernels& kernels = rank.runtime().kernels();
      kernels.scale(averages[i], averages[i], 0.5);
      kernels.add_scaled(averages[i], averages[i], optimizer.parameters()[i].data(), 0.5);
    }
  }
}

// Rank 0 alone keeps an average, for itself.
void moving_average_on_rank_0(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  const Tensor average = model.last().weight().data().clone();
  for (std::int64_t step = 0; step < 3; ++step) {
    train_step(ddp, optimizer, batch_of(rank, step));
    if (rank.rank() != 0) continue;
    rank.runtime().kernels().add_scaled(average, average, model.last().weight().data(), 0.5);
  }
}

// The target follows the trained network, which is the same everywhere.
void target_that_follows(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  Generator again(1);
  Mlp target(rank.runtime(), again);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 3; ++step) {
    const Batch batch = batch_of(rank, step);
    optimizer.zero_grad();
    mse_loss(ddp(batch.x), target(batch.x).data()).backward();
    optimizer.step();
    const std::vector<Variable> followers = target.parameters();
    for (std::size_t i = 0; i < followers.size(); ++i) {
      const Tensor& value = followers[i].data();
      rank.runtime().kernels().scale(value, value, 0.5);
      rank.runtime().kernels().add_scaled(value, value, optimizer.parameters()[i].data(), 0.5);
    }
  }
}

std::string bytes_of(std::span<const Variable> parameters) {
  std::string bytes;
  for (const Variable& one : parameters) {
    const auto* first = static_cast<const char*>(one.data().read_raw());
    bytes.append(first, static_cast<std::size_t>(one.data().n_bytes()));
  }
  return bytes;
}

void load(std::span<const Variable> parameters, const std::string& bytes) {
  std::size_t place = 0;
  for (const Variable& one : parameters) {
    const auto n = static_cast<std::size_t>(one.data().n_bytes());
    bytes.copy(static_cast<char*>(one.data().write_raw()), n, place);
    place += n;
  }
}

// Rank 0 saves, all wait, all read the same file and go on from it.
void checkpoint_and_resume(RankContext& rank) {
  {
    Generator init(1);
    Mlp model(rank.runtime(), init);
    DistributedDataParallel ddp(model, rank.world());
    optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
    for (std::int64_t step = 0; step < 2; ++step) train_step(ddp, optimizer, batch_of(rank, step));
    if (rank.rank() == 0) save_file(rank, "ckpt/model", bytes_of(optimizer.parameters()));
    rank.world().barrier().wait_or_throw();
  }
  Generator init(2);
  Mlp model(rank.runtime(), init);
  load(model.parameters(), rank.host().files().read("ckpt/model").value());
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
  for (std::int64_t step = 2; step < 4; ++step) train_step(ddp, optimizer, batch_of(rank, step));
}

// A checkpoint is loaded on every rank into a model that is wrapped already.
void load_after_wrapping(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
  train_step(ddp, optimizer, batch_of(rank, 0));
  if (rank.rank() == 0) save_file(rank, "best/model", bytes_of(optimizer.parameters()));
  rank.world().barrier().wait_or_throw();
  train_step(ddp, optimizer, batch_of(rank, 1));
  load(optimizer.parameters(), rank.host().files().read("best/model").value());
  ddp.note_loaded();
  train_step(ddp, optimizer, batch_of(rank, 2));
}

// Rank 0 looks for a checkpoint, and all do what it has found.
void resume_decided_by_rank_0(RankContext& rank) {
  double found = 0.0;
  if (rank.rank() == 0) found = rank.host().files().read("last/model").ok() ? 1.0 : 0.0;
  rank.world().broadcast(Memory::of(std::span<double>(&found, 1)), 0).wait_or_throw();
  Generator init(found > 0.0 ? 2 : 1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  train_step(ddp, optimizer, batch_of(rank, 0));
}

// Each rank writes a file of its own: the state of its random stream.
void file_for_each_rank(RankContext& rank) {
  const std::string path = "streams/rank-" + std::to_string(rank.rank());
  const auto state = Generator(70 + static_cast<std::uint64_t>(rank.rank())).state();
  save_file(rank, path, {state.begin(), state.end()});
  const std::string read = rank.host().files().read(path).value();
  Generator masks(0);
  masks.set_state(std::vector<std::uint8_t>(read.begin(), read.end()));
  Generator init(1);
  nn::Sequential model(rank.runtime());
  model.append<nn::Linear>(4, 4, init);
  model.append<nn::Dropout>(0.5, masks);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  const Batch batch = batch_of(rank, 0);
  mse_loss(ddp(batch.x), numbers(rank, 1, 4, 4)).backward();
  optimizer.step();
}

// The optimizer is made anew for a second phase, with its own rate.
void two_phases(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  for (const double lr : {0.25, 0.0625}) {
    optim::Sgd optimizer(model.parameters(), {.lr = lr});
    for (std::int64_t step = 0; step < 2; ++step) train_step(ddp, optimizer, batch_of(rank, step));
  }
}

// All ranks halve all weights between two steps.
void weights_scaled_between_steps(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
  for (std::int64_t step = 0; step < 3; ++step) {
    train_step(ddp, optimizer, batch_of(rank, step));
    for (const Variable& one : optimizer.parameters()) {
      rank.runtime().kernels().scale(one.data(), one.data(), 0.5);
    }
  }
}

}  // namespace

std::vector<HealthyProgram> state_programs() {
  return {
      {.name = "MovingAverageOnEveryRank", .program = moving_average_on_every_rank},
      {.name = "MovingAverageOnRank0", .program = moving_average_on_rank_0},
      {.name = "TargetThatFollows", .program = target_that_follows},
      {.name = "CheckpointAndResume", .program = checkpoint_and_resume},
      {.name = "LoadAfterWrapping", .program = load_after_wrapping},
      {.name = "ResumeDecidedByRank0", .program = resume_decided_by_rank_0},
      {.name = "FileForEachRank", .program = file_for_each_rank},
      {.name = "TwoPhases", .program = two_phases},
      {.name = "WeightsScaledBetweenSteps", .program = weights_scaled_between_steps},
  };
}

}  // namespace lockstep::programs
