#include "lockstep/harness/companion/difference_cause.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>

#include "lockstep/harness/companion/companion.h"
#include "lockstep/harness/companion/single_process.h"
#include "lockstep/laws/detail/mean_fit.h"
#include "lockstep/laws/report.h"

namespace lockstep {
namespace {

using Gradients = std::map<std::string, std::vector<double>>;
using LocalGradients = std::map<std::string, std::vector<std::vector<double>>>;  // By rank.

/// How the job clips, where one process would clip differently.
Cause clipping_cause(const Job& job) {
  if (!job.clip.norm && !job.clip.value) return Cause::kNone;
  if (job.clip.before_sync) return Cause::kClipBeforeSync;
  return !job.clip.unscale && job.scaler ? Cause::kClipBeforeUnscale : Cause::kNone;
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

/// Sketches of all ranks' local gradients next to that of the used one.
class Contributions {
 public:
  Contributions(DType dtype, const RankStep& first, const LocalGradients& locals) : dtype_(dtype) {
    for (const auto& [name, used] : first.used) {
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
  if (job.loss.declared == DeclaredLoss::kRankMean) {
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

/// The recorded digest of one tensor.
std::optional<std::uint64_t> digest_in(const std::vector<DigestList>& lists,
                                       const std::string& tensor,
                                       const NameTable& names) {
  for (const DigestList& list : lists) {
    const std::span<const NameId> layout = names.layout(list.layout);
    for (std::size_t i = 0; i < layout.size() && i < list.digests.size(); ++i) {
      if (names.text(layout[i]) == tensor) return list.digests[i];
    }
  }
  return std::nullopt;
}

struct WrongLocal {
  std::string tensor;
  std::vector<Rank> ranks;
};

/// The first tensor whose own gradient on some ranks, but not on most, has other bits than when it
/// is computed once more. Where most ranks have different bits, it was computed differently
/// (scaled, accumulated), and nothing is said.
std::optional<WrongLocal> wrong_local_gradient(const DifferentStep& step,
                                               const LocalGradients& locals) {
  Companion companion(false);
  Runtime& runtime = companion.runtime();
  for (const auto& [tensor, by_rank] : locals) {
    WrongLocal wrong{tensor, {}};
    bool all_known = true;
    for (std::size_t r = 0; r < by_rank.size(); ++r) {
      const std::vector<double>& values = by_rank[r];
      const auto recorded = digest_in(step.ranks[r][step.k].local_digests, tensor, step.names);
      all_known = all_known && recorded && !values.empty();
      if (!all_known) break;
      const Tensor again =
          Tensor::of(runtime, Shape{std::ssize(values)}, step.job.model.dtype, values);
      if (runtime.kernels().digest(again, 0) != *recorded) {
        wrong.ranks.push_back(static_cast<Rank>(r));
      }
    }
    const bool few = !wrong.ranks.empty() && 2 * wrong.ranks.size() < by_rank.size();
    if (all_known && few) return wrong;
  }
  return std::nullopt;
}

DifferenceCause fitted_cause(const DifferentStep& step, const LocalGradients& locals) {
  const Job& job = step.job;
  const std::optional<laws::Weights> declared = declared_weights(job, step.ranks, step.k);
  if (!declared || job.clip.norm || job.clip.value) return {};
  const Contributions contributions(job.model.dtype, step.ranks.front()[step.k], locals);
  if (contributions.reductions().empty()) return {};
  const auto found = laws::fit(contributions.reductions(), *declared, job.exact.on);
  if (!found) return {};
  std::string message = found->message;
  if (found->culprit) message += " (rank " + std::to_string(*found->culprit) + ")";
  return {message, found->cause};
}

}  // namespace

DifferenceCause explain_difference(const DifferentStep& step) {
  const Job& job = step.job;
  if (const Cause cause = clipping_cause(job); cause != Cause::kNone) {
    const bool local = job.clip.before_sync;
    return {local ? "each rank clips its own gradient before the reduction"
                  : "gradients are clipped while they carry the loss scale",
            cause};
  }
  if (step.k > 0) {
    const std::vector<RankStep>& first = step.ranks.front();
    const std::size_t n =
        n_ranks_that_carry(first[step.k - 1], first[step.k], step.reference, step.ranks.size());
    if (n > 0) {
      return {std::to_string(n) + " of " + std::to_string(step.ranks.size()) +
                  " ranks still held the previous step's gradient",
              Cause::kZeroGradForgotten};
    }
  }
  const LocalGradients locals = local_gradients(job, step.ranks, step.k);
  if (std::optional<WrongLocal> wrong = wrong_local_gradient(step, locals)) {
    return {(wrong->ranks.size() == 1 ? "the local gradient `" : "the local gradients `") +
                wrong->tensor + "` of " + ranks_text(wrong->ranks) +
                " was wrong before the reduction: unlike the other ranks', it is not the gradient "
                "of its rows",
            Cause::kSdcBeforeReduce};
  }
  return fitted_cause(step, locals);
}

}  // namespace lockstep
