// A random data-parallel job in C++, and the same job done by hand in one process: what the
// property suite compares. The reference uses neither DDP, nor groups, nor hooks.
#pragma once

#include <cmath>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "lockstep/nn/init.h"
#include "lockstep/random/generator.h"
#include "lockstep/run.h"
#include "lockstep/tensor/digest.h"

namespace lockstep::testing {

struct TrainingCase {
  std::int32_t ranks = 2;
  std::vector<std::int64_t> widths = {2, 2, 1};
  std::int64_t batch = 1;  ///< Rows per rank and micro-step.
  std::int64_t steps = 2;
  std::int64_t accumulate = 1;
  bool no_sync = false;
  bool view = false;  ///< gradient_as_bucket_view
  std::int64_t cap_bytes = 1 << 20;
  std::uint64_t seed = 0;
  std::uint64_t schedule_seed = 0;
  ReductionOrder order = ReductionOrder::kRank;
  bool exact = false;  ///< f64 on a grid, power-of-two ranks: no operation may round.
};

// RapidCheck looks this name up to print counterexamples.
inline void showValue(  // NOLINT(readability-identifier-naming)
    const TrainingCase& c,
    std::ostream& os) {
  os << "ranks " << c.ranks << ", widths";
  for (const std::int64_t width : c.widths) os << ' ' << width;
  os << ", batch " << c.batch << ", steps " << c.steps << ", accumulate " << c.accumulate
     << (c.no_sync ? " (no_sync)" : "") << (c.view ? ", views" : "") << ", cap " << c.cap_bytes
     << ", seed " << c.seed << ", schedule " << c.schedule_seed << ", order " << c.order.name();
}

/// What one rank saw: flat parameters before each step, the gradient the step used.
struct RankLog {
  std::vector<std::vector<double>> params;  ///< [step], and the final ones last.
  std::vector<std::vector<double>> grads;   ///< [step]
};

constexpr double kLearningRate = 0.125;
constexpr nn::init::Grid kGrid{.bits = 2, .limit = 1.0};

inline DType dtype_of(const TrainingCase& c) { return c.exact ? DType::kF64 : DType::kF32; }

inline std::unique_ptr<nn::Sequential> make_model(const TrainingCase& c,
                                                  Runtime& runtime,
                                                  std::uint64_t seed) {
  auto model = std::make_unique<nn::Sequential>(runtime);
  for (std::size_t i = 0; i + 1 < c.widths.size(); ++i) {
    if (i > 0) model->append<nn::ReLU>();
    model->append<nn::Linear>(
        c.widths[i], c.widths[i + 1], nn::LinearOptions{.dtype = dtype_of(c)});
  }
  Generator generator(seed);
  if (c.exact) {
    nn::init::grid(*model, generator, kGrid);
  } else {
    model->reset_parameters(generator);
  }
  return model;
}

/// Rows of (step, micro, rank), the same for every caller: small integers, so exact sums stay
/// exact.
inline Tensor rows_of(const TrainingCase& c,
                      Runtime& runtime,
                      std::uint64_t purpose,
                      std::int64_t columns) {
  std::vector<double> values(static_cast<std::size_t>(c.batch * columns));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint64_t word = mix64(c.seed * 7919 + purpose * 104729 + i);
    const double whole = static_cast<double>(word % 5) - 2.0;
    values[i] = c.exact ? whole : whole + static_cast<double>(word % 1009) / 1009.0;
  }
  return Tensor::of(runtime, {c.batch, columns}, dtype_of(c), values);
}

inline std::uint64_t purpose_of(std::int64_t step,
                                std::int64_t micro,
                                std::int32_t rank,
                                bool target) {
  const auto word = [](auto value) { return static_cast<std::uint64_t>(value); };
  return ((word(step) * 64 + word(micro)) * 128 + word(rank)) * 2 + (target ? 1 : 0);
}

/// The micro-step's mean squared error, over what accumulation divides by.
template <typename Model>
Variable loss_of(const TrainingCase& c,
                 Model& model,
                 Runtime& runtime,
                 std::int64_t step,
                 std::int64_t micro,
                 std::int32_t rank) {
  const Tensor x = rows_of(c, runtime, purpose_of(step, micro, rank, false), c.widths.front());
  const Tensor t = rows_of(c, runtime, purpose_of(step, micro, rank, true), c.widths.back());
  return mse_loss(model(Variable(x)), t);
}

