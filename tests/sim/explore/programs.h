// Programs to explore: a correct data-parallel job, and bugs that only some schedules show.
#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "lockstep/ddp/ddp.h"
#include "lockstep/nn/activations.h"
#include "lockstep/nn/linear.h"
#include "lockstep/nn/losses.h"
#include "lockstep/nn/sequential.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/random/generator.h"
#include "lockstep/sim/session/session.h"
#include "lockstep/tensor/digest.h"

namespace lockstep::sim::testing {

struct SmallJob {
  std::int32_t ranks = 2;
  std::int64_t width = 1;
  std::int64_t layers = 1;
  std::int64_t steps = 2;  ///< The first has one bucket, later ones one per parameter.
  bool view = false;       ///< gradient_as_bucket_view
  bool init_sync = true;   ///< The constructor's collectives.
  std::uint64_t seed = 0;
};

/// Trains. Every rank has its own rows.
inline void train(const SmallJob& job, RankContext& context) {
  Runtime& runtime = context.runtime();
  nn::Sequential model(runtime);
  for (std::int64_t layer = 0; layer < job.layers; ++layer) {
    if (layer > 0) model.append<nn::ReLU>();
    model.append<nn::Linear>(job.width, job.width, nn::LinearOptions{});
  }
  Generator generator(job.seed);
  model.reset_parameters(generator);
  DistributedDataParallel ddp(model,
                              context.world(),
                              {.init_sync = job.init_sync,
                               .bucket_cap_mb = 1.0 / (1 << 20),
                               .gradient_as_bucket_view = job.view});
  optim::Sgd optimizer(model.parameters(), {.lr = 0.125});
  for (std::int64_t step = 0; step < job.steps; ++step) {
    std::vector<double> row(static_cast<std::size_t>(job.width));
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::uint64_t place = static_cast<std::uint64_t>(step * 64 + context.rank());
      row[i] = static_cast<double>(mix64(job.seed + place * 131 + i) % 1009) / 1009.0;
    }
    const Tensor x = Tensor::of(runtime, {1, job.width}, DType::kF32, row);
    optimizer.zero_grad();
    mse_loss(ddp(Variable(x)), x).backward();
    optimizer.step();
  }
}

/// Reads a bucket that is still being reduced. Wrong only if the reduction completes in between.
inline void overlap_race(RankContext& context) {
  const Tensor bucket = Tensor::full(context.runtime(), {4}, DType::kF32, context.rank() + 1.0);
  const Work work = context.world().all_reduce(Memory::of(bucket));
  context.host().point({});
  const double before = bucket.at(0);
  context.host().point({});
  const double after = bucket.at(0);
  work.wait_or_throw();
  if (before != after) throw std::runtime_error("the bucket changed under its reader");
}

/// Ranks 0 and 1 are in both groups; a file that appears meanwhile decides the order of use. If one
/// looks before that and the other after, each waits in the other's second group.
inline void two_communicator_cycle(RankContext& context) {
  const std::array<std::int32_t, 3> left = {0, 1, 2};
  const std::array<std::int32_t, 3> right = {0, 1, 3};
  const auto a = context.world().split(left, CallSite::here());
  const auto b = context.world().split(right, CallSite::here());
  const Tensor data = Tensor::full(context.runtime(), {1}, DType::kF32, 1.0);
  FileSystem& files = context.host().files();
  if (context.rank() == 2 && !files.write("left-first", "1").ok()) return;
  const bool swapped = context.rank() < 2 && !files.read("left-first").ok();
  for (ProcessGroup* group : {swapped ? b.get() : a.get(), swapped ? a.get() : b.get()}) {
    if (group != nullptr) group->all_reduce(Memory::of(data)).wait_or_throw();
  }
}

/// The writer names the checkpoint before it is there. Wrong only if the reader comes in between.
inline void read_before_commit(RankContext& context) {
  FileSystem& files = context.host().files();
  if (context.rank() == 0) {
    const bool written = files.write("latest", "step-5").ok() && files.write("step-5", "1").ok();
    if (!written) throw std::runtime_error("the file system is full");
    return;
  }
  for (int i = 0; i < 3; ++i) context.host().point({});
  const Result<std::string> latest = files.read("latest");
  if (latest.ok() && !files.read(latest.value()).ok()) {
    throw std::runtime_error("the newest checkpoint is not there");
  }
}

struct PlantedBug {
  std::string_view name;
  std::int32_t ranks;
  void (*body)(RankContext&);
};

constexpr std::array<PlantedBug, 3> kPlantedBugs = {{
    {"overlap-race", 2, overlap_race},
    {"two-communicator-cycle", 4, two_communicator_cycle},
    {"read-before-commit", 2, read_before_commit},
}};

/// Without events and laws: the programs check themselves.
inline SessionOptions bare(std::int32_t ranks) {
  SessionOptions options;
  options.n_ranks = ranks;
  options.record = false;
  options.keep_trace = false;
  return options;
}

/// With digests of all that is communicated and computed.
inline SessionOptions digested(std::int32_t ranks) {
  SessionOptions options;
  options.n_ranks = ranks;
  options.laws = {"collectives-match"};
  return options;
}

}  // namespace lockstep::sim::testing
