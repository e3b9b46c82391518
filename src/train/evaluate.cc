#include "lockstep/train/evaluate.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "lockstep/data/distributed_sampler.h"
#include "lockstep/train/micro_step.h"

namespace lockstep {

namespace {

constexpr std::int64_t kEvalBatch = 64;

// The mean over a row's predictions of -log softmax(scores)[truth].
double cross_entropy_of(const Tensor& output, const Batch& batch, std::int64_t row) {
  const std::int64_t columns = output.size(1);
  const std::int64_t n_predictions = batch.target.n_elems() / batch.n_samples;
  double sum = 0.0;
  for (std::int64_t p = row * n_predictions; p < (row + 1) * n_predictions; ++p) {
    double largest = output.at(p * columns);
    for (std::int64_t c = 1; c < columns; ++c) {
      largest = std::max(largest, output.at(p * columns + c));
    }
    double total = 0.0;
    for (std::int64_t c = 0; c < columns; ++c) {
      total += std::exp(output.at(p * columns + c) - largest);
    }
    const auto truth = static_cast<std::int64_t>(batch.target.at(p));
    sum += largest + std::log(total) - output.at(p * columns + truth);
  }
  return sum / static_cast<double>(n_predictions);
}

// How much one row adds to the metric's sum: 1 or 0 for accuracy, the loss for losses.
double row_value(const Job& job, const Tensor& output, const Batch& batch, std::int64_t row) {
  const std::int64_t columns = output.size(1);
  if (job.loop.eval.metric == EvalMetric::kCrossEntropy)
    return cross_entropy_of(output, batch, row);
  const std::int64_t first = row * columns;
  if (job.loop.eval.metric == EvalMetric::kAccuracy) {
    std::int64_t best = 0;
    for (std::int64_t c = 1; c < columns; ++c) {
      if (output.at(first + c) > output.at(first + best)) best = c;
    }
    return static_cast<double>(best) == batch.target.at(row) ? 1.0 : 0.0;
  }
  double sum = 0.0;
  for (std::int64_t c = 0; c < columns; ++c) {
    const double miss = output.at(first + c) - batch.target.at(first + c);
    sum += job.loop.eval.metric == EvalMetric::kL1 ? (miss < 0 ? -miss : miss) : miss * miss;
  }
  return sum / static_cast<double>(columns);
}

// The rows that this rank looks at, and how many of them are not padding.
struct Share {
  const data::Dataset* set = nullptr;
  std::span<const std::int64_t> file_ids;  // Of each row of the set, where it is part of a file.
  std::vector<std::int64_t> ids;
  std::int64_t n_real = 0;
};

Share last_batch(const Job& job, std::span<const std::int64_t> ids) {
  return {.set = job.train.get(),
          .file_ids = job.train_ids,
          .ids = {ids.begin(), ids.end()},
          .n_real = std::ssize(ids)};
}

Share share_of(const Job& job, const RankContext& context) {
  Result<data::DistributedSampler> sampler =
      data::DistributedSampler::make({.size = job.holdout->size(),
                                      .replicas = context.world_size(),
                                      .rank = context.rank(),
                                      .shuffle = false,
                                      .drop_last = job.loop.eval.drop_last});
  LOCKSTEP_CHECK(sampler.ok(), sampler.error().text());
  Share share{.set = job.holdout.get(), .file_ids = job.holdout_ids, .ids = {}};
  sampler.value().indices(share.ids, nullptr);
  for (std::size_t k = 0; k < share.ids.size(); ++k) {
    const auto place = static_cast<std::int64_t>(k) * context.world_size() + context.rank();
    if (place < job.holdout->size()) ++share.n_real;
  }
  return share;
}

void record_eval(const Job& job,
                 RankContext& context,
                 const Share& share,
                 std::span<const double> parts,
                 const EvalResult& result) {
  const Annotations record = context.annotate();
  if (!record.on()) return;
  // Otherwise the padded shares declare themselves: they are what a sampler deals out.
  if (job.loop.eval.drop_last || job.loop.eval.rows == EvalRows::kLastBatch) {
    record.epoch({.split = "eval",
                  .dataset_size = job.holdout->size(),
                  .n_replicas = context.world_size(),
                  .per_rank = std::ssize(share.ids),
                  .drop_last = job.loop.eval.drop_last});
  }
  std::vector<std::int64_t> rows = share.ids;
  if (!share.file_ids.empty()) {
    for (std::int64_t& id : rows) id = share.file_ids[static_cast<std::size_t>(id)];
  }
  record.samples(rows, "eval");
  record.metric(name_of(job.loop.eval.metric),
                {.value = result.value,
                 .numerator = result.numerator,
                 .denominator = result.denominator,
                 .parts = parts});
}

/// The model as an evaluation calls it.
class Evaluated {
 public:
  Evaluated(const Job& job, nn::Module& model, DistributedDataParallel<nn::Module>* ddp)
      : model_(model),
        ddp_(job.loop.eval.forward == ForwardThrough::kWrapper && broadcasts(job, model)
                 ? ddp
                 : nullptr) {}

