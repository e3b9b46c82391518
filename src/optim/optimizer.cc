#include "lockstep/optim/optimizer.h"

#include <algorithm>

#include "lockstep/tensor/kernels.h"
#include "lockstep/trace/recorder.h"

namespace lockstep::optim {

Optimizer::Optimizer(std::vector<Variable> parameters) : parameters_(std::move(parameters)) {
  LOCKSTEP_CHECK(!parameters_.empty(), "optimizer got an empty parameter list");
}

std::size_t Optimizer::add_state(std::string name) {
  state_.push_back({.name = std::move(name), .tensors = std::vector<Tensor>(parameters_.size())});
  return state_.size() - 1;
}

std::size_t Optimizer::add_count() {
  const std::size_t list = add_state("step");
  state_[list].is_count = true;
  return list;
}

const Tensor& Optimizer::state_of(std::size_t list, std::size_t i, double value) {
  Tensor& tensor = state_[list].tensors[i];
  if (!tensor.defined()) {
    const Tensor& data = parameters_[i].data();
    tensor = state_[list].is_count
                 ? Tensor::zeros(data.runtime(), Shape{}, DType::kF32)
                 : Tensor::full(data.runtime(), data.shape(), data.dtype(), value);
  }
  return tensor;
}

double Optimizer::advance_count(std::size_t list, std::size_t i) {
  float* const count = state_of(list, i).data<float>();
  *count += 1.0F;
  return static_cast<double>(*count);
}

void Optimizer::step() {
  Recorder* recorder = runtime().recorder();
  if (recorder == nullptr) {
    update_all();
    return;
  }
  prepare_groups(*recorder);
  record_used(*recorder);
  update_all();
  record_step(*recorder);
}

void Optimizer::update_all() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i].grad().defined()) continue;
    update(i);
    parameters_[i].data().storage()->bump_version();
  }
  if (rounding_) round_all();
}

void Optimizer::round_all() const {
  Kernels& kernels = runtime().kernels();
  const auto round = [&](const Tensor& tensor) {
    if (!tensor.defined()) return;
    kernels.round_to_grid(tensor, tensor, rounding_->bits, rounding_->limit);
    tensor.storage()->bump_version();
  };
  for (const Variable& parameter : parameters_) round(parameter.data());
  for (const StateList& list : state_) {
    if (list.is_count) continue;
    for (const Tensor& tensor : list.tensors) round(tensor);
  }
}

void Optimizer::zero_grad(bool set_to_none) const {
  for (const Variable& parameter : parameters_) {
    if (set_to_none) {
      parameter.set_grad(Tensor());
    } else if (parameter.grad().defined()) {
      runtime().kernels().fill(parameter.grad(), 0.0);
    }
  }
}

void Optimizer::prepare_groups(Recorder& recorder) {
  if (grouped_for_ == &recorder && grouped_wrappers_ == recorder.n_wrappers()) return;
  groups_.clear();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i].requires_grad()) continue;
    const std::int32_t wrapper = parameters_[i].state().wrapper;
    auto group = std::find_if(groups_.begin(), groups_.end(), [wrapper](const RecordGroup& other) {
      return other.wrapper == wrapper;
    });
    if (group == groups_.end()) {
      groups_.push_back({.wrapper = wrapper, .indices = {}, .names = {}, .state_names = {}});
      group = std::prev(groups_.end());
    }
    group->indices.push_back(i);
  }
  for (RecordGroup& group : groups_) name_group(group, recorder.names());
  grouped_for_ = &recorder;
  grouped_wrappers_ = recorder.n_wrappers();
}

void Optimizer::name_group(RecordGroup& group, NameTable& names) const {
  std::vector<NameId> parameter_names;
  for (const std::size_t i : group.indices) {
    const NameId given = parameters_[i].state().name;
    const bool named = given != kNoName;
    parameter_names.push_back(named ? given : names.intern("parameter." + std::to_string(i)));
  }
  std::vector<NameId> state_names;
  for (const StateList& list : state_) {
    for (const NameId name : parameter_names) {
      state_names.push_back(names.intern(std::string(names.text(name)) + "/" + list.name));
    }
  }
  group.names = names.intern_layout(parameter_names);
  group.state_names = names.intern_layout(state_names);
}

void Optimizer::record_used(Recorder& recorder) {
  for (const RecordGroup& group : groups_) {
    scratch_.clear();
    for (const std::size_t i : group.indices) scratch_.push_back(parameters_[i].grad());
    recorder.record_grads(GradPoint::kUsed, group.names, scratch_, group.wrapper);
  }
  scratch_.clear();  // Keeps the capacity, not the gradients.
}

void Optimizer::record_step(Recorder& recorder) {
  for (const RecordGroup& group : groups_) {
    scratch_.clear();
    for (const std::size_t i : group.indices) scratch_.push_back(parameters_[i].data());
    recorder.record_states(
        StateKind::kParam, StatePoint::kStep, group.names, scratch_, group.wrapper);

    scratch_.clear();
    for (const StateList& list : state_) {
      for (const std::size_t i : group.indices) scratch_.push_back(list.tensors[i]);
    }
    if (!scratch_.empty()) {
      recorder.record_states(
          StateKind::kOptimizer, StatePoint::kStep, group.state_names, scratch_, group.wrapper);
    }
    recorder.record(StepEvent{.lr = lr_, .layout = group.names}, group.wrapper);

    Position& position = recorder.position(group.wrapper);
    position.opt += 1;
    position.micro = -1;
  }
  scratch_.clear();
}

}  // namespace lockstep::optim
