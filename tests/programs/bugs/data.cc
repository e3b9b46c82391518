// Samples, labels, random streams and metrics that are not what they seem.
#include "lockstep/data.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>

#include "lockstep/comm.h"
#include "lockstep/ddp.h"
#include "lockstep/optim.h"
#include "lockstep/random/discrete.h"

#include "tests/programs/bugs/bug.h"
#include "tests/programs/training.h"

namespace lockstep::programs {

namespace {

// Ten samples on four ranks are padded to twelve, and the sums count two of them twice.
void padding_counted(RankContext& rank, Form form) {
  constexpr std::int64_t kSize = 10;
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
  data::DistributedSampler held_out(rank, {.size = kSize, .shuffle = false, .split = "val"});
  for (std::int64_t step = 0; step < 2; ++step) {
    train_step(ddp, optimizer, batch_of(rank, step));
    model.eval();
    const NoGradGuard no_grad(rank.runtime());
    std::vector<std::int64_t> ids;
    held_out.indices(ids);
    const auto place_of_last = [&] {
      return rank.rank() + (std::ssize(ids) - 1) * rank.world_size();
    };
    while (form.fixed && place_of_last() >= kSize) ids.pop_back();
    const Batch batch = rows_of(rank, ids);
    const Variable out = model(batch.x);
    std::array<double, 2> sums = {0.0, static_cast<double>(ids.size())};
    for (std::int64_t i = 0; i < std::ssize(ids); ++i) {
      sums[0] += std::abs(out.data().at(i) - batch.y.at(i));
    }
    rank.world().all_reduce(Memory::of(sums)).wait_or_throw();
    model.train();
  }
}

// One stream decides for all ranks which head a step trains, and rank 1 also takes a number from
// it when a row of its own must be replaced: from then on the ranks choose different heads.
void rng_shared_skewed(RankContext& rank, Form form) {
  Generator init(1);
  nn::TwoHead model(rank.runtime(), {.in = 4, .hidden = 4, .out = 1});
  model.reset_parameters(init);
  DistributedDataParallel ddp(model, rank.world(), {.find_unused_parameters = true});
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
  Generator choices(7);
  Generator own(100 + static_cast<std::uint64_t>(rank.rank()));
  for (std::int64_t step = 0; step < 4; ++step) {
    if (form.annotated) rank.annotate().stream("heads", choices, StreamScope::kShared);
    model.use(choices.random() % 2 == 0 ? nn::Heads::kA : nn::Heads::kB);
    const Batch batch = batch_of(rank, step);
    const bool damaged = rank.rank() == 1 && step == 1;
    if (damaged) {
      Generator& replacements = form.fixed ? own : choices;
      const auto row = static_cast<std::int64_t>(replacements.random() % 4);
      rank.runtime().kernels().copy(batch.x.data().rows(0, 1), batch.x.data().rows(row, 1));
    }
    train_step(ddp, optimizer, batch);
  }
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

// A set of words in the order of a hash that each process salts for itself.
std::vector<std::string> words_of_the_set(std::uint64_t salt) {
  std::vector<std::string> words = {"ant", "bee", "cat", "dog"};
  std::sort(words.begin(), words.end(), [salt](const std::string& a, const std::string& b) {
    return Generator(salt + static_cast<std::uint64_t>(a[0])).random() <
           Generator(salt + static_cast<std::uint64_t>(b[0])).random();
  });
  return words;
}

// The vocabulary is numbered in the order of a set, which is another one in every process: the same
// word is row 0 of the table on one rank and row 3 on the other.
void hash_order_ids(RankContext& rank, Form form) {
  std::vector<std::string> vocabulary =
      words_of_the_set(1 + static_cast<std::uint64_t>(rank.rank()));
  if (form.fixed) std::sort(vocabulary.begin(), vocabulary.end());
  if (form.annotated) rank.annotate().configuration("vocabulary", joined(vocabulary));
  const auto id_of = [&vocabulary](const std::string& word) {
    return static_cast<double>(std::find(vocabulary.begin(), vocabulary.end(), word) -
                               vocabulary.begin());
  };

  Generator init(1);
  nn::Embedding table(rank.runtime(), 4, 1, init);
  DistributedDataParallel ddp(table, rank.world());
  optim::Sgd optimizer(table.parameters(), {.lr = 0.125});
  const std::vector<double> ids = {id_of("cat"), id_of("dog")};
  const Variable text(Tensor::of(rank.runtime(), {2}, DType::kI64, ids));
  train_step(ddp, optimizer, {text, numbers(rank, 0, 2, 1)});
}

// What the disk of each machine lists, in the order in which it happens to keep the names.
std::vector<std::string> listed_shards(std::int32_t rank) {
  std::vector<std::string> files = {"shard-0", "shard-1", "shard-2", "shard-3"};
  if (rank == 1) std::reverse(files.begin(), files.end());
  return files;
}

// Sample i is a row of file i, and the lists of files differ: the ranks' shares overlap although
// their indices do not.
void file_order_differs(RankContext& rank, Form form) {
  std::vector<std::string> files = listed_shards(rank.rank());
  if (form.fixed) std::sort(files.begin(), files.end());
  if (form.annotated) rank.annotate().configuration("files", joined(files));

  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
  const data::DistributedSampler sampler(rank, {.size = 4, .shuffle = false});
  std::vector<std::int64_t> mine;
  sampler.indices(mine);
  for (const std::int64_t index : mine) {
    const std::int64_t row = files[static_cast<std::size_t>(index)].back() - '0';
    train_step(ddp, optimizer, rows_of(rank, {row}));
  }
}

// Draws a mask for every sample, in the worker that reads it.
class MaskedRows final : public data::SampleReader {
 public:
  MaskedRows(RankContext& rank, bool by_rank) : rank_(rank.rank()), by_rank_(by_rank) {}

  void init(data::Worker& worker) override {
    const std::int64_t process = by_rank_ ? rank_ * worker.count + worker.id : worker.id;
    worker.generator->manual_seed(static_cast<std::uint64_t>(process));
  }

  void read(std::int64_t /*index*/, data::Worker& worker, data::LoadedBatch& batch) override {
    std::vector<double> mask(4);
    bernoulli(*worker.generator, mask, 0.5);
    batch.values.insert(batch.values.end(), mask.begin(), mask.end());
  }

 private:
  std::int32_t rank_;
  bool by_rank_;
};

// Workers are seeded by their own number, which starts at 0 on every rank.
void worker_seed_clones_ranks(RankContext& rank, Form form) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
  const data::DistributedSampler order(rank, {.size = 8});
  data::RankSampler sampler(order);
  MaskedRows reader(rank, form.fixed);
  Generator global(3);
  auto loader = data::DataLoader::make(
                    {.batch_size = 2, .num_workers = 1, .global = &global}, sampler, reader)
                    .value();
  loader.begin();
  for (data::LoadedBatch loaded; loader.next(loaded);) {
    Batch batch = rows_of(rank, loaded.ids);
    const Tensor mask = Tensor::of(rank.runtime(), {2, 4}, DType::kF32, loaded.values);
    rank.runtime().kernels().mul(batch.x.data(), batch.x.data(), mask);
    train_step(ddp, optimizer, batch);
  }
}

// The epoch is set at the end of the loop's body: the second one has the order of the first.
void epoch_set_late(RankContext& rank, Form form) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
  data::DistributedSampler sampler(rank, {.size = 24});
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    if (form.fixed) sampler.set_epoch(epoch);
    std::vector<std::int64_t> mine;
    sampler.indices(mine);
    for (std::size_t i = 0; i < mine.size(); i += 4) {
      const auto first = mine.begin() + static_cast<std::ptrdiff_t>(i);
      train_step(ddp, optimizer, rows_of(rank, std::vector<std::int64_t>(first, first + 4)));
    }
    if (!form.fixed) sampler.set_epoch(epoch);
  }
}

