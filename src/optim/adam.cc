#include "lockstep/optim/adam.h"

#include <array>
#include <stdexcept>

#include "lockstep/optim/detail/argument_errors.h"
#include "lockstep/tensor/kernels.h"

namespace lockstep::optim {
namespace {

// Places in state().
constexpr std::size_t kAdamStep = 0;
constexpr std::size_t kMean = 1;
constexpr std::size_t kSquare = 2;
constexpr std::size_t kLargest = 3;

void validate(const AdamOptions& options) {
  const auto is_decay = [](double beta) { return beta >= 0.0 && beta < 1.0; };
  detail::check_argument(options.lr >= 0.0, "learning rate", options.lr);
  detail::check_argument(options.eps >= 0.0, "epsilon value", options.eps);
  detail::check_argument(is_decay(options.beta1), "beta parameter at index 0", options.beta1);
  detail::check_argument(is_decay(options.beta2), "beta parameter at index 1", options.beta2);
  detail::check_argument(options.weight_decay >= 0.0, "weight_decay value", options.weight_decay);
}

}  // namespace

Adam::Adam(std::vector<ParamGroup> groups, const AdamOptions& options, bool decoupled)
    : Optimizer(
          std::move(groups),
          {.lr = options.lr, .weight_decay = options.weight_decay, .momentum = options.beta1}),
      options_(options),
      decoupled_(decoupled) {
  validate(options);
  add_count();
  add_state("exp_avg");
  add_state("exp_avg_sq");
  if (options.amsgrad) add_state("max_exp_avg_sq");
}

OptimizerInfo Adam::info() const {
  return {.kind = decoupled_ ? "adamw" : "adam",
          .momentum = "beta1",
          .options = {{"beta2", options_.beta2},
                      {"eps", options_.eps},
                      {"amsgrad", options_.amsgrad ? 1.0 : 0.0},
                      {"maximize", options_.maximize ? 1.0 : 0.0}}};
}

void Adam::update_rows(std::size_t /*i*/, const SparseRows& /*rows*/, const Group& /*group*/) {
  throw std::runtime_error(
      decoupled_ ? "AdamW does not support sparse gradients"
                 : "Adam does not support sparse gradients, please consider SparseAdam instead");
}

void Adam::update(std::size_t i, const Group& group) {
  const AdamUpdate update{.lr = group.lr,
                          .beta1 = *group.momentum,
                          .beta2 = options_.beta2,
                          .eps = options_.eps,
                          .weight_decay = group.weight_decay,
                          .decoupled = decoupled_,
                          .amsgrad = options_.amsgrad,
                          .maximize = options_.maximize,
                          .lerp = options_.compat == Compat::kTorch2,
                          .step = advance_count(kAdamStep, i)};
  std::array<Tensor, 3> moments = {state_of(kMean, i), state_of(kSquare, i), Tensor()};
  if (options_.amsgrad) moments[2] = state_of(kLargest, i);
  const Variable& parameter = parameters()[i];
  const std::size_t n_moments = options_.amsgrad ? 3 : 2;
  runtime().kernels().adam(
      parameter.data(), parameter.grad(), std::span(moments).first(n_moments), update);
}

}  // namespace lockstep::optim