template <typename Get>
std::vector<double> flat(const std::vector<Variable>& parameters, Get get) {
  std::vector<double> values;
  for (const Variable& parameter : parameters) {
    const Tensor& tensor = get(parameter);
    for (std::int64_t i = 0; i < parameter.data().n_elems(); ++i) {
      values.push_back(tensor.defined() ? tensor.at(i) : 0.0);
    }
  }
  return values;
}

inline std::vector<double> flat_params(const std::vector<Variable>& parameters) {
  return flat(parameters, [](const Variable& p) -> const Tensor& { return p.data(); });
}

inline std::vector<double> flat_grads(const std::vector<Variable>& parameters) {
  return flat(parameters, [](const Variable& p) -> const Tensor& { return p.grad(); });
}

/// The job as a user writes it.
inline RankLog train_rank(const TrainingCase& c, RankContext& context) {
  Runtime& runtime = context.runtime();
  const auto rank = static_cast<std::uint64_t>(context.rank());
  const auto model = make_model(c, runtime, c.seed + rank);  // Other weights on every rank.
  DistributedDataParallel ddp(*model,
                              context.world(),
                              {.bucket_cap_mb = static_cast<double>(c.cap_bytes) / (1 << 20),
                               .gradient_as_bucket_view = c.view});
  const std::vector<Variable> parameters = model->parameters();
  optim::Sgd optimizer(parameters, {.lr = kLearningRate});
  if (c.exact) optimizer.round_each_step({.bits = 4, .limit = 4.0});

  RankLog log;
  for (std::int64_t step = 0; step < c.steps; ++step) {
    log.params.push_back(flat_params(parameters));
    optimizer.zero_grad();
    for (std::int64_t micro = 0; micro < c.accumulate; ++micro) {
      const bool skip = c.no_sync && micro + 1 < c.accumulate;
      std::optional<NoSync> guard;
      if (skip) guard.emplace(ddp);
      loss_of(c, ddp, runtime, step, micro, context.rank()).backward();
    }
    log.grads.push_back(flat_grads(parameters));
    optimizer.step();
  }
  log.params.push_back(flat_params(parameters));
  return log;
}

inline RunOptions run_options(const TrainingCase& c) {
  return {.ranks = c.ranks,
          .schedule_seed = c.schedule_seed,
          .strategy = c.schedule_seed == 0 ? "run-to-block" : "random",
          .reduction_order = c.order,
          .exact = c.exact};
}

/// Gradients of every rank's shard at given parameters, by one process on its own.
struct Reference {
  std::vector<double> mean;      ///< sum over ranks of g_r / N, accumulated in long double.
  std::vector<double> mean_abs;  ///< sum over ranks of |terms of g_r| / N, for the error bound.
};

inline Reference reference_gradient(const TrainingCase& c,
                                    Runtime& runtime,
                                    std::int64_t step,
                                    const std::vector<double>& at) {
  const auto model = make_model(c, runtime, c.seed);
  nn::init::values(*model, at);
  const std::vector<Variable> parameters = model->parameters();
  std::vector<long double> sum(at.size(), 0.0L);
  std::vector<long double> sum_abs(at.size(), 0.0L);
  for (std::int32_t rank = 0; rank < c.ranks; ++rank) {
    for (std::int64_t micro = 0; micro < c.accumulate; ++micro) {
      model->zero_grad();
      loss_of(c, *model, runtime, step, micro, rank).backward();
      const std::vector<double> g = flat_grads(parameters);
      for (std::size_t i = 0; i < g.size(); ++i) {
        sum[i] += g[i];
        sum_abs[i] += std::fabs(g[i]);
      }
    }
  }
  Reference reference;
  for (std::size_t i = 0; i < at.size(); ++i) {
    reference.mean.push_back(static_cast<double>(sum[i] / c.ranks));
    reference.mean_abs.push_back(static_cast<double>(sum_abs[i] / c.ranks));
  }
  return reference;
}

/// How far a correct average may be from the true mean, relative to the mean of the absolute terms:
/// K micro-steps added locally (and re-scaled and re-summed each time they are reduced without
/// no_sync), one scaling and N additions. Each rounds once, with unit roundoff u.
inline double error_factor(const TrainingCase& c) {
  const double u = c.exact ? 0.0 : std::ldexp(1.0, -24);
  const double one_reduction = c.ranks + 2.0;
  const double reductions = c.no_sync ? 1.0 : static_cast<double>(c.accumulate);
  const double n = (one_reduction * reductions + static_cast<double>(c.accumulate)) * u;
  return n / (1.0 - n);
}

}  // namespace lockstep::testing
