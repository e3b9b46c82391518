// Samplers, loaders, random streams and metrics, used as their documentation says.
#include "lockstep/data.h"

#include "lockstep/comm.h"
#include "lockstep/ddp.h"
#include "lockstep/optim.h"
#include "lockstep/random/discrete.h"

#include "tests/programs/healthy/healthy.h"
#include "tests/programs/training.h"

namespace lockstep::programs {

namespace {

constexpr optim::SgdOptions kSgd = {.lr = 0.125};

class Rows final : public data::SampleReader {
 public:
  void read(std::int64_t, data::Worker&, data::LoadedBatch&) override {}
};

// Two epochs over a shuffled set that the ranks share, one row short of even: it is padded.
void epochs_of_a_shared_order(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  data::DistributedSampler order(rank, {.size = 47});
  data::RankSampler sampler(order);
  Rows reader;
  Generator global(3);
  auto loader =
      data::DataLoader::make({.batch_size = 8, .global = &global}, sampler, reader).value();
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    order.set_epoch(epoch);
    loader.begin();
    for (data::LoadedBatch loaded; loader.next(loaded);) {
      train_step(ddp, optimizer, rows_of(rank, loaded.ids));
    }
  }
}

// Flips signs at random, by the worker's own generator.
class FlippedRows final : public data::SampleReader {
 public:
  void read(std::int64_t, data::Worker& worker, data::LoadedBatch& batch) override {
    std::vector<double> coin(1);
    bernoulli(*worker.generator, coin, 0.5);
    batch.values.push_back(1.0 - 2.0 * coin[0]);
  }
};

// Each process is seeded by its rank, and its workers draw from streams of their own.
void augmentation_in_workers(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  data::DistributedSampler order(rank, {.size = 16});
  data::RankSampler sampler(order);
  FlippedRows reader;
  Generator global(500 + static_cast<std::uint64_t>(rank.rank()));
  auto loader = data::DataLoader::make(
                    {.batch_size = 2, .num_workers = 2, .global = &global}, sampler, reader)
                    .value();
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    order.set_epoch(epoch);
    loader.begin();
    for (data::LoadedBatch loaded; loader.next(loaded);) {
      Batch batch = rows_of(rank, loaded.ids);
      for (std::size_t i = 0; i < loaded.values.size(); ++i) {
        const Tensor row = batch.x.data().rows(static_cast<std::int64_t>(i), 1);
        rank.runtime().kernels().scale(row, row, loaded.values[i]);
      }
      train_step(ddp, optimizer, batch);
    }
  }
}

// A rank's share is drawn with replacement, by weight, from a stream of its own.
void weighted_samples(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  Generator own(900 + static_cast<std::uint64_t>(rank.rank()));
  const std::vector<double> weights = {1.0, 2.0, 3.0, 4.0};
  auto sampler =
      data::WeightedRandomSampler::make({.weights = weights, .count = 6}, {.global = &own}).value();
  Rows reader;
  auto loader = data::DataLoader::make({.batch_size = 3, .global = &own}, sampler, reader).value();
  loader.begin();
  for (data::LoadedBatch loaded; loader.next(loaded);) {
    train_step(ddp, optimizer, rows_of(rank, loaded.ids));
  }
}

// A stream that is divided by rank and by worker.
class DividedStream final : public data::StreamReader {
 public:
  explicit DividedStream(RankContext& rank) : rank_(rank.rank()), ranks_(rank.world_size()) {}

  std::unique_ptr<data::StreamPass> iterate(data::Worker& worker) override {
    const std::int64_t place = rank_ * worker.count + worker.id;
    return std::make_unique<Pass>(place, ranks_ * worker.count);
  }

 private:
  class Pass final : public data::StreamPass {
   public:
    Pass(std::int64_t first, std::int64_t stride) : next_(first), stride_(stride) {}

    bool next(data::Worker&, data::LoadedBatch& batch) override {
      if (next_ >= 16) return false;
      batch.ids.push_back(next_);
      next_ += stride_;
      return true;
    }

   private:
    std::int64_t next_;
    std::int64_t stride_;
  };

  std::int64_t rank_;
  std::int64_t ranks_;
};

void stream_divided_by_rank_and_worker(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  DividedStream stream(rank);
  Generator global(3);
  auto loader =
      data::DataLoader::make({.batch_size = 2, .num_workers = 2, .global = &global}, stream)
          .value();
  loader.begin();
  for (data::LoadedBatch loaded; loader.next(loaded);) {
    train_step(ddp, optimizer, rows_of(rank, loaded.ids));
  }
}

