// Models that are divided among ranks: by columns, by the tokens of a sequence, by the rows of a table.
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "lockstep/autograd/node.h"
#include "lockstep/comm.h"
#include "lockstep/data.h"
#include "lockstep/ddp.h"
#include "lockstep/nn.h"
#include "lockstep/optim.h"

#include "tests/programs/healthy/broken_twins.h"
#include "tests/programs/healthy/healthy.h"
#include "tests/programs/training.h"

namespace lockstep::programs {

namespace {

constexpr optim::SgdOptions kSgd = {.lr = 0.125};

/// The ranks that have the same part of the model: 0 and 2, 1 and 3.
std::unique_ptr<ProcessGroup> holders_of_this_part(RankContext& rank) {
  std::unique_ptr<ProcessGroup> own;
  for (const std::int32_t part : {0, 1}) {
    const std::array<std::int32_t, 2> members = {part, part + 2};
    std::unique_ptr<ProcessGroup> group = new_group(rank.world(), members);
    if (rank.rank() % 2 == part) own = std::move(group);
  }
  return own;
}

/// The rows of an epoch, which all ranks with this `share` of two read.
std::vector<std::int64_t> rows_of_share(RankContext& rank, std::int64_t epoch, std::int64_t share) {
  data::DistributedSampler sampler(rank, {.size = 16, .replicas = 2, .rank = share});
  sampler.set_epoch(epoch);
  std::vector<std::int64_t> ids;
  sampler.indices(ids);
  return ids;
}

/// The gradient of a sum over the parts is that of each part.
class SumOfParts final : public Node {
 public:
  void run(Tensor&& grad) override { send(0, std::move(grad)); }
};

Variable sum_of_parts(RankContext& rank, const Variable& part, ProcessGroup& pair) {
  Tensor total = part.data().clone();
  pair.all_reduce(Memory::of(total)).wait_or_throw();
  Ref<Node> node = Node::make<SumOfParts>(rank.runtime());
  node->connect(0, part);
  return Node::attach(std::move(total), std::move(node));
}

/// Half of a hidden layer, dropout on what both halves give, and a last layer that both ranks of a pair have.
class HalfOfMlp final : public nn::Module {
 public:
  HalfOfMlp(
      RankContext& rank, ProcessGroup& pair, Generator& part, Generator& whole, Generator& masks)
      : Module(rank.runtime()),
        rank_(&rank),
        pair_(&pair),
        columns_(rank.runtime(), 4, 4, part),
        rows_(rank.runtime(), 4, 4, part),
        dropout_(rank.runtime(), 0.25, masks),
        last_(rank.runtime(), 4, 1, whole) {
    register_module("columns", columns_);
    register_module("rows", rows_);
    register_module("dropout", dropout_);
    register_module("last", last_);
  }

  Variable forward(const Variable& x) override {
    const Variable part = rows_(relu(columns_(x)));
    return last_(dropout_(sum_of_parts(*rank_, part, *pair_)));
  }

