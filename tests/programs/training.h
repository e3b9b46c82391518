// What small training programs are made of: rows, networks, a step. As short as a user would write
// them, and nothing in here records anything.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/nn.h"
#include "lockstep/run.h"

namespace lockstep::programs {

/// Rows and their targets.
struct Batch {
  Variable x;
  Tensor y;
};

/// Small fractions, unlike on every rank and in every step. Shapes: (rows, columns).
Tensor numbers(RankContext& rank, std::int64_t step, std::int64_t rows, std::int64_t columns);

/// What `rank` trains on in `step`: x (rows, 4), y (rows, 1).
Batch batch_of(RankContext& rank, std::int64_t step, std::int64_t rows = 4);

/// The rows that `samples` stand for, the same on every rank: x (B, 4), y (B, 1).
Batch rows_of(RankContext& rank, const std::vector<std::int64_t>& samples);

/// A linear layer, ReLU, and a linear layer: (B, 4) -> (B, 1). Parameters "first.weight", ...
class Mlp final : public nn::Module {
 public:
  Mlp(Runtime& runtime, Generator& init);

  Variable forward(const Variable& x) override;

  nn::Linear& first() { return first_; }

  nn::Linear& last() { return last_; }

 private:
  nn::Linear first_;
  nn::Linear last_;
};

/// The same with a batch norm between: buffers "norm.running_mean", ...
class NormedMlp final : public nn::Module {
 public:
  NormedMlp(Runtime& runtime, Generator& init);

  Variable forward(const Variable& x) override;

  /// Batch norm alone, in evaluation mode.
  void freeze_norm() { norm_.eval(); }

 private:
  nn::Linear first_;
  nn::BatchNorm1d norm_;
  nn::Linear last_;
};

/// One step of the textbook loop.
template <typename Model, typename Optimizer>
double train_step(Model& model, Optimizer& optimizer, const Batch& batch) {
  optimizer.zero_grad();
  const Variable loss = mse_loss(model(batch.x), batch.y);
  loss.backward();
  optimizer.step();
  return loss.item();
}

/// Averages the gradients of a program without a wrapper, one by one; those that are absent stay so.
void average_gradients(RankContext& rank, std::span<const Variable> parameters);

/// One step of the textbook loop without a wrapper.
template <typename Optimizer>
void averaged_step(RankContext& rank, nn::Module& model, Optimizer& optimizer, const Batch& batch) {
  optimizer.zero_grad();
  mse_loss(model(batch.x), batch.y).backward();
  average_gradients(rank, optimizer.parameters());
  optimizer.step();
}

/// What a model that is not trained makes of x.
Tensor output_of(nn::Module& model, const Variable& x);

/// The sum of `value` over all ranks.
double summed(ProcessGroup& group, double value);

/// The largest `value` of all ranks.
double largest(ProcessGroup& group, double value);

/// Publishes a file, with the folder it lies in. Errors: std::runtime_error.
void save_file(RankContext& rank, const std::string& path, const std::string& bytes);

}  // namespace lockstep::programs
