#include "lockstep/optim/detail/lr_formulas.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <string>

#include "lockstep/base/text.h"

namespace lockstep::optim::detail {
namespace {

constexpr double kPi = std::numbers::pi;

double real(std::int64_t n) { return static_cast<double>(n); }

// From the rate before. The order of operations is PyTorch's: it decides the last bits.

double chained(const StepLr& rule, const Moment& at) {
  return at.epoch == 0 || at.epoch % rule.step_size != 0 ? at.lr : at.lr * rule.gamma;
}

double chained(const MultiStepLr& rule, const Moment& at) {
  const auto n = std::count(rule.milestones.begin(), rule.milestones.end(), at.epoch);
  return n == 0 ? at.lr : at.lr * std::pow(rule.gamma, real(n));
}

double chained(const ConstantLr& rule, const Moment& at) {
  if (at.epoch == 0) return at.lr * rule.factor;
  if (at.epoch != rule.total_iters) return at.lr;
  if (rule.factor == 0.0) throw std::invalid_argument("float division by zero");
  return at.lr * (1.0 / rule.factor);
}

double chained(const LinearLr& rule, const Moment& at) {
  if (at.epoch == 0) return at.lr * rule.start_factor;
  if (at.epoch > rule.total_iters) return at.lr;
  const double rise = rule.end_factor - rule.start_factor;
  return at.lr *
         (1.0 + rise / (real(rule.total_iters) * rule.start_factor + real(at.epoch - 1) * rise));
}

double chained(const ExponentialLr& rule, const Moment& at) {
  return at.epoch == 0 ? at.lr : at.lr * rule.gamma;
}

double chained(const PolynomialLr& rule, const Moment& at) {
  if (at.epoch == 0 || at.epoch > rule.total_iters) return at.lr;
  const double total = real(rule.total_iters);
  const double now = 1.0 - real(at.epoch) / total;
  const double before = 1.0 - real(at.epoch - 1) / total;
  return at.lr * std::pow(now / before, rule.power);
}

double chained(const CosineAnnealingLr& rule, const Moment& at) {
  if (at.epoch == 0) return at.lr;
  const double t_max = real(rule.t_max);
  // At a minimum the ratio below would divide zero by zero.
  if ((at.epoch - 1 - rule.t_max) % (2 * rule.t_max) == 0) {
    return at.lr + (at.base - rule.eta_min) * (1 - std::cos(kPi / t_max)) / 2;
  }
  const double now = 1 + std::cos(kPi * real(at.epoch) / t_max);
  const double before = 1 + std::cos(kPi * real(at.epoch - 1) / t_max);
  return now / before * (at.lr - rule.eta_min) + rule.eta_min;
}

double chained(const CosineAnnealingWarmRestarts& rule, const Moment& at) {
  return rule.eta_min + (at.base - rule.eta_min) * (1 + std::cos(kPi * at.t_cur / at.t_i)) / 2;
}

double chained(const LambdaLr& rule, const Moment& at) {
  return at.base * of_group(rule.factors, at.group)(at.epoch);
}

double chained(const MultiplicativeLr& rule, const Moment& at) {
  return at.epoch > 0 ? at.lr * of_group(rule.factors, at.group)(at.epoch) : at.lr;
}

/// Between which of its three levels (0: start, 1: peak, 2: end) a one-cycle schedule is, and how
/// far it has come.
struct Phase {
  int from = 0;
  int to = 0;
  double share = 0.0;
};

Phase phase_of(const OneCycleLr& rule, std::int64_t epoch) {
  const double total = real(rule.total_steps);
  const double peak = rule.pct_start * total - 1;
  const double valley = 2 * rule.pct_start * total - 2;
  const double step = real(epoch);
  const auto phase = [step](int from, int to, double first, double last) {
    if (last == first) throw std::invalid_argument("float division by zero");
    return Phase{from, to, (step - first) / (last - first)};
  };
  if (step <= peak) return phase(0, 1, 0.0, peak);
  if (!rule.three_phase) return phase(1, 2, peak, total - 1);
  if (step <= valley) return phase(1, 0, peak, valley);
  return phase(0, 2, valley, total - 1);
}

double annealed(Anneal anneal, double start, double end, double share) {
  if (anneal == Anneal::kLinear) return (end - start) * share + start;
  return end + (start - end) / 2.0 * (std::cos(kPi * share) + 1);
}

double chained(const OneCycleLr& rule, const Moment& at) {
  if (at.epoch > rule.total_steps) {
    throw std::invalid_argument("Tried to step " + std::to_string(at.epoch + 1) +
                                " times. The specified number of total steps is " +
                                std::to_string(rule.total_steps));
  }
  const double levels[] = {
      at.base, of_group(rule.max_lr, at.group), at.base / rule.final_div_factor};
  const Phase phase = phase_of(rule, at.epoch);
  return annealed(rule.anneal, levels[phase.from], levels[phase.to], phase.share);
}

// From the initial rate. Rules without such a form take the chained one.

double closed(const StepLr& rule, const Moment& at) {
  return at.base * std::pow(rule.gamma, real(at.epoch / rule.step_size));
}

double closed(const MultiStepLr& rule, const Moment& at) {
  const auto passed = std::count_if(rule.milestones.begin(),
                                    rule.milestones.end(),
                                    [&](std::int64_t milestone) { return milestone <= at.epoch; });
  return at.base * std::pow(rule.gamma, real(passed));
}

double closed(const ConstantLr& rule, const Moment& at) {
  const double over = at.epoch >= rule.total_iters ? 1.0 : 0.0;
  return at.base * (rule.factor + over * (1 - rule.factor));
}

double closed(const LinearLr& rule, const Moment& at) {
  const double done = real(std::min(rule.total_iters, at.epoch));
  return at.base * (rule.start_factor +
                    (rule.end_factor - rule.start_factor) * done / real(rule.total_iters));
}

double closed(const ExponentialLr& rule, const Moment& at) {
  return at.base * std::pow(rule.gamma, real(at.epoch));
}

double closed(const PolynomialLr& rule, const Moment& at) {
  const double done = real(std::min(rule.total_iters, at.epoch));
  return at.base * std::pow(1.0 - done / real(rule.total_iters), rule.power);
}

double closed(const CosineAnnealingLr& rule, const Moment& at) {
  return rule.eta_min +
         (at.base - rule.eta_min) * (1 + std::cos(kPi * real(at.epoch) / real(rule.t_max))) / 2;
}

double closed(const CosineAnnealingWarmRestarts& rule, const Moment& at) {
  return chained(rule, at);
}

double closed(const OneCycleLr& rule, const Moment& at) { return chained(rule, at); }

double closed(const LambdaLr& rule, const Moment& at) { return chained(rule, at); }

double closed(const MultiplicativeLr& rule, const Moment& at) { return chained(rule, at); }

// Refusals.

void require(bool ok, const std::string& text) {
  if (!ok) throw std::invalid_argument(text);
}

void require_per_group(std::size_t n, const std::string& what, const Optimizer& optimizer) {
  const std::size_t n_groups = optimizer.groups().size();
  require(n == 1 || n == n_groups,
          "expected " + std::to_string(n_groups) + " values for " + what + ", got " +
              std::to_string(n));
}

void require_lambdas(const std::vector<LrFactor>& factors, const Optimizer& optimizer) {
  const std::size_t n_groups = optimizer.groups().size();
  require(factors.size() == 1 || factors.size() == n_groups,
          "Expected " + std::to_string(n_groups) + " lr_lambdas, but got " +
              std::to_string(factors.size()));
}

void check(const StepLr& rule, const Optimizer& /*optimizer*/) {
  require(rule.step_size > 0,
          "Expected positive step_size, but got " + std::to_string(rule.step_size));
}

void check(const MultiStepLr& /*rule*/, const Optimizer& /*optimizer*/) {}

void check(const ConstantLr& rule, const Optimizer& /*optimizer*/) {
  require(rule.factor >= 0.0 && rule.factor <= 1.0,
          "Constant multiplicative factor expected to be between 0 and 1.");
}

void check(const LinearLr& rule, const Optimizer& /*optimizer*/) {
  require(rule.start_factor > 0.0 && rule.start_factor <= 1.0,
          "Starting multiplicative factor expected to be between 0 and 1.");
  require(rule.end_factor >= 0.0 && rule.end_factor <= 1.0,
          "Ending multiplicative factor expected to be between 0 and 1.");
  require(rule.total_iters > 0,
          "Expected positive total_iters, but got " + std::to_string(rule.total_iters));
}

void check(const ExponentialLr& /*rule*/, const Optimizer& /*optimizer*/) {}

void check(const PolynomialLr& rule, const Optimizer& /*optimizer*/) {
  require(rule.total_iters > 0,
          "Expected positive total_iters, but got " + std::to_string(rule.total_iters));
}

void check(const CosineAnnealingLr& rule, const Optimizer& /*optimizer*/) {
  require(rule.t_max > 0, "Expected positive T_max, but got " + std::to_string(rule.t_max));
}

void check(const CosineAnnealingWarmRestarts& rule, const Optimizer& /*optimizer*/) {
  require(rule.t_0 > 0, "Expected positive integer T_0, but got " + std::to_string(rule.t_0));
  require(rule.t_mult >= 1, "Expected integer T_mult >= 1, but got " + std::to_string(rule.t_mult));
}

void check(const OneCycleLr& rule, const Optimizer& optimizer) {
  require(rule.total_steps > 0,
          "Expected positive integer total_steps, but got " + std::to_string(rule.total_steps));
  require(rule.pct_start >= 0.0 && rule.pct_start <= 1.0,
          "Expected float between 0 and 1 pct_start, but got " + exact(rule.pct_start));
  require_per_group(rule.max_lr.size(), "max_lr", optimizer);
  if (!rule.cycle_momentum) return;
  require(optimizer.groups().front().momentum.has_value(),
          "optimizer must support momentum with `cycle_momentum` option enabled");
  require_per_group(rule.max_momentum.size(), "max_momentum", optimizer);
  require_per_group(rule.base_momentum.size(), "base_momentum", optimizer);
}

void check(const LambdaLr& rule, const Optimizer& optimizer) {
  require_lambdas(rule.factors, optimizer);
}

void check(const MultiplicativeLr& rule, const Optimizer& optimizer) {
  require_lambdas(rule.factors, optimizer);
}

}  // namespace

double chained_rate(const LrRule& rule, const Moment& at) {
  return std::visit([&](const auto& one) { return chained(one, at); }, rule);
}

double closed_rate(const LrRule& rule, const Moment& at) {
  return std::visit([&](const auto& one) { return closed(one, at); }, rule);
}

double cycled_momentum(const OneCycleLr& rule, const Moment& at) {
  const double high = of_group(rule.max_momentum, at.group);
  const double levels[] = {high, of_group(rule.base_momentum, at.group), high};
  const Phase phase = phase_of(rule, at.epoch);
  return annealed(rule.anneal, levels[phase.from], levels[phase.to], phase.share);
}

std::int64_t planned_steps(const LrRule& rule) {
  const auto steps = []<typename Rule>(const Rule& one) -> std::int64_t {
    if constexpr (requires { one.total_steps; }) {
      return one.total_steps;
    } else if constexpr (requires { one.total_iters; }) {
      return one.total_iters;
    } else if constexpr (requires { one.t_max; }) {
      return one.t_max;
    } else {
      return 0;
    }
  };
  return std::visit(steps, rule);
}

void check_rule(const LrRule& rule, const Optimizer& optimizer) {
  std::visit([&](const auto& one) { check(one, optimizer); }, rule);
}

}  // namespace lockstep::optim::detail
