#include "lockstep/nn/module.h"

#include <algorithm>
#include <map>
#include <utility>

#include "lockstep/autograd/sparse_rows.h"
#include "lockstep/tensor/kernels.h"
#include "lockstep/trace/recorder.h"

namespace lockstep::nn {

// NOLINTNEXTLINE(misc-no-recursion): as deep as modules are nested.
void Module::visit(Module& module, std::string prefix, std::pmr::vector<Visit>& seen) {
  const auto same = [&module](const Visit& other) { return other.module == &module; };
  if (std::any_of(seen.begin(), seen.end(), same)) return;
  const std::size_t own = seen.size();
  seen.push_back({std::move(prefix), &module});
  for (const Child& child : module.children_) {
    visit(*child.module, seen[own].prefix + child.name + ".", seen);
  }
}

std::pmr::vector<Module::Visit> Module::visits() const {
  std::pmr::vector<Visit> seen(&runtime_->pool());
  constexpr std::size_t kFewModules = 8;
  seen.reserve(kFewModules);
  // The root's own constness ends here: its children are reachable through non-const pointers
  // anyway.
  visit(const_cast<Module&>(*this), "", seen);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  return seen;
}

std::size_t Module::n_listed(std::span<const Visit> modules,
                             std::vector<NamedVariable> Module::*list) {
  std::size_t n = 0;
  for (const Visit& visit : modules) n += (visit.module->*list).size();
  return n;
}

std::vector<NamedVariable> Module::collect(std::vector<NamedVariable> Module::*list,
                                           bool remove_duplicate) const {
  const std::pmr::vector<Visit> modules = visits();
  std::vector<NamedVariable> all;
  all.reserve(n_listed(modules, list));
  for (const Visit& visit : modules) {
    for (const NamedVariable& entry : visit.module->*list) {
      const auto same = [&entry](const NamedVariable& other) {
        return other.variable == entry.variable;
      };
      if (remove_duplicate && std::any_of(all.begin(), all.end(), same)) continue;
      all.push_back({.name = visit.prefix + entry.name, .variable = entry.variable});
    }
  }
  return all;
}

std::vector<NamedVariable> Module::named_parameters(bool remove_duplicate) const {
  return collect(&Module::parameters_, remove_duplicate);
}

std::vector<NamedVariable> Module::named_buffers() const {
  return collect(&Module::buffers_, true);
}

std::vector<Variable> Module::parameters() const {
  const std::pmr::vector<Visit> modules = visits();
  std::vector<Variable> variables;
  variables.reserve(n_listed(modules, &Module::parameters_));
  for (const Visit& visit : modules) {
    for (const NamedVariable& entry : visit.module->parameters_) {
      const bool known =
          std::find(variables.begin(), variables.end(), entry.variable) != variables.end();
      if (!known) variables.push_back(entry.variable);
    }
  }
  return variables;
}

std::string Module::descriptions() const {
  std::string all;
  for (const Visit& visit : visits()) {
    const std::string own = visit.module->description();
    if (own.empty()) continue;
    if (!all.empty()) all += "; ";
    if (!visit.prefix.empty()) all.append(visit.prefix, 0, visit.prefix.size() - 1).append(": ");
    all += own;
  }
  return all;
}

bool Module::record_mode(bool training) const {
  Recorder* const recorder = runtime_->recorder();
  if (recorder == nullptr) return false;
  const std::vector<NamedVariable> parameters = named_parameters();
  if (parameters.empty()) return false;
  const std::int32_t wrapper = parameters.front().variable.state().wrapper;
  StateSource* const source = recorder->source(wrapper);
  // A part of a model may evaluate for good, as frozen batch norms do.
  if (source == nullptr || source->n_parameters() > parameters.size()) return false;
  if (training) source->record_state(StatePoint::kEval);
  const PhaseKind phase = training ? PhaseKind::kTrain : PhaseKind::kEval;
  recorder->record(PhaseEvent{.kind = phase}, wrapper);
  return true;
}

void Module::record_evaluated(const Variable& x) const {
  Recorder* const recorder = runtime_->recorder();
  if (recorder == nullptr || !recorder->options().losses || runtime_->grad_enabled()) return;
  const Shape& shape = x.shape();
  if (shape.n_dims() == 0) return;
  recorder->record(LossEvent{.function = recorder->literal("forward"),
                             .reduction = LossReduction::kGiven,
                             .n_rows = shape[0],
                             .grad = false},
                   recorder->current_wrapper());
}

void Module::train(bool on) {
  if (on != training_) is_evaluated_ = record_mode(on) && !on;
  for (const Visit& visit : visits()) visit.module->training_ = on;
}

void Module::record_cleared(bool to_none) const {
  Recorder* const recorder = runtime_->recorder();
  if (recorder == nullptr || !recorder->options().zero_grads) return;
  std::map<std::int32_t, std::vector<NameId>> by_wrapper;
  for (const NamedVariable& entry : named_parameters()) {
    if (!entry.variable.requires_grad()) continue;
    by_wrapper[entry.variable.state().wrapper].push_back(recorder->names().intern(entry.name));
  }
  for (const auto& [wrapper, names] : by_wrapper) {
    recorder->record(
        ZeroGradEvent{.to_none = to_none, .layout = recorder->names().intern_layout(names)},
        wrapper);
  }
}

void Module::zero_grad(bool set_to_none) const {
  record_cleared(set_to_none);
  for (const Visit& visit : visits()) {
    for (const NamedVariable& entry : visit.module->parameters_) {
      const Variable& variable = entry.variable;
      if (set_to_none) {
        variable.set_grad(Tensor());
      } else if (variable.state().sparse_grad) {
        variable.state().sparse_grad = variable.state().sparse_grad->zeroed();
      } else if (variable.grad().defined()) {
        runtime_->kernels().fill(variable.grad(), 0.0);
      }
    }
  }
}

void Module::reset_parameters(Generator& generator) {
  const std::pmr::vector<Visit> all = visits();
  for (const Visit& visit : all) visit.module->reset_own_parameters(generator);
  for (std::size_t i = all.size(); i-- > 0;) all[i].module->redraw_parameters(generator);
}

Variable Module::register_parameter(std::string name, Tensor values) {
  return register_parameter(std::move(name), Variable(std::move(values), true));
}

Variable Module::register_parameter(std::string name, const Variable& shared) {
  constexpr std::size_t kUsual = 2;  // A weight and a bias.
  if (parameters_.empty()) parameters_.reserve(kUsual);
  parameters_.push_back({.name = std::move(name), .variable = shared});
  return shared;
}

Variable Module::register_buffer(std::string name, Tensor values) {
  buffers_.push_back({.name = std::move(name), .variable = Variable(std::move(values))});
  return buffers_.back().variable;
}

void Module::register_module(std::string name, Module& module) {
  constexpr std::size_t kFew = 4;
  if (children_.empty()) children_.reserve(kFew);
  children_.push_back({.name = std::move(name), .module = &module});
}

}  // namespace lockstep::nn