  Tensor operator()(const Tensor& x) const {
    return (ddp_ != nullptr ? (*ddp_)(Variable(x), {}) : model_.forward(Variable(x))).data();
  }

 private:
  static bool broadcasts(const Job& job, const nn::Module& model) {
    return job.ddp.options.broadcast_buffers && !model.named_buffers().empty();
  }

  nn::Module& model_;
  DistributedDataParallel<nn::Module>* ddp_;
};

/// What every rank reports, from the sum and the number of this rank's rows.
EvalResult average(const Job& job,
                   RankContext& context,
                   std::int64_t epoch,
                   std::array<double, 2> sums) {
  const auto mean = [&] { return sums[1] > 0.0 ? sums[0] / sums[1] : 0.0; };
  if (job.loop.eval.average == EvalAverage::kRanks) sums = {mean(), 1.0};
  if (job.loop.eval.average != EvalAverage::kNone) {
    context.world().all_reduce(Memory::of(std::span<double>(sums))).wait_or_throw();
  }
  return {.epoch = epoch, .value = mean(), .numerator = sums[0], .denominator = sums[1]};
}

}  // namespace

EvalResult evaluate(const Job& job,
                    nn::Module& model,
                    RankContext& context,
                    const EvalPlace& place,
                    DistributedDataParallel<nn::Module>* ddp) {
  Runtime& runtime = context.runtime();
  const NoGradGuard no_grad(runtime);
  const AutocastGuard autocast(runtime, job.autocast);
  model.eval();
  const Evaluated evaluated(job, model, ddp);
  const bool looks_back = job.loop.eval.rows == EvalRows::kLastBatch;
  const Share share = looks_back ? last_batch(job, place.last_batch) : share_of(job, context);
  std::array<double, 2> sums{};  // value, rows counted
  std::vector<double> parts;
  parts.reserve(share.ids.size());
  const auto n = static_cast<std::int64_t>(share.ids.size());
  for (std::int64_t at = 0; at < n; at += kEvalBatch) {
    const std::int64_t rows = std::min(kEvalBatch, n - at);
    const auto ids =
        std::span(share.ids).subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(rows));
    const Batch batch = make_batch(job, *share.set, runtime, ids);
    const Tensor output = evaluated(batch.x);
    for (std::int64_t row = 0; row < rows; ++row) {
      const bool padding = at + row >= share.n_real;
      parts.push_back(row_value(job, output, batch, row));
      if (padding && job.loop.eval.dedup) continue;
      sums[0] += parts.back();
      sums[1] += 1.0;
    }
  }
  const EvalResult result = average(job, context, place.epoch, sums);
  record_eval(job, context, share, parts, result);
  model.train();
  return result;
}

}  // namespace lockstep
