#include "lockstep/optim/sgd.h"

#include <stdexcept>
#include <string>

#include "lockstep/autograd/sparse_rows.h"
#include "lockstep/base/text.h"
#include "lockstep/tensor/kernels.h"

namespace lockstep::optim {
namespace {

void check_not_negative(double value, const std::string& what) {
  if (value < 0.0) throw std::invalid_argument("Invalid " + what + " value: " + exact(value));
}

void validate(const SgdOptions& options) {
  if (options.lr < 0.0) {
    throw std::invalid_argument("Invalid learning rate: " + exact(options.lr));
  }
  check_not_negative(options.momentum, "momentum");
  check_not_negative(options.weight_decay, "weight_decay");
  if (options.nesterov && (options.momentum <= 0.0 || options.dampening != 0.0)) {
    throw std::invalid_argument("Nesterov momentum requires a momentum and zero dampening");
  }
}

}  // namespace

Sgd::Sgd(std::vector<ParamGroup> groups, const SgdOptions& options)
    : Optimizer(
          std::move(groups),
          {.lr = options.lr, .weight_decay = options.weight_decay, .momentum = options.momentum}),
      options_(options) {
  validate(options);
  if (any_momentum()) add_state("momentum_buffer");
}

OptimizerInfo Sgd::info() const {
  return {.kind = "sgd",
          .options = {{"dampening", options_.dampening},
                      {"nesterov", options_.nesterov ? 1.0 : 0.0},
                      {"maximize", options_.maximize ? 1.0 : 0.0}}};
}

void Sgd::update_rows(std::size_t i, const SparseRows& rows, const Group& group) {
  if (group.weight_decay != 0.0) {
    throw std::runtime_error(
        "add(sparse, dense) is not supported. Use add(dense, sparse) instead.");
  }
  if (*group.momentum != 0.0) {
    throw std::runtime_error("SGD with momentum does not support sparse gradients here");
  }
  add_rows(parameters()[i].data(), rows, options_.maximize ? group.lr : -group.lr);
}

void Sgd::update(std::size_t i, const Group& group) {
  const Variable& parameter = parameters()[i];
  const Tensor& grad = parameter.grad();
  SgdUpdate update{.lr = group.lr,
                   .momentum = *group.momentum,
                   .dampening = options_.dampening,
                   .weight_decay = group.weight_decay,
                   .nesterov = options_.nesterov,
                   .maximize = options_.maximize};
  Tensor buffer;
  if (update.momentum != 0.0) {
    if (state().empty()) add_state("momentum_buffer");  // A schedule has switched it on.
    Tensor& kept = state()[0].tensors[i];
    update.first_step = !kept.defined();
    if (update.first_step) kept = Tensor::empty(grad.runtime(), grad.shape(), grad.dtype());
    buffer = kept;
  }
  runtime().kernels().sgd(parameter.data(), grad, buffer, update);
}

}  // namespace lockstep::optim