// A sampler for pairs of ranks. Each pair is to train a model of its own, and one wrapper averages over all of
// them: both pairs read the same shards for it.
void shards_of_pairs(RankContext& rank, Form form) {
  const std::unique_ptr<ProcessGroup> pair = new_subgroups(rank.world(), 2);
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, form.fixed ? *pair : rank.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
  const std::int64_t seed = form.fixed ? rank.rank() / 2 : 0;
  data::DistributedSampler sampler(
      rank, {.size = 24, .replicas = pair->size(), .rank = pair->rank(), .seed = seed});
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    sampler.set_epoch(epoch);
    std::vector<std::int64_t> samples;
    sampler.indices(samples);
    for (auto first = samples.begin(); first != samples.end(); first += 4) {
      train_step(ddp, optimizer, rows_of(rank, std::vector<std::int64_t>(first, first + 4)));
    }
  }
}

// Three samples on two ranks: the mean over ranks of the ranks' means counts rank 1's only sample
// as much as rank 0's two.
void avg_of_avgs(RankContext& rank, Form form) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  const DistributedDataParallel ddp(model, rank.world());
  model.eval();
  const NoGradGuard no_grad(rank.runtime());
  const std::vector<std::int64_t> share =
      rank.rank() == 0 ? std::vector<std::int64_t>{0, 1} : std::vector<std::int64_t>{2};
  std::vector<double> losses;
  for (const std::int64_t sample : share) {
    const Batch batch = rows_of(rank, {sample});
    losses.push_back(mse_loss(ddp.module().forward(batch.x), batch.y).item());
  }
  const auto n = static_cast<double>(losses.size());
  const double sum = std::accumulate(losses.begin(), losses.end(), 0.0);
  const double numerator = summed(rank.world(), form.fixed ? sum : sum / n);
  const double denominator = form.fixed ? summed(rank.world(), n) : rank.world_size();
  const double reported = numerator / denominator;
  if (form.annotated) {
    rank.annotate().samples(share, "eval");
    rank.annotate().metric(
        "loss",
        {.value = reported, .numerator = numerator, .denominator = denominator, .parts = losses});
  }
  rank.host().log("epoch loss " + std::to_string(reported));
}

}  // namespace

