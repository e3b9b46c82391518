#include "lockstep/laws/rules/detail/declared_mean.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "lockstep/base/text.h"

namespace lockstep::laws {

namespace {

std::string rounded(double weight) { return exact(std::round(weight * 1e6) / 1e6); }

Declared plain_mean_of(const OpenReduction& open) {
  const std::size_t n = open.locals.size();
  return {Weights::uniform(n, 1.0, static_cast<double>(n))};
}

}  // namespace

bool Declared::accepts(const OneReduction& one, bool exact) const {
  return std::any_of(accepted_factors.begin(), accepted_factors.end(), [&](double factor) {
    if (factor == 1.0) return explains(weights, one, exact);
    Weights scaled = weights;
    for (double& numerator : scaled.numerators) numerator *= factor;
    return explains(scaled, one, exact);
  });
}

std::optional<Declared> plain_mean_if_alike(const OpenReduction& open) {
  const Batches& first = open.batches_of(open.locals.front());
  const bool alike = std::all_of(open.locals.begin(), open.locals.end(), [&](const Local& local) {
    return open.batches_of(local).alike(first);
  });
  return alike ? std::optional(plain_mean_of(open)) : std::nullopt;
}

std::optional<Declared> declared_of(const OpenReduction& open, std::string_view meant) {
  const Batches& first = open.batches_of(open.locals.front());
  const std::optional<DeclaredLoss> loss = parse_enum<DeclaredLoss>(meant);
  if (meant.empty() || loss == DeclaredLoss::kRankMean) return plain_mean_of(open);
  const auto any = [&](auto test) {
    return std::any_of(open.locals.begin(), open.locals.end(), test);
  };
  const bool unknown = any([&](const Local& local) {
    const Batches& batches = open.batches_of(local);
    return batches.n_batches == 0 || batches.denominator <= 0.0;
  });
  if (unknown) return plain_mean_of(open);
  const bool mixed = any([&](const Local& local) {
    const Batches& batches = open.batches_of(local);
    return !batches.same_denominators || local.adds_to_earlier ||
           batches.n_batches != first.n_batches;
  });
  // Of samples, the last batch of an epoch is often a smaller one, on all ranks.
  if (mixed) return loss == DeclaredLoss::kTokenMean ? std::nullopt : plain_mean_if_alike(open);
  Weights weights{{}, 0.0};
  for (const Local& local : open.locals) {
    const Batches& batches = open.batches_of(local);
    weights.numerators.push_back(batches.denominator);
    const std::int64_t items =
        loss == DeclaredLoss::kTokenMean ? batches.n_tokens : batches.n_samples;
    weights.denominator += static_cast<double>(items);
  }
  if (loss == DeclaredLoss::kSum) weights.denominator = 1.0;
  if (weights.denominator <= 0.0) return plain_mean_of(open);
  Declared declared{weights};
  if (first.n_batches > 1) declared.accepted_factors.push_back(first.n_batches);
  return declared;
}

void MicroMean::add_steps(std::int32_t rank, std::span<const KeptGradients> added) {
  for (const KeptGradients& one : added) {
    const auto number = static_cast<std::int32_t>(&one - added.data());
    steps_.push_back({rank, number, &one, static_cast<double>(added.size())});
  }
}

/// The only contribution of a rank is what it hands to the reduction.
KeptGradients MicroMean::whole_of(const Local& local) const {
  KeptGradients whole;
  whole.sketches.resize(open_->n_tensors);
  whole.undefined.assign((open_->n_tensors + 7) / 8, 0);
  for (std::size_t i = 0; i < open_->n_tensors; ++i) {
    if (const Sketch* const sketch = open_->sketch(local, i)) {
      whole.sketches[i] = *sketch;
    } else {
      whole.undefined[i / 8] = static_cast<std::uint8_t>(whole.undefined[i / 8] | 1U << (i % 8));
    }
  }
  return whole;
}

bool MicroMean::add_rank(const Local& local, std::int64_t n_batches) {
  const auto micro = std::find_if(open_->micro.begin(), open_->micro.end(), [&](const auto& one) {
    return one.rank == local.rank;
  });
  if (micro != open_->micro.end()) {
    const bool complete = std::ssize(micro->added) == n_batches;
    if (!complete || !adds_up(local, *micro)) return false;
    add_steps(local.rank, micro->added);
    return true;
  }
  if (n_batches != 1) return false;
  whole_.push_back(whole_of(local));
  add_steps(local.rank, std::span(&whole_.back(), 1));
  return true;
}

std::optional<MicroMean> MicroMean::of(const OpenReduction& open, std::string_view meant) {
  const std::optional<DeclaredLoss> loss = parse_enum<DeclaredLoss>(meant);
  MicroMean mean;
  mean.open_ = &open;
  mean.n_ranks_ = static_cast<double>(open.locals.size());
  mean.declared_.denominator = 0.0;
  const std::int32_t n_first = open.batches_of(open.locals.front()).n_batches;
  mean.per_rank_ = n_first;
  for (const Local& local : open.locals) {
    const Batches& batches = open.batches_of(local);
    const bool known = !local.adds_to_earlier && batches.n_batches > 0 &&
                       std::all_of(batches.denominators.begin(),
                                   batches.denominators.end(),
                                   [](double d) { return d > 0.0; });
    if (!known) return std::nullopt;
    if (batches.n_batches != n_first) mean.per_rank_ = 0.0;
    if (!mean.add_rank(local, batches.n_batches)) return std::nullopt;
    mean.declared_.numerators.insert(
        mean.declared_.numerators.end(), batches.denominators.begin(), batches.denominators.end());
    const std::int64_t items =
        loss == DeclaredLoss::kTokenMean ? batches.n_tokens : batches.n_samples;
    mean.declared_.denominator += static_cast<double>(items);
  }
  if (loss == DeclaredLoss::kSum) mean.declared_.denominator = 1.0;
  if (mean.declared_.denominator <= 0.0) return std::nullopt;
  return mean;
}

const Sketch* MicroMean::sketch(const KeptGradients& added, std::size_t i) {
  const bool none = i >= added.sketches.size() || bit(added.undefined, i);
  return none ? nullptr : &added.sketches[i];
}

/// Whether a rank's gradient before the reduction is the sum of its contributions, and nothing else.
bool MicroMean::adds_up(const Local& local, const MicroSteps& micro) const {
  const Weights sum = Weights::uniform(micro.added.size(), 1.0, 1.0);
  for (std::size_t i = 0; i < open_->n_tensors; ++i) {
    const Sketch* const whole = open_->sketch(local, i);
    OneReduction one{{}, whole, open_->n_elems[i], open_->dtype};
    for (const KeptGradients& added : micro.added) {
      one.locals.push_back(sketch(added, i));
    }
    const bool any = std::any_of(
        one.locals.begin(), one.locals.end(), [](const Sketch* s) { return s != nullptr; });
    if (any != (whole != nullptr)) return false;
    if (any && !explains(sum, one, false)) return false;
  }
  return true;
}

OneReduction MicroMean::reduction(std::size_t i, const Sketch& reduced) const {
  OneReduction one{{}, &reduced, open_->n_elems[i], open_->dtype};
  for (const Step& step : steps_) one.locals.push_back(sketch(*step.added, i));
  return one;
}

bool MicroMean::accepts(const OneReduction& one, bool exact) const {
  if (explains(declared_, one, exact)) return true;
  Weights weights = declared_;
  for (double& numerator : weights.numerators) numerator *= per_rank_;
  return per_rank_ > 1.0 && explains(weights, one, exact);
}

/// Each rank's micro-steps share one part in all ranks: losses that are divided by the rank's own
/// number of them.
Weights MicroMean::of_ranks() const {
  std::int64_t common = 1;  // So that exact sums stay exact.
  for (const Step& step : steps_) {
    common = std::lcm(common, static_cast<std::int64_t>(step.n_of_rank));
  }
  Weights weights;
  for (const Step& step : steps_) {
    weights.numerators.push_back(static_cast<double>(common) / step.n_of_rank);
  }
  weights.denominator = n_ranks_ * static_cast<double>(common);
  return weights;
}

std::optional<Fit> MicroMean::explain(const std::vector<OneReduction>& wrong, bool exact) const {
  const std::size_t n = steps_.size();
  const auto explained = [&](const Weights& weights) {
    return std::all_of(wrong.begin(), wrong.end(), [&](const OneReduction& one) {
      return explains(weights, one, exact);
    });
  };
  const bool even = is_even();
  const auto n_steps = static_cast<double>(n);
  for (const double divisor : {n_ranks_, even ? n_ranks_ * per_rank_ : n_steps}) {
    const Weights alike = Weights::uniform(n, 1.0, divisor);
    if (!explained(alike)) continue;
    return Fit{alike,
               "every micro-step has weight " + rounded(1.0 / divisor) +
                   " (a mean of the micro-steps' means), but the declared weights are " +
                   declared_text(),
               Cause::kTokenWeightedMean,
               std::nullopt};
  }
  if (const Weights own = of_ranks(); !even && explained(own)) {
    return Fit{own,
               "every rank has the same weight, however many micro-steps it ran (a mean of the "
               "ranks' means), but the declared weights are " +
                   declared_text(),
               Cause::kTokenWeightedMean,
               std::nullopt};
  }
  const Weights sum = Weights::uniform(n, 1.0, 1.0);
  if (explained(sum)) {
    return Fit{
        sum,
        "it is the sum of the micro-steps' means over all ranks, but the declared weights are " +
            declared_text(),
        Cause::kSumVsMean,
        std::nullopt};
  }
  return lost_step(wrong, exact);
}

std::optional<Fit> MicroMean::lost_step(const std::vector<OneReduction>& wrong, bool exact) const {
  for (const double factor : {1.0, is_even() ? per_rank_ : 1.0}) {
    for (std::size_t lost = 0; lost < steps_.size(); ++lost) {
      Weights weights = declared_;
      for (double& numerator : weights.numerators) numerator *= factor;
      weights.numerators[lost] = 0.0;
      const bool explained = std::all_of(wrong.begin(), wrong.end(), [&](const OneReduction& one) {
        return explains(weights, one, exact);
      });
      if (!explained) continue;
      return Fit{weights,
                 "one rank's contribution from micro-step " + std::to_string(steps_[lost].number) +
                     " is missing",
                 Cause::kNone,
                 static_cast<std::int32_t>(lost)};
    }
  }
  return std::nullopt;
}

std::optional<Rank> MicroMean::culprit(const Fit& found) const {
  if (!found.culprit) return std::nullopt;
  return Rank{steps_[static_cast<std::size_t>(*found.culprit)].rank};
}

std::string MicroMean::declared_text() const {
  constexpr std::size_t kMostShown = 16;
  std::string text;
  const std::vector<double> weights = declared_.values();
  for (std::size_t i = 0; i < steps_.size() && i < kMostShown; ++i) {
    const bool next = i == 0 || steps_[i].rank != steps_[i - 1].rank;
    if (next) text += (i == 0 ? "rank " : "; rank ") + std::to_string(steps_[i].rank) + ": ";
    text += (next ? "" : ", ") + rounded(weights[i]);
  }
  return text + (steps_.size() > kMostShown ? ", ..." : "");
}

}  // namespace lockstep::laws
