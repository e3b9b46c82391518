#include "lockstep/harness/companion/single_process.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <stdexcept>

#include "lockstep/base/text.h"
#include "lockstep/functional/functions.h"
#include "lockstep/harness/companion/companion.h"
#include "lockstep/laws/rules/detail/precision.h"
#include "lockstep/trace/recorder.h"
#include "lockstep/train/micro_step.h"
#include "lockstep/train/rank_program.h"

namespace lockstep {
namespace {

using StepsByRank = std::vector<std::vector<RankStep>>;

/// The row ids that traces carry, as positions in the job's data set.
class RowPositions {
 public:
  explicit RowPositions(const Job& job) {
    for (std::size_t i = 0; i < job.train_ids.size(); ++i) {
      const auto id = static_cast<std::size_t>(job.train_ids[i]);
      if (id >= positions_.size()) positions_.resize(id + 1, -1);
      positions_[id] = static_cast<std::int64_t>(i);
    }
  }

  std::vector<std::int64_t> of(const std::vector<std::int64_t>& ids) const {
    if (positions_.empty()) return ids;
    std::vector<std::int64_t> result;
    result.reserve(ids.size());
    for (const std::int64_t id : ids) {
      result.push_back(positions_.at(static_cast<std::size_t>(id)));
    }
    return result;
  }

 private:
  std::vector<std::int64_t> positions_;  // By row id.
};

/// The same job with its loss normalised as declared, over whatever one process sees.
LossSpec as_declared(const LossSpec& loss) {
  LossSpec declared = loss;
  declared.normalize = LossDivisor::kLocalSamples;
  if (loss.declared == DeclaredLoss::kTokenMean) declared.normalize = LossDivisor::kLocalTokens;
  if (loss.declared == DeclaredLoss::kSum) declared.normalize = LossDivisor::kSum;
  return declared;
}

/// The rows of a data set in the order in which the ranks consumed them, each micro-step's global
/// batch being one consecutive block.
struct GlobalBatches {
  data::DatasetParts parts;
  std::vector<std::int64_t> sizes;
};

void append_row(const data::Dataset& rows, std::int64_t row, data::DatasetParts& parts) {
  const auto x = rows.features(row);
  const auto y = rows.targets(row);
  parts.features.insert(parts.features.end(), x.begin(), x.end());
  parts.targets.insert(parts.targets.end(), y.begin(), y.end());
  if (rows.has_labels()) parts.labels.push_back(rows.label(row));
  parts.tokens.push_back(rows.tokens(row));
  ++parts.size;
}

GlobalBatches global_batches(const Job& job, const StepsByRank& ranks, std::size_t n_steps) {
  const RowPositions positions(job);
  GlobalBatches batches;
  data::DatasetParts& parts = batches.parts;
  parts.name = job.train->name();
  parts.feature_columns = job.train->feature_columns();
  parts.target_columns = job.train->target_columns();
  for (std::size_t k = 0; k < n_steps; ++k) {
    for (std::size_t micro = 0; micro < ranks.front()[k].micros.size(); ++micro) {
      const std::int64_t first = parts.size;
      for (const auto& steps : ranks) {
        const std::vector<std::int64_t> global = positions.of(steps[k].micros[micro].ids);
        for (const std::int64_t row : global) append_row(*job.train, row, parts);
      }
      batches.sizes.push_back(parts.size - first);
    }
  }
  return batches;
}

/// The whole job as one process, in exact arithmetic.
class ExactRun final : public SingleProcess {
 public:
  ExactRun(const Job& job, const StepsByRank& ranks, std::size_t n_steps) {
    GlobalBatches batches = global_batches(job, ranks, n_steps);
    Result<data::Dataset> rows = data::Dataset::make(std::move(batches.parts));
    LOCKSTEP_CHECK(rows.ok(), "rows of a valid data set make a valid one");
    Job alone = job;
    alone.train = std::make_shared<const data::Dataset>(std::move(rows).value());
    alone.holdout = nullptr;
    alone.train_ids.clear();
    alone.loss = as_declared(job.loss);
    alone.loader = LoaderSpec();
    alone.loader.sampler = SamplerKind::kBatchesByRank;
    alone.loader.batches_by_rank = {batches.sizes};
    alone.loop.steps = static_cast<std::int64_t>(n_steps);
    alone.loop.forward = ForwardThrough::kWrapper;
    alone.loop.eval = {};
    alone.loop.barriers.clear();
    alone.loop.snapshot = {};
    alone.loop.join.reset();
    alone.scheduler.times = job.scheduler.declared_times;
    alone.clip.before_sync = false;
    alone.clip.unscale = true;
    alone.ddp.wrap = true;
    alone.ddp.average = AverageBy::kDdp;
    run(alone, static_cast<std::int32_t>(ranks.size()));
  }

