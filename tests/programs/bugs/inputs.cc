// Rows that programs pick or draw by themselves, without a sampler that would say which ones they are.
#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>
#include <span>

#include "lockstep/comm.h"
#include "lockstep/data.h"
#include "lockstep/ddp.h"
#include "lockstep/optim.h"
#include "lockstep/random/normal.h"
#include "lockstep/random/permutation.h"

#include "tests/programs/bugs/bug.h"
#include "tests/programs/training.h"

namespace lockstep::programs {

namespace {

using Samples = std::vector<std::int64_t>;

constexpr std::int64_t kSize = 96;
constexpr std::int64_t kBatch = 4;
constexpr std::int64_t kColumns = 4;

/// One of the rank's own.
std::uint64_t seed_of(RankContext& rank) { return 7 + static_cast<std::uint64_t>(rank.rank()); }

/// Numbers that a generator draws.
Tensor drawn(RankContext& rank, Generator& generator, std::int64_t rows) {
  const Tensor values = Tensor::empty(rank.runtime(), {rows, kColumns}, DType::kF32);
  normal(generator, values.write_span<float>());
  return values;
}

/// Every n-th of them, from `first` on.
Samples every(const Samples& samples, std::int64_t n, std::int64_t first) {
  Samples own;
  for (std::int64_t i = first; i < std::ssize(samples); i += n)
    own.push_back(samples[static_cast<std::size_t>(i)]);
  return own;
}

/// The rows of a data set with these numbers.
Tensor picked(RankContext& rank, const Tensor& all, std::span<const std::int64_t> ids) {
  const Tensor x = Tensor::empty(rank.runtime(), {std::ssize(ids), kColumns}, DType::kF32);
  auto out = x.write_span<float>().begin();
  for (const std::int64_t id : ids) {
    const auto row = all.read_span<float>().subspan(static_cast<std::size_t>(id * kColumns),
                                                    static_cast<std::size_t>(kColumns));
    out = std::ranges::copy(row, out).out;
  }
  return x;
}

/// A pass over these samples of a data set that is the same on every rank: each is to have the sum of its row.
template <typename Ddp>
void train_on(RankContext& rank, Ddp& ddp, optim::Sgd& optimizer, const Samples& own) {
  Generator of_data(3);
  const Tensor all = drawn(rank, of_data, kSize);
  for (std::size_t first = 0; first < own.size(); first += kBatch) {
    const Tensor x = Tensor::empty(rank.runtime(), {kBatch, kColumns}, DType::kF32);
    const Tensor y = Tensor::empty(rank.runtime(), {kBatch, 1}, DType::kF32);
    for (std::int64_t i = 0; i < kBatch; ++i) {
      const std::span<const float> row = all.read_span<float>().subspan(
          static_cast<std::size_t>(own[first + static_cast<std::size_t>(i)] * kColumns), kColumns);
      std::ranges::copy(row, x.write_span<float>().begin() + i * kColumns);
      y.write_span<float>()[static_cast<std::size_t>(i)] =
          std::accumulate(row.begin(), row.end(), 0.0F);
    }
    train_step(ddp, optimizer, {Variable(x), y});
  }
}

// Each rank takes its part of an order that it shuffles by a seed of its own: parts overlap.
void order_of_its_own(RankContext& rank, Form form) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
  Generator shuffle(form.fixed ? 7 : seed_of(rank));
  for (int epoch = 0; epoch < 3; ++epoch)
    train_on(rank, ddp, optimizer, every(randperm(shuffle, kSize), rank.world_size(), rank.rank()));
}

// Two nodes of two ranks: each rank takes its part by its place in the node.
void place_in_the_node(RankContext& rank, Form form) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
  Generator shuffle(7);
  const std::int64_t n = form.fixed ? rank.world_size() : 2;
  train_on(rank, ddp, optimizer, every(randperm(shuffle, kSize), n, rank.rank() % n));
}

// Two linear layers that learn which noise was added to rows. All ranks draw it by one seed.
void noise_of_one_seed(RankContext& rank, Form form) {
  Generator init(1);
  nn::Sequential model(rank.runtime());
  model.append<nn::Linear>(kColumns, 8, init);
  model.append<nn::ReLU>();
  model.append<nn::Linear>(8, kColumns, init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
  Generator of_noise(form.fixed ? seed_of(rank) : 7);
  for (std::int64_t step = 0; step < 4; ++step) {
    const Tensor noise = drawn(rank, of_noise, kBatch);
    const Variable noised = add(batch_of(rank, step).x, Variable(noise));
    optimizer.zero_grad();
    mse_loss(ddp(noised), noise).backward();
    optimizer.step();
  }
}

// Each rank has read its part of the files, and a sampler divides that part among the ranks once more.
void sharded_twice(RankContext& rank, Form form) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
  Generator of_data(form.fixed ? 3 : seed_of(rank));  // Repaired, each rank reads all files.
  const Tensor held = drawn(rank, of_data, kSize);
  data::DistributedSampler sampler(rank, {.size = kSize});
  std::vector<std::int64_t> own;
  for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
    sampler.set_epoch(epoch);
    sampler.indices(own);
    for (std::size_t first = 0; first < own.size(); first += kBatch) {
      const Tensor x = picked(rank, held, std::span(own).subspan(first, kBatch));
      const Tensor y = Tensor::full(rank.runtime(), {kBatch, 1}, DType::kF32, 1.0);
      train_step(ddp, optimizer, {Variable(x), y});
    }
  }
}