// Validation rows are set aside with one seed before the rest is dealt to ranks.
void holdout_split_and_exact_metric(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  const data::Split split = data::holdout_split(12, 5, 3).value();
  std::vector<std::int64_t> share;
  const data::DistributedSampler sampler(rank,
                                         {.size = static_cast<std::int64_t>(split.train.size())});
  sampler.indices(share);
  for (const std::int64_t index : share) {
    train_step(ddp, optimizer, rows_of(rank, {split.train[static_cast<std::size_t>(index)]}));
  }

  model.eval();
  const NoGradGuard no_grad(rank.runtime());
  double squares = 0.0;
  double n = 0.0;
  for (std::size_t i = static_cast<std::size_t>(rank.rank()); i < split.holdout.size();
       i += static_cast<std::size_t>(rank.world_size())) {
    const Batch batch = rows_of(rank, {split.holdout[i]});
    squares += mse_loss(model(batch.x), batch.y, 1.0).item();
    n += 1.0;
  }
  const double mean = summed(rank.world(), squares) / summed(rank.world(), n);
  if (rank.rank() == 0) rank.host().log("holdout loss " + std::to_string(mean));
}

// Every rank evaluates the whole set, and rank 0 reports it.
void whole_set_evaluated_everywhere(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  train_step(ddp, optimizer, batch_of(rank, 0));
  model.eval();
  const NoGradGuard no_grad(rank.runtime());
  const Batch batch = rows_of(rank, {0, 1, 2, 3});
  const double loss = mse_loss(model(batch.x), batch.y).item();
  if (rank.rank() == 0) rank.host().log("loss " + std::to_string(loss));
}

// Masks differ between ranks, since each seeds its own stream.
void dropout_from_private_streams(RankContext& rank) {
  Generator init(1);
  Generator masks(200 + static_cast<std::uint64_t>(rank.rank()));
  nn::Sequential model(rank.runtime());
  model.append<nn::Linear>(4, 8, init);
  model.append<nn::Dropout>(0.5, masks);
  model.append<nn::Linear>(8, 1, init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 3; ++step) train_step(ddp, optimizer, batch_of(rank, step));
}

// Two dropout layers share a stream, as those of a PyTorch process do.
void two_dropout_layers_on_one_stream(RankContext& rank) {
  Generator init(1);
  Generator masks(200 + static_cast<std::uint64_t>(rank.rank()));
  nn::Sequential model(rank.runtime());
  model.append<nn::Dropout>(0.25, masks);
  model.append<nn::Linear>(4, 8, init);
  model.append<nn::Dropout>(0.5, masks);
  model.append<nn::Linear>(8, 1, init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t step = 0; step < 3; ++step) train_step(ddp, optimizer, batch_of(rank, step));
}

// A length that all ranks draw from one stream, and noise that each draws from its own.
void shared_length_and_private_noise(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  Generator lengths(11);
  Generator noise(300 + static_cast<std::uint64_t>(rank.rank()));
  for (std::int64_t step = 0; step < 3; ++step) {
    const auto rows = static_cast<std::int64_t>(1 + lengths.random() % 4);
    const Batch batch = batch_of(rank, step, rows);
    std::vector<double> coin(1);
    bernoulli(noise, coin, 0.5);
    rank.runtime().kernels().scale(batch.x.data(), batch.x.data(), 1.0 + coin[0]);
    train_step(ddp, optimizer, batch);
  }
}

}  // namespace

std::vector<HealthyProgram> data_programs() {
  return {
      {.name = "EpochsOfASharedOrder", .program = epochs_of_a_shared_order},
      {.name = "AugmentationInWorkers", .program = augmentation_in_workers},
      {.name = "WeightedSamples", .program = weighted_samples},
      {.name = "StreamDividedByRankAndWorker", .program = stream_divided_by_rank_and_worker},
      {.name = "HoldoutSplitAndExactMetric", .program = holdout_split_and_exact_metric},
      {.name = "WholeSetEvaluatedEverywhere", .program = whole_set_evaluated_everywhere},
      {.name = "DropoutFromPrivateStreams", .program = dropout_from_private_streams},
      {.name = "TwoDropoutLayersOnOneStream", .program = two_dropout_layers_on_one_stream},
      {.name = "SharedLengthAndPrivateNoise", .program = shared_length_and_private_noise},
  };
}

}  // namespace lockstep::programs