  std::vector<ReferenceTensor> step(std::size_t k) override {
    std::vector<ReferenceTensor> tensors;
    if (k >= steps_.size()) {
      fail(error_.empty() ? "a single process that gets this far" : error_);
      return tensors;
    }
    const auto copy = [](std::span<const double> values) {
      return std::vector<double>(values.begin(), values.end());
    };
    for (const auto& [name, values] : steps_[k].used) {
      tensors.push_back({ComparedPoint::kGradUsed, name, {copy(values), {}}});
    }
    for (const auto& [name, values] : steps_[k].after) {
      tensors.push_back({ComparedPoint::kStep, name, {copy(values), {}}});
    }
    return tensors;
  }

 private:
  /// The context claims the world's size, since a job may scale its loss by it; its group has one
  /// member.
  void run(const Job& job, std::int32_t n_ranks) {
    Companion companion(true);
    trace_.ensure_ranks(1);
    RecordOptions options;
    options.step_values = true;
    options.sketches = false;
    Recorder recorder(Rank{0}, companion.host(), *trace_.shared_names(), trace_, options);
    companion.runtime().set_recorder(&recorder);
    RankContext context(Rank{0}, n_ranks, companion.runtime(), companion.group());
    try {
      run_job(job, context, {});
    } catch (const std::runtime_error& error) {
      error_ = "a job that one process can run too; it stopped: " + std::string(error.what());
    }
    companion.runtime().set_recorder(nullptr);
    steps_ = steps_of(trace_, Rank{0});
  }

  MemoryTrace trace_{std::make_shared<NameTable>()};
  std::vector<RankStep> steps_;
  std::string error_;
};

/// The norm of all values, or of all their bounds.
double joint_norm(const std::map<std::string, ReferenceValues>& sums, double p, bool of_bounds) {
  double total = 0.0;
  for (const auto& [name, sum] : sums) {
    for (const double value : of_bounds ? sum.bound : sum.values) {
      const double size = std::abs(value);
      if (std::isinf(p)) {
        total = std::max(total, size);
      } else {
        total += p == 1.0 ? size : size * size;
      }
    }
  }
  return p == 2.0 ? std::sqrt(total) : total;
}

/// Clips what one process would have clipped: the unscaled gradient of the global batch.
void clip_reference(const ClipSpec& clip,
                    const laws::Precision& precision,
                    std::map<std::string, ReferenceValues>& sums) {
  if (clip.norm) {
    const double total = joint_norm(sums, clip.norm_type, false);
    const double spread = joint_norm(sums, clip.norm_type, true);
    const double fits = *clip.norm / (total + 1e-6);
    const double factor = fits > 1.0 ? 1.0 : fits;  // Where the norm is NaN, so is everything.
    // How far the ranks' factor may be off: by what their norm may, and eight roundings. What is
    // multiplied by it is rounded once more, also below the normal numbers.
    const double off = spread < total ? spread / (total - spread) + 8 * precision.unit : 1.0;
    const double underflow = 0.5 * precision.tiny;
    for (auto& [name, sum] : sums) {
      for (std::size_t i = 0; i < sum.values.size(); ++i) {
        sum.values[i] *= factor;
        sum.bound[i] =
            factor * sum.bound[i] * (1 + off) + std::abs(sum.values[i]) * off + underflow;
      }
    }
  }
  if (!clip.value) return;
  for (auto& [name, sum] : sums) {
    for (std::size_t i = 0; i < sum.values.size(); ++i) {
      sum.values[i] = std::clamp(sum.values[i], -*clip.value, *clip.value);
      sum.bound[i] += precision.unit * *clip.value;  // The limit's own rounding.
    }
  }
}

/// Each step from the parameters that the N ranks really had: rounding does not add up over steps.
class TeacherForced final : public SingleProcess {
 public:
  TeacherForced(const Job& job, const StepsByRank& ranks)
      : job_(job),
        ranks_(ranks),
        positions_(job),
        companion_(false),
        model_(build_model(job.model, companion_.runtime(), 0)) {}

