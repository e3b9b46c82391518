#include "lockstep/optim/detail/step_record.h"

#include <algorithm>
#include <string>
#include <utility>

#include "lockstep/autograd/listed_module.h"

namespace lockstep::optim::detail {

namespace {

double lr_of(std::span<const Group> groups, std::size_t i) {
  for (const Group& group : groups) {
    if (i < group.end) return group.lr;
  }
  return groups.back().lr;
}

}  // namespace

StepRecord::Mark StepRecord::mark_of(const Variable& parameter) {
  const VariableState& state = parameter.state();
  return {&state, state.name, state.wrapper, parameter.requires_grad()};
}

bool StepRecord::is_current(const Recorder& recorder, const OptimizerView& view) const {
  if (recorder_ != &recorder || n_lists_ != view.state.size()) return false;
  return std::equal(
      view.parameters.begin(),
      view.parameters.end(),
      marks_.begin(),
      marks_.end(),
      [](const Variable& parameter, const Mark& mark) { return mark_of(parameter) == mark; });
}

void StepRecord::prepare(Recorder& recorder, const OptimizerView& view) {
  if (is_current(recorder, view)) return;
  const bool same = recorder_ == &recorder && marks_.size() == view.parameters.size();
  recorder_ = &recorder;
  n_lists_ = view.state.size();
  if (take_marks(view.parameters, same)) told_.clear();
  name_unnamed(view.parameters);

  parts_.clear();
  for (std::size_t i = 0; i < marks_.size(); ++i) {
    if (marks_[i].trained) part_of(marks_[i].wrapper).indices.push_back(i);
  }
  for (Part& part : parts_) {
    part.first = part.indices.front();
    put_in_order(part.indices, part.wrapper);
    part.data.reserve(part.indices.size());
    for (const std::size_t i : part.indices) part.data.push_back(&view.parameters[i].data());
    name_part(part, view.state);
  }
}

// Ranks may list the same parameters in different orders. Their events must meet all the same, so those of a wrapper
// come in the order in which wrapping named them.
void StepRecord::put_in_order(std::span<std::size_t> indices, std::int32_t wrapper) const {
  if (wrapper < 0) return;
  const auto name = [this](std::size_t i) { return marks_[i].name; };
  if (!std::ranges::is_sorted(indices, {}, name)) std::ranges::sort(indices, {}, name);
}

bool StepRecord::take_marks(std::span<const Variable> parameters, bool same_list) {
  bool renamed = !same_list;
  marks_.resize(parameters.size());
  for (std::size_t i = 0; i < marks_.size(); ++i) {
    const Mark now = mark_of(parameters[i]);
    renamed = renamed || now.name != marks_[i].name || now.wrapper != marks_[i].wrapper;
    marks_[i] = now;
  }
  return renamed;
}

// A name that a module has is kept for good; beside a wrapper it might be another parameter's.
void StepRecord::name_unnamed(std::span<const Variable> parameters) {
  unnamed_.clear();
  if (std::ranges::find(marks_, kNoName, &Mark::name) == marks_.end()) return;
  const bool any_wrapped = recorder_->n_wrappers() > 0;
  for (const std::string& name : any_wrapped ? places_of(parameters) : names_of(parameters)) {
    unnamed_.push_back(recorder_->names().intern(name));
  }
  for (std::size_t i = 0; i < marks_.size() && !any_wrapped; ++i) {
    if (marks_[i].name != kNoName) continue;
    marks_[i].name = parameters[i].state().name = unnamed_[i];
  }
}

StepRecord::Part& StepRecord::part_of(std::int32_t wrapper) {
  const auto known = std::find_if(parts_.begin(), parts_.end(), [wrapper](const Part& part) {
    return part.wrapper == wrapper;
  });
  if (known != parts_.end()) return *known;
  std::pmr::vector<std::size_t> indices(parts_.get_allocator());
  indices.reserve(marks_.size());
  return parts_.emplace_back(Part{.wrapper = wrapper,
                                  .indices = std::move(indices),
                                  .data = std::pmr::vector<const Tensor*>(parts_.get_allocator())});
}

NameId StepRecord::name_of(std::size_t i) const {
  const NameId given = marks_[i].name;
  return given != kNoName ? given : unnamed_[i];
}

void StepRecord::name_part(Part& part, std::span<const StateList> state) {
  NameTable& names = recorder_->names();
  names_.clear();
  for (const std::size_t i : part.indices) names_.push_back(name_of(i));
  part.names = names.intern_layout(names_);
  names_.clear();
  for (const StateList& list : state) {
    for (const std::size_t i : part.indices) {
      names_.push_back(names.intern(std::string(names.text(name_of(i))) + "/" + list.name));
    }
  }
  part.state_names = names.intern_layout(names_);
}

bool StepRecord::has_news(const OptimizerView& view) const {
  return !std::equal(view.groups.begin(),
                     view.groups.end(),
                     told_.begin(),
                     told_.end(),
                     [](const GroupOptions& now, const GroupOptions& last) { return now == last; });
}

void StepRecord::record_options(const OptimizerView& view, const OptimizerInfo& info) {
  for (std::size_t g = 0; g < view.groups.size(); ++g) {
    const GroupOptions& now = view.groups[g];
    if (g < told_.size() && told_[g] == now) continue;
    if (g < told_.size()) {
      told_[g] = now;
    } else {
      told_.push_back(now);
    }
    record_group(view, g, info);
  }
}

void StepRecord::record_group(const OptimizerView& view, std::size_t g, const OptimizerInfo& info) {
  NameTable& names = recorder_->names();
  const Group& group = view.groups[g];
  const std::size_t n_most = std::max(5 + info.options.size(), group.end - group.first);
  names_.clear();
  names_.reserve(n_most);
  values_.clear();
  values_.reserve(n_most);
  const auto add = [this](NameId name, double value) {
    names_.push_back(name);
    values_.push_back(value);
  };
  add(recorder_->literal("lr"), group.lr);
  add(recorder_->literal("weight_decay"), group.weight_decay);
  if (group.momentum) add(names.intern(info.momentum), *group.momentum);
  for (const OptimizerOption& option : info.options) add(names.intern(option.name), option.value);
  if (group.schedule.total > 0) {
    add(names.intern(kScheduleTotal), static_cast<double>(group.schedule.total));
    add(names.intern(kScheduleMade), static_cast<double>(group.schedule.made));
  }
  OptimizerEvent event{.kind = names.intern(info.kind),
                       .group = static_cast<std::int32_t>(g),
                       .options = names.intern_layout(names_),
                       .values = values_};
  for (auto wrapper = next_wrapper(group, std::nullopt); wrapper;
       wrapper = next_wrapper(group, wrapper)) {
    indices_.clear();
    for (std::size_t i = group.first; i < group.end; ++i) {
      if (marks_[i].wrapper == *wrapper) indices_.push_back(i);
    }
    put_in_order(indices_, *wrapper);
    names_.clear();
    for (const std::size_t i : indices_) names_.push_back(name_of(i));
    event.layout = names.intern_layout(names_);
    recorder_->record(event, *wrapper);
  }
}

std::optional<std::int32_t> StepRecord::next_wrapper(const Group& group,
                                                     std::optional<std::int32_t> last) const {
  std::optional<std::int32_t> next;
  for (std::size_t i = group.first; i < group.end; ++i) {
    const std::int32_t wrapper = marks_[i].wrapper;
    if ((!last || wrapper > *last) && (!next || wrapper < *next)) next = wrapper;
  }
  return next;
}

// How ranks began, and what has become of parameters that they may train alone: nothing but their values shows that a
// loop without a wrapper has averaged them since the step before.
void StepRecord::record_found(const Part& part) {
  if (part.wrapper >= 0) return;
  if (alone_.names == kNoLayout) {
    recorder_->record_states(
        StateKind::kParam, StatePoint::kWrap, part.names, part.data, part.wrapper);
  }
  if (part.names != alone_.names) return;
  if (recorder_->position(part.wrapper).opt != alone_.opt)
    return;  // Another optimizer's step came between.
  recorder_->record_lone(LonePoint::kFound, part.names, part.data, part.wrapper);
}

void StepRecord::record_used(const OptimizerView& view) {
  for (const Part& part : parts_) {
    record_found(part);
    StateSource* const source = recorder_->source(part.wrapper);
    if (source != nullptr && source->record_used()) continue;
    used_.reserve(part.indices.size());
    for (const std::size_t i : part.indices) used_.add(view.parameters[i]);
    recorder_->record_grads(GradPoint::kUsed, part.names, used_.list(), part.wrapper);
    used_.clear();
  }
}

void StepRecord::record_cleared(bool to_none) {
  for (const Part& part : parts_) {
    recorder_->record(ZeroGradEvent{.to_none = to_none, .layout = part.names}, part.wrapper);
  }
}

void StepRecord::record_tensors(const OptimizerView& view, const Part& part) {
  recorder_->record_states(
      StateKind::kParam, StatePoint::kStep, part.names, part.data, part.wrapper);
  record_lists(view, part, StatePoint::kStep);
}

void StepRecord::record_lists(const OptimizerView& view, const Part& part, StatePoint point) {
  if (view.state.empty()) return;
  scratch_.clear();
  for (const StateList& list : view.state) {
    for (const std::size_t i : part.indices) scratch_.push_back(&list.tensors[i]);
  }
  recorder_->record_states(StateKind::kOptimizer, point, part.state_names, scratch_, part.wrapper);
}

void StepRecord::record_loaded(const OptimizerView& view) {
  for (const Part& part : parts_) record_lists(view, part, StatePoint::kLoad);
  scratch_.clear();
}

void StepRecord::record_step(const OptimizerView& view, const StepOutcome& outcome) {
  for (const Part& part : parts_) {
    record_tensors(view, part);
    if (StateSource* source = recorder_->source(part.wrapper)) {
      source->record_frozen(StatePoint::kStep);
    }
    const bool alone = !recorder_->take_reduced(part.wrapper) && !outcome.found_inf;
    recorder_->record_auxiliary(StatePoint::kStep, part.wrapper);
    recorder_->record(StepEvent{.lr = lr_of(view.groups, part.first),
                                .scale = outcome.scale,
                                .found_inf = outcome.found_inf,
                                .skipped = outcome.found_inf,
                                .layout = part.names},
                      part.wrapper);

    Position& position = recorder_->position(part.wrapper);
    if (!outcome.found_inf) position.opt += 1;
    position.micro = -1;
    StateSource* const source = recorder_->source(part.wrapper);
    if (alone && source != nullptr) source->record_lone(LonePoint::kStepped);
    if (part.wrapper >= 0 || outcome.found_inf) continue;
    alone_ = {part.names, position.opt};
    recorder_->record_lone(LonePoint::kStepped, part.names, part.data, part.wrapper);
  }
  scratch_.clear();
}

}  // namespace lockstep::optim::detail
