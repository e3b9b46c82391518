#include "lockstep/optim/optimizer.h"

#include <algorithm>
#include <fmt/core.h>
#include <iterator>
#include <memory_resource>
#include <stdexcept>
#include <utility>

#include "lockstep/autograd/sparse_rows.h"
#include "lockstep/autograd/user_call.h"
#include "lockstep/optim/detail/step_record.h"
#include "lockstep/tensor/kernels.h"
#include "lockstep/trace/recorder.h"

namespace lockstep::optim {

namespace {

void check_distinct(const std::vector<Variable>& parameters, std::span<const Group> groups) {
  std::pmr::vector<std::pair<const VariableState*, std::size_t>> places(
      &parameters.front().runtime().pool());
  places.reserve(parameters.size());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (std::size_t i = groups[g].first; i < groups[g].end; ++i) {
      places.emplace_back(&parameters[i].state(), g);
    }
  }
  std::sort(places.begin(), places.end());
  for (std::size_t i = 1; i < places.size(); ++i) {
    if (places[i].first != places[i - 1].first) continue;
    throw std::invalid_argument(
        places[i].second == places[i - 1].second
            ? "optimizer contains a parameter group with duplicate parameters"
            : "some parameters appear in more than one parameter group");
  }
}

void check_one_rank(const std::vector<Variable>& parameters) {
  for (const Variable& parameter : parameters) {
    LOCKSTEP_CHECK(
        &parameter.runtime() == &parameters.front().runtime(),
        "an optimizer's parameters must belong to one rank, but these belong to several");
  }
}

}  // namespace

Optimizer::~Optimizer() = default;

Optimizer::Optimizer(std::vector<ParamGroup> groups, const GroupOptions& defaults)
    : defaults_(defaults) {
  groups_.reserve(groups.size());
  for (ParamGroup& given : groups) append(std::move(given));
  LOCKSTEP_CHECK(!parameters_.empty(), "optimizer got an empty parameter list");
  check_distinct(parameters_, groups_);
  check_one_rank(parameters_);
  record_ = std::make_unique<detail::StepRecord>(runtime().pool());
}

void Optimizer::append(ParamGroup given) {
  Group group;
  group.lr = given.lr.value_or(defaults_.lr);
  group.weight_decay = given.weight_decay.value_or(defaults_.weight_decay);
  group.momentum = given.momentum && defaults_.momentum ? given.momentum : defaults_.momentum;
  group.first = parameters_.size();
  for (std::size_t i = 0; i < given.parameters.size(); ++i) {
    LOCKSTEP_CHECK(
        given.parameters[i].defined(),
        fmt::format("parameter {} of the {} that an optimizer was given is undefined, like "
                    "the bias of a layer without one",
                    i,
                    given.parameters.size()));
    given.parameters[i].state().optimized = true;
  }
  if (parameters_.empty()) {
    parameters_ = std::move(given.parameters);
  } else {
    std::move(given.parameters.begin(), given.parameters.end(), std::back_inserter(parameters_));
  }
  group.end = parameters_.size();
  groups_.push_back(group);
}

void Optimizer::add_param_group(ParamGroup group) {
  append(std::move(group));
  check_distinct(parameters_, groups_);
  for (StateList& list : state_) list.tensors.resize(parameters_.size());
}

std::vector<ParamGroup> Optimizer::one_group(std::vector<Variable> parameters) {
  std::vector<ParamGroup> groups(1);
  groups.front().parameters = std::move(parameters);
  return groups;
}

void Optimizer::set_lr(double lr) {
  for (Group& group : groups_) group.lr = lr;
}

bool Optimizer::any_momentum() const {
  return std::any_of(groups_.begin(), groups_.end(), [](const Group& group) {
    return group.momentum.value_or(0.0) != 0.0;
  });
}

void Optimizer::load_state(std::string_view name, std::size_t i, Tensor values) {
  LOCKSTEP_CHECK(
      i < parameters_.size(),
      fmt::format("no parameter {} in this optimizer: it has {}", i, parameters_.size()));
  state_[add_state(std::string(name))].tensors[i] = std::move(values);
}

std::size_t Optimizer::add_state(std::string name) {
  for (std::size_t list = 0; list < state_.size(); ++list) {
    if (state_[list].name == name) return list;
  }
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
  float* const count = state_of(list, i).write<float>();
  *count += 1.0F;
  return static_cast<double>(*count);
}

void Optimizer::step(const CallSite& site) {
  user_call(runtime(), site, [this] { take_step({}); });
}

void Optimizer::step_scaled(double scale, bool found_inf, const CallSite& site) {
  user_call(runtime(), site, [&] { take_step({.scale = scale, .found_inf = found_inf}); });
}

detail::OptimizerView Optimizer::view() const { return {parameters_, groups_, state_}; }

void Optimizer::take_step(const detail::StepOutcome& outcome) {
  runtime().host().check_caller();
  Recorder* const recorder = runtime().recorder();
  if (recorder == nullptr) {
    if (!outcome.found_inf) update_all();
    return;
  }
  OwnReductions* const own = runtime().own_reductions();
  if (own != nullptr) own->before_step(parameters_);
  const detail::OptimizerView before = view();
  record_->prepare(*recorder, before);
  if (record_->has_news(before)) record_->record_options(before, info());
  if (!outcome.found_inf) {
    record_->record_used(before);
    update_all();
    // A momentum that a schedule switched on has added a list of state.
    if (!record_->knows_lists_of(view())) record_->prepare(*recorder, view());
  }
  record_->record_step(view(), outcome);
  if (own != nullptr) own->after_step(parameters_);
}

void Optimizer::update_rows(std::size_t /*i*/, const SparseRows& /*rows*/, const Group& /*group*/) {
  throw std::runtime_error("this optimizer does not support sparse gradients");
}

void Optimizer::update_all() {
  for (const Group& group : groups_) {
    for (std::size_t i = group.first; i < group.end; ++i) {
      if (parameters_[i].state().sparse_grad) {
        update_rows(i, *parameters_[i].state().sparse_grad, group);
      } else if (parameters_[i].grad().defined()) {
        update(i, group);
      } else {
        continue;
      }
      parameters_[i].data().storage()->bump_version();
    }
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
  Recorder* const recorder = runtime().recorder();
  if (recorder != nullptr && recorder->options().zero_grads) {
    record_->prepare(*recorder, view());
    record_->record_cleared(set_to_none);
  }
  for (const Variable& parameter : parameters_) {
    if (set_to_none) {
      parameter.set_grad(Tensor());
    } else if (parameter.state().sparse_grad) {
      parameter.state().sparse_grad = parameter.state().sparse_grad->zeroed();
    } else if (parameter.grad().defined()) {
      runtime().kernels().fill(parameter.grad(), 0.0);
    }
  }
}

}  // namespace lockstep::optim
