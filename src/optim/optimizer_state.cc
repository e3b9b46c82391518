// What an optimizer has learned and is set to, as a value: taken out, kept, loaded into another.
#include <fmt/core.h>
#include <stdexcept>

#include "lockstep/optim/detail/step_record.h"
#include "lockstep/optim/optimizer.h"
#include "lockstep/tensor/kernels.h"

namespace lockstep::optim {

namespace {

void check_groups(std::span<const Group> own, std::span<const Group> loaded) {
  if (own.size() != loaded.size()) {
    throw std::invalid_argument("loaded state dict has a different number of parameter groups");
  }
  for (std::size_t g = 0; g < own.size(); ++g) {
    if (own[g].end - own[g].first == loaded[g].end - loaded[g].first) continue;
    throw std::invalid_argument(
        "loaded state dict contains a parameter group that doesn't match the size of optimizer's "
        "group");
  }
}

/// A count is a scalar; all else has its parameter's shape.
void check_shapes(std::span<const Variable> parameters, const StateList& list) {
  if (list.tensors.size() > parameters.size()) {
    throw std::invalid_argument(fmt::format("loaded state dict has {} of {} parameters for {}",
                                            list.name,
                                            list.tensors.size(),
                                            parameters.size()));
  }
  for (std::size_t i = 0; i < list.tensors.size(); ++i) {
    const Tensor& values = list.tensors[i];
    if (!values.defined() || list.is_count || values.shape() == parameters[i].shape()) continue;
    throw std::invalid_argument(
        fmt::format("loaded state dict has {} of shape {} for parameter {}, which has shape {}",
                    list.name,
                    values.shape().text(),
                    i,
                    parameters[i].shape().text()));
  }
}

}  // namespace

OptimizerState OptimizerState::clone() const {
  OptimizerState copy = *this;
  for (StateList& list : copy.state) {
    for (Tensor& values : list.tensors) {
      if (values.defined()) values = values.clone();
    }
  }
  return copy;
}

OptimizerState Optimizer::state_dict() const { return {.state = state_, .groups = groups_}; }

void Optimizer::load_state_dict(const OptimizerState& from) {
  check_groups(groups_, from.groups);
  for (const StateList& list : from.state) check_shapes(parameters_, list);
  for (StateList& list : state_) list.tensors.assign(parameters_.size(), Tensor());
  for (const StateList& list : from.state) {
    const std::size_t own = add_state(list.name);
    state_[own].is_count = list.is_count;
    for (std::size_t i = 0; i < list.tensors.size(); ++i) {
      const Tensor& values = list.tensors[i];
      if (!values.defined()) continue;
      const DType dtype = list.is_count ? DType::kF32 : parameters_[i].data().dtype();
      const Tensor converted = values.to(dtype);
      state_[own].tensors[i] = converted.is_alias_of(values) ? values.clone() : converted;
    }
  }
  groups_ = from.groups;
  Recorder* const recorder = runtime().recorder();
  if (recorder == nullptr) return;
  record_->prepare(*recorder, view());
  record_->record_loaded(view());
}

}  // namespace lockstep::optim
