// The tiny MLP 16-16-1 of the tables in README.md, which several benchmarks train.
#pragma once

#include "lockstep/random/generator.h"
#include "lockstep/run.h"

namespace lockstep::bench {

/// Its layers, with the same weights each time.
inline void append_tiny(nn::Sequential& model) {
  Generator generator(1);
  model.append<nn::Linear>(16, 16, generator);
  model.append<nn::ReLU>();
  model.append<nn::Linear>(16, 1, generator);
}

/// Trains it for `steps` with batches of 8 and SGD; each rank has its own inputs.
inline void train_tiny(RankContext& context, std::int64_t steps) {
  Runtime& runtime = context.runtime();
  nn::Sequential model(runtime);
  append_tiny(model);
  DistributedDataParallel ddp(model, context.world());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.01});
  const double rank = context.rank();
  const Variable x(Tensor::full(runtime, {8, 16}, DType::kF32, 0.25 + rank));
  const Tensor target = Tensor::full(runtime, {8, 1}, DType::kF32, 1.0);
  for (std::int64_t step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    mse_loss(ddp(x), target).backward();
    optimizer.step();
  }
}

}  // namespace lockstep::bench
