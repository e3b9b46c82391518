// Ranks that train alone, and do not come together as they should.
#include <memory>
#include <vector>

#include "lockstep/comm.h"
#include "lockstep/ddp.h"
#include "lockstep/optim.h"

#include "tests/programs/healthy/broken_twins.h"
#include "tests/programs/training.h"

namespace lockstep::programs {

namespace {

constexpr optim::SgdOptions kSgd = {.lr = 0.125};

/// A replica that never synchronises by itself.
struct Loner {
  explicit Loner(RankContext& rank)
      : init(1),
        model(rank.runtime(), init),
        ddp(model, rank.world()),
        optimizer(model.parameters(), kSgd),
        no_sync(ddp) {}

  Generator init;
  Mlp model;
  DistributedDataParallel<Mlp> ddp;
  optim::Sgd optimizer;
  NoSync no_sync;
};

void never_averages(RankContext& rank) {
  Loner loner(rank);
  for (std::int64_t step = 0; step < 5; ++step) {
    train_step(loner.ddp, loner.optimizer, batch_of(rank, step));
  }
}

// The averages come every second step, and none after the fourth.
void stops_averaging(RankContext& rank) {
  Loner loner(rank);
  for (std::int64_t step = 0; step < 9; ++step) {
    train_step(loner.ddp, loner.optimizer, batch_of(rank, step));
    if (step % 2 == 0 && step <= 4) average_parameters(loner.optimizer.parameters(), rank.world());
  }
}

// Rank 1 leaves one average out, so that its later ones meet those of other steps.
void skips_an_average(RankContext& rank) {
  Loner loner(rank);
  for (std::int64_t step = 0; step < 6; ++step) {
    train_step(loner.ddp, loner.optimizer, batch_of(rank, step));
    const bool skips = rank.rank() == 1 && step == 2;
    if (step % 2 == 0 && !skips) average_parameters(loner.optimizer.parameters(), rank.world());
  }
}

void leaves_a_parameter_out(RankContext& rank) {
  Loner loner(rank);
  std::vector<Variable> parameters = loner.model.parameters();
  parameters.pop_back();
  for (std::int64_t step = 0; step < 4; ++step) {
    train_step(loner.ddp, loner.optimizer, batch_of(rank, step));
    average_parameters(parameters, rank.world());
  }
}

// Pairs average, and nothing brings the two pairs together.
void averages_in_pairs_only(RankContext& rank) {
  Loner loner(rank);
  const std::unique_ptr<ProcessGroup> pair = new_subgroups(rank.world(), 2);
  PeriodicModelAverager averager(*pair, 2);
  PostLocalSgdOptimizer optimizer(loner.optimizer, averager);
  for (std::int64_t step = 0; step < 4; ++step) {
    train_step(loner.ddp, optimizer, batch_of(rank, step));
  }
}

// Gradients are reduced in each step, so nothing may part between two averages: here the rates do.
void hides_a_drift(RankContext& rank) {
  Generator init(1);
  Mlp model(rank.runtime(), init);
  DistributedDataParallel ddp(model, rank.world());
  optim::Sgd local(model.parameters(), {.lr = rank.rank() == 0 ? 0.125 : 0.25});
  PeriodicModelAverager averager(rank.world(), 2);
  PostLocalSgdOptimizer optimizer(local, averager);
  for (std::int64_t step = 0; step < 4; ++step) train_step(ddp, optimizer, batch_of(rank, step));
}

}  // namespace

std::vector<BrokenTwin> averaging_twins() {
  return {
      {.name = "LocalSgdThatNeverAverages",
       .program = never_averages,
       .law = "replicas-equal",
       .says = "first.weight"},
      {.name = "LocalSgdThatNeverReduces",
       .program = never_averages,
       .law = "reduced-once",
       .says = "first.weight"},
      {.name = "LocalSgdThatStopsAveraging",
       .program = stops_averaging,
       .law = "replicas-equal",
       .says = "step 5"},
      {.name = "LocalSgdThatStopsReducing",
       .program = stops_averaging,
       .law = "reduced-once",
       .says = "step 5"},
      {.name = "LocalSgdOfWhichARankSkipsAnAverage",
       .program = skips_an_average,
       .law = "progress"},
      {.name = "LocalSgdWithoutAParameter",
       .program = leaves_a_parameter_out,
       .law = "replicas-equal",
       .says = "last.bias"},
      {.name = "HierarchyWithoutItsTop",
       .ranks = 4,
       .program = averages_in_pairs_only,
       .law = "replicas-equal",
       .says = "first.weight"},
      {.name = "AveragesThatHideADrift",
       .program = hides_a_drift,
       .law = "replicas-equal",
       .says = "first.weight"},
  };
}

}  // namespace lockstep::programs