  std::map<std::string, std::vector<std::vector<double>>> local_gradients(std::size_t k) {
    load(ranks_.front()[k].before);
    scale_ = ranks_.front()[k].scale;
    std::map<std::string, std::vector<std::vector<double>>> locals;
    for (const auto& steps : ranks_) {
      model_->zero_grad();
      for (const MicroData& data : steps[k].micros) accumulate(data);
      for (const NamedVariable& named : model_->named_parameters()) {
        const Tensor& grad = named.variable.grad();
        locals[named.name].push_back(grad.defined() ? unscaled(grad) : std::vector<double>());
      }
    }
    return locals;
  }

  std::vector<ReferenceTensor> step(std::size_t k) override {
    if (ranks_.front()[k].skipped) return {};  // No gradient was used.
    load(ranks_.front()[k].before);
    scale_ = ranks_.front()[k].scale;
    std::map<std::string, ReferenceValues> sums;
    const std::size_t n_micros = ranks_.front()[k].micros.size();
    for (std::size_t micro = 0; micro < n_micros; ++micro) add_micro(k, micro, sums);
    std::vector<ReferenceTensor> tensors;
    const laws::Precision precision = laws::precision_of(job_.model.dtype);
    // N products, N - 1 sums, the wrapper's scaling and this sum's own weights, once per reduction.
    // A gradient scaler rounds its factor, the scaled loss and the unscaled gradient.
    const double once = static_cast<double>(ranks_.size() + (job_.scaler ? 5 : 2));
    const double n = once * static_cast<double>(n_micros);
    if (n * precision.unit >= 1.0) {
      fail("gradients that are rounded less often, or have more digits: " + exact(n) +
           " roundings of " + std::string(name_of(job_.model.dtype)) + " have no bound");
      return {};
    }
    const double roundings = n * precision.unit / (1.0 - n * precision.unit);
    // Below the normal numbers, a rounding is off by half the distance of two numbers instead.
    const double underflow = n * 0.5 * precision.tiny;
    for (auto& [name, sum] : sums) {
      for (double& bound : sum.bound) bound = bound * roundings + underflow;
    }
    clip_reference(job_.clip, precision, sums);
    tensors.reserve(tensors.size() + sums.size());
    for (auto& [name, sum] : sums)
      tensors.push_back({ComparedPoint::kGradUsed, name, std::move(sum)});
    return tensors;
  }

 private:
  void load(const TensorValues& values) const {
    for (const NamedVariable& named : model_->named_parameters()) {
      const auto found = values.find(named.name);
      if (found == values.end()) continue;
      const Tensor& into = named.variable.data();
      const Tensor from = Tensor::of(into.runtime(), into.shape(), into.dtype(), found->second);
      into.runtime().kernels().copy(into, from);
      into.storage()->bump_version();
    }
  }

