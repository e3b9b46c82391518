#include "lockstep/optim/rmsprop.h"

#include <array>
#include <stdexcept>

#include "lockstep/optim/detail/argument_errors.h"
#include "lockstep/tensor/kernels.h"

namespace lockstep::optim {
namespace {

constexpr std::size_t kRmsPropStep = 0;
constexpr std::size_t kSquareAverage = 1;

void validate(const RmspropOptions& options) {
  detail::check_argument(options.lr >= 0.0, "learning rate", options.lr);
  detail::check_argument(options.eps >= 0.0, "epsilon value", options.eps);
  detail::check_argument(options.momentum >= 0.0, "momentum value", options.momentum);
  detail::check_argument(options.weight_decay >= 0.0, "weight_decay value", options.weight_decay);
  detail::check_argument(options.alpha >= 0.0, "alpha value", options.alpha);
}

}  // namespace

Rmsprop::Rmsprop(std::vector<ParamGroup> groups, const RmspropOptions& options)
    : Optimizer(
          std::move(groups),
          {.lr = options.lr, .weight_decay = options.weight_decay, .momentum = options.momentum}),
      options_(options) {
  validate(options);
  add_count();
  add_state("square_avg");
  if (any_momentum()) momentum_list_ = add_state("momentum_buffer");
  if (options.centered) mean_list_ = add_state("grad_avg");
}

OptimizerInfo Rmsprop::info() const {
  return {.kind = "rmsprop",
          .options = {{"alpha", options_.alpha},
                      {"eps", options_.eps},
                      {"centered", options_.centered ? 1.0 : 0.0},
                      {"maximize", options_.maximize ? 1.0 : 0.0}}};
}

void Rmsprop::update_rows(std::size_t /*i*/, const SparseRows& /*rows*/, const Group& /*group*/) {
  throw std::runtime_error("RMSprop does not support sparse gradients");
}

void Rmsprop::update(std::size_t i, const Group& group) {
  const RmspropUpdate update{.lr = group.lr,
                             .alpha = options_.alpha,
                             .eps = options_.eps,
                             .weight_decay = group.weight_decay,
                             .momentum = *group.momentum,
                             .centered = options_.centered,
                             .maximize = options_.maximize,
                             .lerp = options_.compat == Compat::kTorch2};
  advance_count(kRmsPropStep, i);
  std::array<Tensor, 3> averages = {state_of(kSquareAverage, i), Tensor(), Tensor()};
  std::size_t n_averages = 1;
  if (update.momentum > 0.0) {
    if (momentum_list_ == 0) momentum_list_ = add_state("momentum_buffer");
    averages[n_averages++] = state_of(momentum_list_, i);
  }
  if (options_.centered) averages[n_averages++] = state_of(mean_list_, i);
  const Variable& parameter = parameters()[i];
  runtime().kernels().rmsprop(
      parameter.data(), parameter.grad(), std::span(averages).first(n_averages), update);
}

}  // namespace lockstep::optim