 private:
  RankContext* rank_;
  ProcessGroup* pair_;
  nn::Linear columns_;
  nn::Linear rows_;
  nn::Dropout dropout_;
  nn::Linear last_;
};

struct TensorParallel {
  bool masks_of_pairs = true;     ///< Else all ranks drop the same.
  bool averages_by_parts = true;  ///< Else over the world.
};

void trains_pairs(RankContext& rank, const TensorParallel& how) {
  const std::unique_ptr<ProcessGroup> pair = new_subgroups(rank.world(), 2);
  const std::unique_ptr<ProcessGroup> replicas = holders_of_this_part(rank);
  Generator part(static_cast<std::uint64_t>(1 + rank.rank() % 2));
  Generator whole(7);
  Generator masks(how.masks_of_pairs ? static_cast<std::uint64_t>(11 + rank.rank() / 2) : 11U);
  HalfOfMlp model(rank, *pair, part, whole, masks);
  DistributedDataParallel ddp(model, how.averages_by_parts ? *replicas : rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    train_step(ddp, optimizer, rows_of(rank, rows_of_share(rank, epoch, rank.rank() / 2)));
  }
}

// Two pairs divide each layer, and both ranks of a pair drop the same of the sum.
void tensor_parallel_pairs(RankContext& rank) { trains_pairs(rank, {}); }

void replicas_drop_alike(RankContext& rank) { trains_pairs(rank, {.masks_of_pairs = false}); }

void ranks_that_average_drop_alike(RankContext& rank) {
  trains_pairs(rank, {.averages_by_parts = false});
}

struct ContextParallel {
  bool by_pairs = true;  ///< Else the first ranks of both pairs read the same samples.
  bool compares = true;  ///< With the tokens of the whole pair.
};

void trains_on_halves(RankContext& rank, const ContextParallel& how) {
  const std::unique_ptr<ProcessGroup> pair = new_subgroups(rank.world(), 2);
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  const std::int32_t share = how.by_pairs ? rank.rank() / 2 : rank.rank() % 2;
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    for (const std::int64_t sequence : rows_of_share(rank, epoch, share)) {
      std::vector<std::int64_t> tokens;  // Of this rank: eight of the sequence's.
      for (std::int64_t token = 0; token < 8; ++token)
        tokens.push_back(16 * sequence + 8 * (rank.rank() % 2) + token);
      const Batch batch = rows_of(rank, tokens);
      optimizer.zero_grad();
      const Variable own = ddp(batch.x);
      const Variable compared = how.compares ? all_gather(own, *pair) : own;
      const Variable centre = scale(sum(compared), 1.0 / static_cast<double>(compared.shape()[0]));
      add(mse_loss(own, batch.y), mul(centre, centre)).backward();
      optimizer.step();
    }
  }
}

// Both ranks of a pair have half of the tokens of a sequence, and compare theirs with all.
void context_parallel_pairs(RankContext& rank) { trains_on_halves(rank, {}); }

void samples_by_place_in_pair(RankContext& rank) { trains_on_halves(rank, {.by_pairs = false}); }

void pairs_that_compute_nothing_together(RankContext& rank) {
  trains_on_halves(rank, {.compares = false});
}

/// What each rank asks of the others, and what they have asked of it. Two ids for each.
struct Asked {
  std::vector<std::int64_t> of_others;
  std::vector<std::int64_t> of_this;
};

Asked exchanged(RankContext& rank, std::int64_t step) {
  Asked asked;
  for (std::int64_t owner = 0; owner < rank.world_size(); ++owner) {
    for (std::int64_t i = 0; i < 2; ++i)
      asked.of_others.push_back((3 * step + 5 * rank.rank() + owner + 2 * i) % 4);
  }
  asked.of_this.resize(asked.of_others.size());
  rank.world()
      .all_to_all_single(Memory::of(std::span<std::int64_t>(asked.of_this)),
                         Memory::of(std::span<std::int64_t>(asked.of_others)))
      .wait_or_throw();
  return asked;
}

// A table is dealt out by id. Rows travel to the ranks that need them, and their gradients back; the rest of the model
// is replicated.
void table_that_is_dealt_out(RankContext& rank) {
  Generator part(static_cast<std::uint64_t>(5 + rank.rank()));
  nn::Embedding table(rank.runtime(), 4, 4, part);
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), kSgd);
  optim::Sgd of_table(table.parameters(), kSgd);
  for (std::int64_t step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    of_table.zero_grad();
    const Asked asked = exchanged(rank, step);
    const auto n = static_cast<std::int64_t>(asked.of_this.size());
    const std::vector<double> ids(asked.of_this.begin(), asked.of_this.end());
    const Variable served = table(Variable(Tensor::of(rank.runtime(), {n}, DType::kI64, ids)));
    const Tensor received = Tensor::empty_like(served.data());
    rank.world().all_to_all_single(Memory::of(received), Memory::of(served.data())).wait_or_throw();
    const Variable rows(received, true);
    const Batch batch = batch_of(rank, step, n);
    mse_loss(ddp(add(rows, batch.x)), batch.y).backward();
    const Tensor gradient = Tensor::empty_like(received);
    rank.world().all_to_all_single(Memory::of(gradient), Memory::of(rows.grad())).wait_or_throw();
    scale(sum(mul(served, Variable(gradient))), 1.0 / rank.world_size()).backward();
    optimizer.step();
    of_table.step();
  }
}

}  // namespace

std::vector<HealthyProgram> model_parallel_programs() {
  return {
      {.name = "TensorParallelPairs", .ranks = 4, .program = tensor_parallel_pairs},
      {.name = "ContextParallelPairs", .ranks = 4, .program = context_parallel_pairs},
      {.name = "TableThatIsDealtOut",
       .ranks = 3,
       .program = table_that_is_dealt_out,
       .advice = "A-unwrapped"},
  };
}

std::vector<BrokenTwin> model_parallel_twins() {
  return {
      {.name = "ReplicasDropAlike",
       .ranks = 4,
       .program = replicas_drop_alike,
       .law = "rng-scopes",
       .says = "rank 2, epoch 0 repeats the draws of rank 0"},
      {.name = "RanksThatAverageDropAlike",
       .ranks = 4,
       .program = ranks_that_average_drop_alike,
       .law = "rng-scopes",
       .says = "rank 1, epoch 0 repeats the draws of rank 0"},
      {.name = "SamplesByPlaceInPair",
       .ranks = 4,
       .program = samples_by_place_in_pair,
       .law = "samples-covered",
       .says = "these ranks read the same shard"},
      {.name = "PairsThatComputeNothingTogether",
       .ranks = 4,
       .program = pairs_that_compute_nothing_together,
       .law = "samples-covered",
       .says = "these ranks read the same shard"},
  };
}

}  // namespace lockstep::programs