  /// Adds w_r * g_r of every rank. A rank's weight is the share of the declared denominator that it
  /// divided by: g_r is its summed loss over D_r, the declared gradient the sum over ranks over D.
  void add_micro(std::size_t k, std::size_t micro, std::map<std::string, ReferenceValues>& sums) {
    const bool rank_mean = job_.loss.declared == DeclaredLoss::kRankMean;
    const double declared = declared_denominator(job_.loss, ranks_, k, micro);
    for (const auto& steps : ranks_) {
      const MicroData& data = steps[k].micros[micro];
      const double weight =
          rank_mean ? 1.0 / static_cast<double>(ranks_.size()) : data.denominator / declared;
      backward(data);
      for (const NamedVariable& named : model_->named_parameters()) {
        const Tensor& grad = named.variable.grad();
        if (grad.defined()) add(grad, weight / scale_, sums[named.name]);
      }
    }
  }

  void backward(const MicroData& data) {
    model_->zero_grad();
    accumulate(data);
  }

  /// Adds a micro-step's gradient.
  void accumulate(const MicroData& data) {
    Runtime& runtime = companion_.runtime();
    const std::vector<std::int64_t> rows = positions_.of(data.ids);
    Batch batch = make_batch(job_, *job_.train, runtime, rows);
    weigh_rows(job_, *job_.train, batch, rows, data.denominator);
    const double factor =
        job_.exact.on && job_.exact.scale_loss_by_world ? static_cast<double>(ranks_.size()) : 1.0;
    Variable loss;
    {
      const AutocastGuard autocast(runtime, job_.autocast);
      loss = micro_loss(job_, model_->forward(Variable(batch.x)), batch, data.denominator, factor);
    }
    // Scaled as the ranks had it: gradients of 16 bits underflow where smaller ones would.
    (scale_ == 1.0 ? loss : scale(loss, scale_)).backward();
  }

  std::vector<double> unscaled(const Tensor& grad) const {
    ReferenceValues sum;
    add(grad, 1.0 / scale_, sum);
    return std::move(sum.values);
  }

  static void add(const Tensor& grad, double weight, ReferenceValues& sum) {
    const Tensor wide = grad.to(DType::kF64);
    const std::span<const double> values = wide.span<double>();
    sum.values.resize(values.size());
    sum.bound.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double term = weight * values[i];
      sum.values[i] += term;
      sum.bound[i] += std::abs(term);
    }
  }

  const Job& job_;
  const StepsByRank& ranks_;
  RowPositions positions_;
  Companion companion_;
  std::unique_ptr<nn::Module> model_;
  double scale_ = 1.0;  ///< Of the present step's losses.
};

}  // namespace

double declared_denominator(const LossSpec& loss,
                            const StepsByRank& ranks,
                            std::size_t k,
                            std::size_t micro) {
  double total = 0.0;
  for (const auto& steps : ranks) {
    const MicroData& data = steps[k].micros[micro];
    const bool by_tokens = loss.declared == DeclaredLoss::kTokenMean;
    total += static_cast<double>(by_tokens ? data.n_tokens : data.n_samples);
  }
  return loss.declared == DeclaredLoss::kSum ? 1.0 : total;
}

std::map<std::string, std::vector<std::vector<double>>> local_gradients(const Job& job,
                                                                        const StepsByRank& ranks,
                                                                        std::size_t k) {
  return TeacherForced(job, ranks).local_gradients(k);
}

std::unique_ptr<SingleProcess> make_single_process(const Job& job,
                                                   const std::vector<std::vector<RankStep>>& ranks,
                                                   std::size_t n_steps) {
  const bool rank_mean = job.loss.declared == DeclaredLoss::kRankMean;
  if (job.exact.on && !rank_mean) return std::make_unique<ExactRun>(job, ranks, n_steps);
  return std::make_unique<TeacherForced>(job, ranks);
}

}  // namespace lockstep
