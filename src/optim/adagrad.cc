#include "lockstep/optim/adagrad.h"

#include <stdexcept>

#include "lockstep/optim/detail/argument_errors.h"
#include "lockstep/optim/detail/row_updates.h"
#include "lockstep/tensor/kernels.h"

namespace lockstep::optim {
namespace {

constexpr std::size_t kAdagradStep = 0;
constexpr std::size_t kSum = 1;

void validate(const AdagradOptions& options) {
  const double initial = options.initial_accumulator_value;
  detail::check_argument(options.lr >= 0.0, "learning rate", options.lr);
  detail::check_argument(options.lr_decay >= 0.0, "lr_decay value", options.lr_decay);
  detail::check_argument(options.weight_decay >= 0.0, "weight_decay value", options.weight_decay);
  detail::check_argument(initial >= 0.0, "initial_accumulator_value value", initial);
  detail::check_argument(options.eps >= 0.0, "epsilon value", options.eps);
}

}  // namespace

Adagrad::Adagrad(std::vector<ParamGroup> groups, const AdagradOptions& options)
    : Optimizer(std::move(groups), {.lr = options.lr, .weight_decay = options.weight_decay}),
      options_(options) {
  validate(options);
  add_count();
  add_state("sum");
  for (std::size_t i = 0; i < this->parameters().size(); ++i) {
    state_of(kAdagradStep, i);
    state_of(kSum, i, options.initial_accumulator_value);
  }
}

OptimizerInfo Adagrad::info() const {
  return {.kind = "adagrad",
          .options = {{"lr_decay", options_.lr_decay},
                      {"initial_accumulator_value", options_.initial_accumulator_value},
                      {"eps", options_.eps},
                      {"maximize", options_.maximize ? 1.0 : 0.0}}};
}

void Adagrad::update_rows(std::size_t i, const SparseRows& rows, const Group& group) {
  const double step = advance_count(kAdagradStep, i);
  if (group.weight_decay != 0.0) {
    throw std::runtime_error("weight_decay option is not compatible with sparse gradients");
  }
  const double rate = group.lr / (1.0 + ((step - 1.0) * options_.lr_decay));
  const Ref<SparseRows> grad = detail::descent_rows(rows, options_.maximize);
  add_rows(
      parameters()[i].data(), *detail::adagrad_rows(*grad, state_of(kSum, i), options_.eps), -rate);
}

void Adagrad::update(std::size_t i, const Group& group) {
  const AdagradUpdate update{.lr = group.lr,
                             .lr_decay = options_.lr_decay,
                             .weight_decay = group.weight_decay,
                             .eps = options_.eps,
                             .maximize = options_.maximize,
                             .step = advance_count(kAdagradStep, i)};
  const Variable& parameter = parameters()[i];
  runtime().kernels().adagrad(parameter.data(), parameter.grad(), state_of(kSum, i), update);
}

}  // namespace lockstep::optim
