#include "lockstep/train/micro_step.h"

#include <cstddef>
#include <fmt/core.h>
#include <numeric>
#include <vector>

namespace lockstep {

namespace {

// Calls gather(span) on the tensor's elements in the dtype, or in f32 and rounds them to it.
template <typename F>
Tensor gather_floats(Runtime& runtime, const Shape& shape, DType dtype, F gather) {
  Tensor out = Tensor::empty(runtime, shape, is_narrow(dtype) ? DType::kF32 : dtype);
  if (dtype == DType::kF64) {
    gather(out.write_span<double>());
  } else {
    gather(out.write_span<float>());
  }
  return out.to(dtype);
}

// Of numbers that stand for tokens or classes, which 16 bits may not tell apart.
DType dtype_of_numbers(DType dtype) { return is_narrow(dtype) ? DType::kF32 : dtype; }

bool weighs_tokens(const LossSpec& loss) {
  return loss.normalize == LossDivisor::kLocalTokens ||
         loss.normalize == LossDivisor::kGlobalTokens;
}

// Each row counts as often as it has tokens, over the denominator: row i's weight, once an output.
Tensor row_weights(const Job& job,
                   const data::Dataset& dataset,
                   const Batch& batch,
                   std::span<const std::int64_t> ids,
                   double denominator) {
  std::vector<double> weights;
  const std::int64_t columns = batch.target.n_elems() / batch.n_samples;
  for (const std::int64_t id : ids) {
    weights.insert(weights.end(),
                   static_cast<std::size_t>(columns),
                   static_cast<double>(dataset.tokens(id)) / denominator);
  }
  return Tensor::of(batch.x.runtime(), batch.target.shape(), job.model.dtype, weights);
}

Variable unscaled_loss(const Job& job,
                       const Variable& output,
                       const Batch& batch,
                       double denominator) {
  const LossKind kind = job.loss.kind;
  if (kind == LossKind::kCrossEntropy) {
    // PyTorch's mean counts predictions, of which a row of tokens asks for several.
    const std::int64_t n_predictions = batch.target.n_elems() / batch.n_samples;
    return cross_entropy(output, batch.target, denominator * static_cast<double>(n_predictions));
  }
  const std::int64_t n_columns = output.data().n_elems() / batch.n_samples;
  const auto columns = static_cast<double>(n_columns);
  if (batch.row_weight.defined()) {
    LOCKSTEP_CHECK(kind == LossKind::kMse,
                   fmt::format("token weights belong to the mse loss, not to '{}'", name_of(kind)));
    const Variable miss = sub(output, Variable(batch.target));
    return sum(mul(mul(miss, miss), Variable(batch.row_weight)));
  }
  // PyTorch's mean counts elements, not rows.
  if (kind == LossKind::kL1) return l1_loss(output, batch.target, denominator * columns);
  return mse_loss(output, batch.target, denominator * columns);
}

}  // namespace

Batch make_batch(const Job& job,
                 const data::Dataset& dataset,
                 Runtime& runtime,
                 std::span<const std::int64_t> ids) {
  Batch batch;
  batch.n_samples = static_cast<std::int64_t>(ids.size());
  const Shape x_shape{batch.n_samples, dataset.feature_columns()};
  const DType dtype = job.model.dtype;
  const bool reads_tokens = job.model.kind == ModelKind::kGpt;
  batch.x = gather_floats(
      runtime, x_shape, reads_tokens ? dtype_of_numbers(dtype) : dtype, [&](auto out) {
        dataset.gather_features(ids, out);
      });
  const bool is_class = job.loss.kind == LossKind::kCrossEntropy;
  if (is_class && dataset.has_labels()) {
    batch.target = Tensor::empty(runtime, {batch.n_samples}, DType::kI64);
    dataset.gather_labels(ids, batch.target.write_span<std::int64_t>());
  } else {
    const Shape shape{batch.n_samples, dataset.target_columns()};
    batch.target =
        gather_floats(runtime, shape, is_class ? dtype_of_numbers(dtype) : dtype, [&](auto out) {
          dataset.gather_targets(ids, out);
        });
    if (is_class) batch.target = batch.target.to(DType::kI64).reshape({shape.n_elems()});
  }
  for (const std::int64_t id : ids) batch.n_tokens += dataset.tokens(id);
  return batch;
}

void change_signs(const Batch& batch, std::span<const double> signs) {
  Kernels& kernels = batch.x.runtime().kernels();
  for (std::size_t i = 0; i < signs.size(); ++i) {
    const Tensor row = batch.x.rows(static_cast<std::int64_t>(i), 1);
    kernels.scale(row, row, signs[i]);
  }
}

double loss_denominator(const Job& job, const Batch& batch, RankContext& context) {
  const LossDivisor divisor = job.loss.normalize;
  if (divisor == LossDivisor::kSum) return 1.0;
  if (divisor == LossDivisor::kLocalTokens) return static_cast<double>(batch.n_tokens);
  if (divisor == LossDivisor::kLocalSamples) return static_cast<double>(batch.n_samples);
  auto tokens = static_cast<double>(batch.n_tokens);
  context.world().all_reduce(Memory::of(std::span<double>(&tokens, 1))).wait_or_throw();
  return tokens / context.world_size();
}

void weigh_rows(const Job& job,
                const data::Dataset& dataset,
                Batch& batch,
                std::span<const std::int64_t> ids,
                double denominator) {
  if (weighs_tokens(job.loss)) {
    batch.row_weight = row_weights(job, dataset, batch, ids, denominator);
  }
}

Variable micro_loss(
    const Job& job, const Variable& output, const Batch& batch, double denominator, double factor) {
  const Variable loss = unscaled_loss(job, output, batch, denominator);
  return factor == 1.0 ? loss : scale(loss, factor);
}

}  // namespace lockstep
