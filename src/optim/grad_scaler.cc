#include "lockstep/optim/grad_scaler.h"

#include <algorithm>
#include <cmath>
#include <fmt/core.h>
#include <stdexcept>
#include <string>

#include "lockstep/autograd/sparse_rows.h"
#include "lockstep/base/check.h"
#include "lockstep/functional/functions.h"
#include "lockstep/tensor/kernels.h"

namespace lockstep::optim {

GradScaler::GradScaler(const GradScalerOptions& options)
    : options_(options), scale_(static_cast<float>(options.init_scale)) {
  if (!options.enabled) return;
  LOCKSTEP_CHECK(options.growth_factor > 1.0,
                 fmt::format("The growth factor must be > 1.0. It is {}.", options.growth_factor));
  LOCKSTEP_CHECK(
      options.backoff_factor < 1.0,
      fmt::format("The backoff factor must be < 1.0. It is {}.", options.backoff_factor));
}

Variable GradScaler::scale(const Variable& loss) {
  if (!options_.enabled) return loss;
  started_ = true;
  return lockstep::scale(loss, static_cast<double>(scale_));
}

void GradScaler::check_started(const char* function) const {
  LOCKSTEP_CHECK(started_,
                 std::string("Attempted ") + function +
                     " but _scale is None.  This may indicate your script did not use "
                     "scaler.scale(loss or outputs) earlier in the iteration.");
}

GradScaler::Seen& GradScaler::seen(const Optimizer& optimizer) {
  const auto found = std::find_if(
      seen_.begin(), seen_.end(), [&](const Seen& one) { return one.optimizer == &optimizer; });
  if (found != seen_.end()) return *found;
  seen_.push_back({.optimizer = &optimizer});
  return seen_.back();
}

void GradScaler::unscale(Optimizer& optimizer) {
  if (!options_.enabled) return;
  check_started("unscale_");
  Seen& one = seen(optimizer);
  if (one.stage == Stage::kUnscaled) {
    throw std::runtime_error(
        "unscale_() has already been called on this optimizer since the last update().");
  }
  if (one.stage == Stage::kStepped) {
    throw std::runtime_error("unscale_() is being called after step().");
  }
  const auto inverse = static_cast<float>(1.0 / static_cast<double>(scale_));
  for (const Variable& parameter : optimizer.parameters()) {
    const Tensor& grad = parameter.grad();
    if (parameter.state().sparse_grad) {
      throw std::runtime_error("GradScaler does not support sparse gradients here");
    }
    if (!grad.defined()) continue;
    const bool overflow = grad.runtime().kernels().unscale(grad, static_cast<double>(inverse));
    grad.storage()->bump_version();
    one.found_inf = one.found_inf.value_or(false) || overflow;
  }
  one.stage = Stage::kUnscaled;
}

bool GradScaler::step(Optimizer& optimizer, const CallSite& site) {
  if (!options_.enabled) {
    optimizer.step(site);
    return true;
  }
  check_started("step");
  if (seen(optimizer).stage == Stage::kStepped) {
    throw std::runtime_error("step() has already been called since the last update().");
  }
  if (seen(optimizer).stage == Stage::kReady) unscale(optimizer);
  Seen& one = seen(optimizer);
  LOCKSTEP_CHECK(one.found_inf.has_value(), "No inf checks were recorded for this optimizer.");
  optimizer.step_scaled(static_cast<double>(scale_), *one.found_inf, site);
  one.stage = Stage::kStepped;
  return !*one.found_inf;
}

void GradScaler::update(std::optional<double> new_scale) {
  if (!options_.enabled) return;
  check_started("update");
  if (new_scale) {
    scale_ = static_cast<float>(*new_scale);
  } else {
    const auto checked = [](const Seen& one) { return one.found_inf.has_value(); };
    LOCKSTEP_CHECK(std::any_of(seen_.begin(), seen_.end(), checked),
                   "No inf checks were recorded prior to update.");
    adapt(std::any_of(
        seen_.begin(), seen_.end(), [](const Seen& one) { return one.found_inf.value_or(false); }));
  }
  seen_.clear();
}

/// Products in double, rounded to float once. A scale never grows past float's range.
void GradScaler::adapt(bool found_inf) {
  if (found_inf) {
    scale_ = static_cast<float>(static_cast<double>(scale_) * options_.backoff_factor);
    growth_tracker_ = 0;
    return;
  }
  if (++growth_tracker_ != options_.growth_interval) return;
  const auto grown = static_cast<float>(static_cast<double>(scale_) * options_.growth_factor);
  if (std::isfinite(grown)) scale_ = grown;
  growth_tracker_ = 0;
}

double GradScaler::get_scale() const {
  return options_.enabled ? static_cast<double>(scale_) : 1.0;
}

std::vector<StateNumber> GradScaler::state() const {
  if (!options_.enabled) return {};
  return {{"scale", get_scale()},
          {"growth_factor", options_.growth_factor},
          {"backoff_factor", options_.backoff_factor},
          {"growth_interval", static_cast<double>(options_.growth_interval)},
          {"_growth_tracker", static_cast<double>(growth_tracker_)}};
}

void GradScaler::load_state(std::span<const StateNumber> numbers) {
  if (!options_.enabled) return;
  if (numbers.empty()) {
    throw std::runtime_error(
        "The source state dict is empty, possibly because it was saved from a disabled instance of "
        "GradScaler.");
  }
  check_state_names(state(), numbers);
  scale_ = static_cast<float>(numbers[0].value);
  options_.growth_factor = numbers[1].value;
  options_.backoff_factor = numbers[2].value;
  options_.growth_interval = static_cast<std::int64_t>(numbers[3].value);
  growth_tracker_ = static_cast<std::int64_t>(numbers[4].value);
}

}  // namespace lockstep::optim
