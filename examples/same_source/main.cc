// Trains a small network with DDP and prints the bits of what it ends with.
//
//   ./same_source                                                     two virtual ranks
//   lockstep launch --nproc-per-node 2 --backend gloo -- ./same_source    two processes
//   lockstep launch --nproc-per-node 2 --backend nccl -- ./same_source    two GPUs
//
// Nothing in the program says where its ranks run. The order of reduction is Gloo's, so that the
// simulator adds as the processes do and both print the same lines.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <lockstep/lockstep.h>
#include <vector>

namespace {

constexpr std::int32_t kRanks = 2;
constexpr std::int64_t kBatch = 4;
constexpr std::int64_t kFeatures = 3;
constexpr std::int64_t kSteps = 20;

using lockstep::DType;
using lockstep::RankContext;
using lockstep::Tensor;
using lockstep::Variable;

/// What a rank reports back: any plain value.
struct Result {
  double loss = 0.0;
  double first_weight = 0.0;
};

Tensor inputs(RankContext& context, std::int64_t step) {
  std::vector<double> values;
  const std::int64_t rank = context.rank();
  for (std::int64_t i = 0; i < kBatch * kFeatures; ++i) {
    values.push_back(static_cast<double>((7 * i + 3 * step + 5 * rank) % 11) / 11.0);
  }
  return Tensor::of(context.runtime(), {kBatch, kFeatures}, DType::kF32, values);
}

Tensor targets(RankContext& context, std::int64_t step) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < kBatch; ++i) {
    values.push_back(static_cast<double>((i + step + context.rank()) % 5) / 5.0);
  }
  return Tensor::of(context.runtime(), {kBatch, 1}, DType::kF32, values);
}

Result train(RankContext& context) {
  lockstep::Generator seed(11);
  lockstep::nn::Sequential model(context.runtime());
  model.append<lockstep::nn::Linear>(kFeatures, 8, seed);
  model.append<lockstep::nn::ReLU>();
  model.append<lockstep::nn::Linear>(8, 1, seed);
  lockstep::DistributedDataParallel ddp(model, context.world());
  std::vector<Variable> parameters;
  for (const auto& named : model.named_parameters()) parameters.push_back(named.variable);
  lockstep::optim::Sgd optimizer(parameters, {.lr = 0.1, .momentum = 0.9});

  Result result;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const Variable loss =
        lockstep::mse_loss(ddp(Variable(inputs(context, step))), targets(context, step));
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    result.loss = loss.data().item();
  }
  result.first_weight = parameters.front().data().at(0);
  return result;
}

/// Runs and prints. Returns the exit code.
int run_and_print() {
  const auto run = lockstep::run_ranks(
      {.ranks = kRanks, .reduction_order = lockstep::ReductionOrder::kGlooRing}, train);
  // Under a launcher every rank has the whole result; each prints it.
  for (std::size_t rank = 0; rank < run.results.size(); ++rank) {
    if (!run.results[rank]) continue;
    std::printf("rank %zu: loss %a, weight %a\n",
                rank,
                run.results[rank]->loss,
                run.results[rank]->first_weight);
  }
  std::printf("laws: %s\n", run.ok() ? "hold" : lockstep::name_of(run.report.outcome).data());
  return run.ok() ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return run_and_print();
  } catch (const std::exception& error) {  // A launcher's environment that makes no sense, say.
    std::fprintf(stderr, "same_source: %s\n", error.what());
    return 2;
  }
}