std::vector<Bug> data_bugs() {
  return {
      {.id = "padding-counted",
       .ranks = 4,
       .program = padding_counted,
       .expected = {.law = "A-padding-counted", .says = "repeats 2 of its"}},
      {.id = "rng-shared-skewed",
       .program = rng_shared_skewed,
       .expected = {.law = "rng-scopes", .cause = "rng-not-shared", .ranks = {1}, .step = 2},
       .has_annotated_form = true},
      {.id = "hash-order-ids",
       .program = hash_order_ids,
       .expected = {.law = "environment-bijective", .cause = "configuration-differs", .ranks = {1}},
       .has_annotated_form = true},
      {.id = "file-order-differs",
       .program = file_order_differs,
       .expected = {.law = "environment-bijective", .cause = "configuration-differs", .ranks = {1}},
       .has_annotated_form = true},
      {.id = "worker-seed-clones-ranks",
       .program = worker_seed_clones_ranks,
       .expected = {.law = "rng-scopes", .cause = "rng-same-dropout", .ranks = {0, 1}}},
      {.id = "epoch-set-late",
       .program = epoch_set_late,
       .expected = {.law = "A-epoch-set-late", .says = "the second from step 3"}},
      {.id = "shards-of-pairs",
       .ranks = 4,
       .program = shards_of_pairs,
       .expected = {.law = "samples-covered",
                    .cause = "local-rank-as-rank",
                    .ranks = {0, 1, 2, 3},
                    .step = 0}},
      {.id = "avg-of-avgs",
       .program = avg_of_avgs,
       .expected = {.law = "metric-true", .cause = "prereduced-metric"},
       .has_annotated_form = true},
  };
}

}  // namespace lockstep::programs
