#include "lockstep/optim/sparse_adam.h"

#include <cmath>
#include <stdexcept>

#include "lockstep/optim/detail/argument_errors.h"
#include "lockstep/optim/detail/row_updates.h"

namespace lockstep::optim {
namespace {

constexpr std::size_t kSparseAdamStep = 0;
constexpr std::size_t kExpAvg = 1;
constexpr std::size_t kExpAvgSq = 2;

bool is_beta(double value) { return value >= 0.0 && value < 1.0; }

void validate(const SparseAdamOptions& options) {
  detail::check_argument(options.lr > 0.0, "learning rate", options.lr);
  detail::check_argument(options.eps > 0.0, "epsilon value", options.eps);
  detail::check_argument(is_beta(options.beta1), "beta parameter at index 0", options.beta1);
  detail::check_argument(is_beta(options.beta2), "beta parameter at index 1", options.beta2);
}

}  // namespace

SparseAdam::SparseAdam(std::vector<ParamGroup> groups, const SparseAdamOptions& options)
    : Optimizer(std::move(groups), {.lr = options.lr, .momentum = options.beta1}),
      options_(options) {
  validate(options);
  add_count();
  add_state("exp_avg");
  add_state("exp_avg_sq");
}

OptimizerInfo SparseAdam::info() const {
  return {.kind = "sparse_adam",
          .momentum = "beta1",
          .options = {{"beta2", options_.beta2},
                      {"eps", options_.eps},
                      {"maximize", options_.maximize ? 1.0 : 0.0}}};
}

void SparseAdam::update(std::size_t /*i*/, const Group& /*group*/) {
  throw std::runtime_error(
      "SparseAdam does not support dense gradients, please consider Adam instead");
}

void SparseAdam::update_rows(std::size_t i, const SparseRows& rows, const Group& group) {
  const double step = advance_count(kSparseAdamStep, i);
  const double correction1 = 1.0 - std::pow(*group.momentum, step);
  const double correction2 = 1.0 - std::pow(options_.beta2, step);
  const detail::RowMoments moments{.beta1 = *group.momentum,
                                   .beta2 = options_.beta2,
                                   .eps = options_.eps,
                                   .step_size = group.lr * std::sqrt(correction2) / correction1};
  const Ref<SparseRows> change =
      detail::sparse_adam_rows(*detail::descent_rows(rows, options_.maximize),
                               state_of(kExpAvg, i),
                               state_of(kExpAvgSq, i),
                               moments);
  add_rows(parameters()[i].data(), *change);
}

}  // namespace lockstep::optim
