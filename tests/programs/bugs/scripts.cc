// Mistakes of whole training scripts: who writes a file, whose number is printed.
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "lockstep/comm.h"
#include "lockstep/data.h"
#include "lockstep/ddp.h"
#include "lockstep/optim.h"

#include "tests/programs/bugs/bug.h"
#include "tests/programs/training.h"

namespace lockstep::programs {

namespace {

// Every rank saves the snapshot, each over the others' file: the last one to write wins, and a reader may find
// a file that two of them have written. Repaired, rank 0 saves.
void many_writers(RankContext& rank, Form form) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
  train_step(ddp, optimizer, batch_of(rank, 0));
  const bool writes = rank.rank() == 0 || !form.fixed;
  if (writes) save_file(rank, "out/snapshot.pt", "EPOCHS_RUN 1");
  if (writes && form.annotated)
    rank.annotate().snapshot(SnapshotAction::kPart, 1, "out/snapshot.pt", 1);
}

// Four samples on two ranks; what rank 0 prints as the loss is that of its own two.
void local_metric_logged(RankContext& rank, Form form) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  const DistributedDataParallel ddp(model, rank.world());
  model.eval();
  const NoGradGuard no_grad(rank.runtime());
  const std::vector<std::int64_t> share = {rank.rank(), rank.rank() + 2};
  std::vector<double> losses;
  for (const std::int64_t sample : share) {
    const Batch batch = rows_of(rank, {sample});
    losses.push_back(mse_loss(ddp.module().forward(batch.x), batch.y).item());
  }
  const auto n = static_cast<double>(losses.size());
  const double sum = std::accumulate(losses.begin(), losses.end(), 0.0);
  const double numerator = form.fixed ? summed(rank.world(), sum) : sum;
  const double denominator = form.fixed ? summed(rank.world(), n) : n;
  if (form.annotated) {
    rank.annotate().samples(share, "eval");
    rank.annotate().metric("loss",
                           {.value = numerator / denominator,
                            .numerator = numerator,
                            .denominator = denominator,
                            .parts = losses});
  }
  if (rank.rank() == 0) rank.host().log("epoch loss " + std::to_string(numerator / denominator));
}

// Rank 0 keeps the best model by the loss on its own share of the validation set. Repaired, the ranks' losses are
// added up. The sum over an epoch's training losses, which both print, is nothing of the validation.
void evaluated_apart(RankContext& rank, Form form) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
  data::DistributedSampler train_sampler(rank, {.size = 16});
  data::DistributedSampler test_sampler(rank, {.size = 8, .shuffle = false});
  double best = 1e9;
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    train_sampler.set_epoch(epoch);
    std::vector<std::int64_t> mine;
    train_sampler.indices(mine);
    model.train();
    double trained = 0.0;
    for (const std::int64_t sample : mine)
      trained += train_step(ddp, optimizer, rows_of(rank, {sample}));
    trained = summed(rank.world(), trained);
    model.eval();
    const NoGradGuard no_grad(rank.runtime());
    test_sampler.indices(mine);
    double loss = 0.0;
    for (const std::int64_t sample : mine) {
      const Batch batch = rows_of(rank, {sample});
      loss += mse_loss(ddp(batch.x), batch.y).item();
    }
    if (form.fixed) loss = summed(rank.world(), loss);
    if (rank.rank() == 0 && loss < best) {
      best = loss;
      rank.host().log("epoch " + std::to_string(epoch) + ": " + std::to_string(trained) +
                      ", best " + std::to_string(best));
    }
  }
}

}  // namespace

std::vector<Bug> script_bugs() {
  return {
      {.id = "many-writers",
       .program = many_writers,
       .expected = {.law = "checkpoint-whole", .cause = "many-writers", .ranks = {0, 1}},
       .has_annotated_form = true},
      {.id = "local-metric-logged",
       .program = local_metric_logged,
       .expected = {.law = "metric-true", .cause = "local-metric-logged"},
       .has_annotated_form = true},
      {.id = "evaluated-apart",
       .program = evaluated_apart,
       .expected = {.law = "A-evaluated-apart",
                    .says = "ranks 0, 1 each evaluate 4 of the 8 samples"}},
  };
}

}  // namespace lockstep::programs
