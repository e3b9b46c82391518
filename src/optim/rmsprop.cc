#include "lockstep/optim/rmsprop.h"

#include <array>

#include "lockstep/optim/detail/argument_errors.h"
#include "lockstep/tensor/kernels.h"

namespace lockstep::optim {
namespace {

constexpr std::size_t kStep = 0;

void validate(const RmspropOptions& options) {
  detail::check_argument(options.lr >= 0.0, "learning rate", options.lr);
  detail::check_argument(options.eps >= 0.0, "epsilon value", options.eps);
  detail::check_argument(options.momentum >= 0.0, "momentum value", options.momentum);
  detail::check_argument(options.weight_decay >= 0.0, "weight_decay value", options.weight_decay);
  detail::check_argument(options.alpha >= 0.0, "alpha value", options.alpha);
}

}  // namespace

Rmsprop::Rmsprop(std::vector<Variable> parameters, const RmspropOptions& options)
    : Optimizer(std::move(parameters)), options_(options) {
  validate(options);
  set_lr(options.lr);
  add_count();
  add_state("square_avg");
  if (options.momentum > 0.0) add_state("momentum_buffer");
  if (options.centered) add_state("grad_avg");
}

void Rmsprop::update(std::size_t i) {
  const RmspropUpdate update{.lr = lr(),
                             .alpha = options_.alpha,
                             .eps = options_.eps,
                             .weight_decay = options_.weight_decay,
                             .momentum = options_.momentum,
                             .centered = options_.centered,
                             .maximize = options_.maximize,
                             .lerp = options_.compat == Compat::kTorch2};
  advance_count(kStep, i);
  std::array<Tensor, 3> averages;
  const std::size_t n_averages = state().size() - 1;
  for (std::size_t k = 0; k < n_averages; ++k) averages[k] = state_of(k + 1, i);
  const Variable& parameter = parameters()[i];
  runtime().kernels().rmsprop(
      parameter.data(), parameter.grad(), std::span(averages).first(n_averages), update);
}

}  // namespace lockstep::optim
