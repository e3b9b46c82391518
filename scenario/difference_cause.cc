#include "lockstep/scenario/difference_cause.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>

#include "lockstep/laws/detail/mean_fit.h"
#include "lockstep/scenario/companion.h"
#include "lockstep/scenario/single_process.h"

namespace lockstep {
namespace {

using Gradients = std::map<std::string, std::vector<double>>;

/// How the job clips, where one process would do so otherwise.
std::string clipping_cause(const Job& job) {
  if (!job.clip.norm && !job.clip.value) return "";
  if (job.clip.before_sync) return "clip-before-sync";
  return !job.clip.unscale && job.scaler ? "clip-before-unscale" : "";
}

/// used = reference + factor * earlier, for one tensor, up to six digits.
bool carries(std::span<const double> used,
             const std::vector<double>& reference,
             std::span<const double> earlier,
             double factor) {
  if (used.size() != reference.size() || used.size() != earlier.size()) return false;
  double size = 0.0;
  double error = 0.0;
  for (std::size_t i = 0; i < used.size(); ++i) {
    size += std::abs(factor * earlier[i]);
    error += std::abs(used[i] - reference[i] - factor * earlier[i]);
  }
  return size > 0.0 && error <= 1e-3 * size;
}

/// How many of the ranks still hold the gradient of the step before, or 0.
std::size_t n_ranks_that_carry(const RankStep& before,
                               const RankStep& now,
                               const Gradients& reference,
                               std::size_t n_ranks) {
  for (std::size_t m = 1; m <= n_ranks; ++m) {
    const double factor = static_cast<double>(m) / static_cast<double>(n_ranks);
    const bool fits = !reference.empty() &&
                      std::all_of(reference.begin(), reference.end(), [&](const auto& tensor) {
                        const auto used = now.used.find(tensor.first);
                        const auto earlier = before.used.find(tensor.first);
                        return used != now.used.end() && earlier != before.used.end() &&
                               carries(used->second, tensor.second, earlier->second, factor);
                      });
    if (fits) return m;
  }
  return 0;
}

/// Sketches of everybody's own gradients beside that of the used one.
class Contributions {
 public:
  Contributions(const Job& job, const std::vector<std::vector<RankStep>>& ranks, std::size_t k)
      : dtype_(job.model.dtype) {
    const auto locals = local_gradients(job, ranks, k);
    for (const auto& [name, used] : ranks.front()[k].used) {
      const auto known = locals.find(name);
      if (known == locals.end()) continue;
      laws::OneReduction one{{}, sketch_of(used), std::ssize(used), dtype_};
      for (const std::vector<double>& local : known->second) {
        one.locals.push_back(local.empty() ? nullptr : sketch_of(local));
      }
      reductions_.push_back(std::move(one));
    }
  }

  const std::vector<laws::OneReduction>& reductions() const { return reductions_; }

 private:
  const Sketch* sketch_of(std::span<const double> values) {
    Runtime& runtime = companion_.runtime();
    const Tensor tensor = Tensor::of(runtime, Shape{std::ssize(values)}, DType::kF64, values);
    sketches_.push_back(runtime.kernels().sketch(tensor));
    return &sketches_.back();
  }

  DType dtype_;
  Companion companion_{false};
  std::deque<Sketch> sketches_;  // Stay where they are.
  std::vector<laws::OneReduction> reductions_;
};

/// The ranks' weights as declared, where all micro-steps of the step agree on them.
std::optional<laws::Weights> declared_weights(const Job& job,
                                              const std::vector<std::vector<RankStep>>& ranks,
                                              std::size_t k) {
  if (job.loss.declared == "rank-mean") {
    return laws::Weights::uniform(ranks.size(), 1.0, static_cast<double>(ranks.size()));
  }
  laws::Weights weights{{}, declared_denominator(job.loss, ranks, k, 0)};
  for (const std::vector<RankStep>& steps : ranks) {
    const std::vector<MicroData>& micros = steps[k].micros;
    const double first = micros.front().denominator;
    const bool same = std::all_of(micros.begin(), micros.end(), [&](const MicroData& micro) {
      return micro.denominator == first;
    });
    if (!same) return std::nullopt;
    weights.numerators.push_back(first);
  }
  return weights;
}

DifferenceCause fitted_cause(const Job& job,
                             const std::vector<std::vector<RankStep>>& ranks,
                             std::size_t k) {
  const std::optional<laws::Weights> declared = declared_weights(job, ranks, k);
  if (!declared || job.clip.norm || job.clip.value) return {};
  const Contributions contributions(job, ranks, k);
  if (contributions.reductions().empty()) return {};
  const auto found = laws::fit(contributions.reductions(), *declared, job.exact.on);
  if (!found) return {};
  std::string message = found->message;
  if (found->culprit) message += " (rank " + std::to_string(*found->culprit) + ")";
  return {message, found->cause};
}

}  // namespace

DifferenceCause explain_difference(const Job& job,
                                   const std::vector<std::vector<RankStep>>& ranks,
                                   std::size_t k,
                                   const std::map<std::string, std::vector<double>>& reference) {
  if (std::string cause = clipping_cause(job); !cause.empty()) {
    const bool local = job.clip.before_sync;
    return {local ? "each rank clips its own gradient ahead of the reduction"
                  : "gradients are clipped while they carry the loss scale",
            std::move(cause)};
  }
  if (k > 0) {
    const std::size_t n =
        n_ranks_that_carry(ranks.front()[k - 1], ranks.front()[k], reference, ranks.size());
    if (n > 0) {
      return {std::to_string(n) + " of " + std::to_string(ranks.size()) +
                  " ranks still held the gradient of the step before",
              "zero-grad-forgotten"};
    }
  }
  return fitted_cause(job, ranks, k);
}

}  // namespace lockstep