// Scores of a rank's rows against those of all ranks: the partner of row i of rank r is row r * kBatch + i.
void labels_not_offset(RankContext& rank, Form form) {
  Generator init(1);
  nn::Linear tower(rank.runtime(), kColumns, 16, init);
  DistributedDataParallel ddp(tower, rank.world());
  optim::Sgd optimizer(tower.parameters(), {.lr = 0.25});
  Generator of_rows(seed_of(rank));
  const Tensor labels = Tensor::empty(rank.runtime(), {kBatch}, DType::kI64);
  for (std::int64_t i = 0; i < kBatch; ++i) {
    labels.write_span<std::int64_t>()[static_cast<std::size_t>(i)] =
        i + (form.fixed ? rank.rank() * kBatch : 0);
  }
  for (int step = 0; step < 40; ++step) {
    const Tensor x = drawn(rank, of_rows, kBatch);
    const Variable own = ddp(Variable(x));
    optimizer.zero_grad();
    cross_entropy(linear(own, all_gather(own, rank.world()), Variable()), labels).backward();
    optimizer.step();
  }
}

/// The class of each row that a rank holds: 1 comes more often on higher ranks.
Samples classes_of(std::int32_t rank) {
  Samples classes;
  for (std::int64_t i = 0; i < kSize / 2; ++i) classes.push_back(i % 8 <= 1 + rank ? 1 : 0);
  return classes;
}

/// PyTorch users' usual balance: all rows over twice the rows of a class.
Tensor balanced(RankContext& rank, const Samples& classes) {
  const auto all = static_cast<double>(classes.size());
  const auto ones = static_cast<double>(std::ranges::count(classes, 1));
  const std::array weights{all / (2.0 * (all - ones)), all / (2.0 * ones)};
  return Tensor::of(rank.runtime(), {2}, DType::kF32, weights);
}

// A classifier of two classes, which count by how often they come: in a rank's own rows.
void class_weights_per_rank(RankContext& rank, Form form) {
  Generator init(1);
  nn::Linear model(rank.runtime(), kColumns, 2, init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
  const Samples own = classes_of(rank.rank());
  Samples counted = own;
  if (form.fixed) {
    counted.clear();
    for (std::int32_t other = 0; other < rank.world_size(); ++other)
      std::ranges::copy(classes_of(other), std::back_inserter(counted));
  }
  const nn::CrossEntropyLoss loss_of(balanced(rank, counted));
  Generator of_rows(seed_of(rank));
  for (std::size_t first = 0; first < own.size(); first += 2 * kBatch) {
    const Tensor x = drawn(rank, of_rows, 2 * kBatch);
    const Tensor y = Tensor::empty(rank.runtime(), {2 * kBatch}, DType::kI64);
    std::ranges::copy(std::span(own).subspan(first, 2 * kBatch),
                      y.write_span<std::int64_t>().begin());
    optimizer.zero_grad();
    loss_of(ddp(Variable(x)), y).backward();
    optimizer.step();
  }
}

}  // namespace

std::vector<Bug> input_bugs() {
  return {
      {.id = "order-of-its-own",
       .program = order_of_its_own,
       .expected = {.law = "A-rows-shared", .says = "were already read by another rank"}},
      {.id = "place-in-the-node",
       .ranks = 4,
       .program = place_in_the_node,
       .expected = {.law = "A-rows-shared", .says = "ranks 0, 2 train on the same rows"}},
      {.id = "noise-of-one-seed",
       .program = noise_of_one_seed,
       .expected = {.law = "A-same-inputs", .says = "the targets of the loss of wrapper 0"}},
      {.id = "sharded-twice",
       .program = sharded_twice,
       .expected = {.law = "A-samples-differ", .says = "a sample index means a different row"}},
      {.id = "labels-not-offset",
       .program = labels_not_offset,
       .expected = {.law = "A-targets-not-offset", .says = "gathered from all 2 ranks"}},
      {.id = "class-weights-per-rank",
       .program = class_weights_per_rank,
       .expected = {.law = "A-losses-differ", .says = "cross_entropy with class weights #"}},
  };
}

}  // namespace lockstep::programs
