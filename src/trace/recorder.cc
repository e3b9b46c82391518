#include "lockstep/trace/recorder.h"

#include <algorithm>
#include <cmath>
#include <fmt/core.h>
#include <utility>

#include "lockstep/base/check.h"
#include "lockstep/base/host.h"
#include "lockstep/tensor/contents.h"
#include "lockstep/tensor/in_flight.h"
#include "lockstep/tensor/kernels.h"
#include "lockstep/tensor/poison.h"
#include "lockstep/tensor/tensor.h"
#include "lockstep/trace/cohort.h"

namespace lockstep {

namespace {

bool has_sketch(GradPoint point) {
  return point == GradPoint::kInc || point == GradPoint::kPre || point == GradPoint::kPost ||
         point == GradPoint::kUsed;
}

void copy_values(const Tensor& from, std::span<double> to) {
  if (from.dtype() == DType::kF32) {
    const std::span values = from.read_span<float>();
    std::copy(values.begin(), values.end(), to.begin());
  } else if (from.dtype() == DType::kF64) {
    const std::span values = from.read_span<double>();
    std::copy(values.begin(), values.end(), to.begin());
  } else {
    for (std::int64_t i = 0; i < from.n_elems(); ++i) to[static_cast<std::size_t>(i)] = from.at(i);
  }
}

detail::GradPrints::Scope scope_of(const RecordOptions& options,
                                   GradPoint point,
                                   LayoutId layout,
                                   std::int32_t turn) {
  return {.layout = layout, .sketched = options.sketches && has_sketch(point), .turn = turn};
}

bool wants(const RecordOptions& options, GradPoint point) {
  switch (point) {
    case GradPoint::kBase:
      return options.grad_base;
    case GradPoint::kInc:
    case GradPoint::kPre:
    case GradPoint::kRedo:
      return options.grad_local;
    case GradPoint::kPost:
      return options.grad_post;
    case GradPoint::kUsed:
      return options.grad_used;
  }
  return false;
}

TensorFingerprint sketch(const Tensor& grad) {
  const TensorFingerprint print = known_fingerprint(grad);
  Recorder::find_early_read(grad, print.sketch);
  return print;
}

// Apart from its caller, whose way it is not as a rule.
[[gnu::noinline]] void deliver(EventSink& sink,
                               const EventStamp& stamp,
                               detail::BodyRef body,
                               const NameTable& names) {
  Event event{stamp.rank, stamp.index, stamp.time, stamp.at, {}};
  body.kind->copy(body.body, event.body);
  sink.on_event(event, names);
}

// A part of a tensor says nothing of its rest.
bool finds_writes(const RecordOptions& options, std::int32_t wrapper, std::int32_t n_wrappers) {
  return options.states && options.coverage <= 1 && wrapper >= 0 && wrapper < n_wrappers;
}

}  // namespace

Recorder::Recorder(
    Rank rank, Host& host, NameTable& names, Cohort& cohort, const RecordOptions& options)
    : Recorder(rank, host, names, static_cast<EventSink&>(cohort), options) {
  cohort_ = &cohort;
}

std::int32_t Recorder::open_wrapper() {
  of_wrappers_.emplace_back();
  return positions_.open();
}

void Recorder::set_source(std::int32_t wrapper, StateSource* source) {
  LOCKSTEP_CHECK(wrapper >= 0 && wrapper < n_wrappers(),
                 fmt::format("no wrapper {} on this rank: it has {}", wrapper, n_wrappers()));
  of_wrappers_[static_cast<std::size_t>(wrapper)].source = source;
}

StateSource* Recorder::source(std::int32_t wrapper) const {
  const bool known = wrapper >= 0 && wrapper < n_wrappers();
  return known ? of_wrappers_[static_cast<std::size_t>(wrapper)].source : nullptr;
}

std::int32_t Recorder::open_split(const std::string& name) {
  for (std::int32_t nth = 1;; ++nth) {
    const std::string candidate = nth == 1 ? name : name + "/" + std::to_string(nth);
    const auto known = std::find_if(splits_.begin(), splits_.end(), [&](const Split& split) {
      return split.name == candidate;
    });
    if (known == splits_.end()) {
      splits_.push_back({candidate, true});
      return static_cast<std::int32_t>(splits_.size()) - 1;
    }
    if (known->is_open) continue;
    known->is_open = true;
    return static_cast<std::int32_t>(known - splits_.begin());
  }
}

void Recorder::close_split(std::int32_t place) {
  splits_[static_cast<std::size_t>(place)].is_open = false;
}

NameId Recorder::literal(const char* text) {
  for (const auto& [known, id] : literals_) {
    if (known == text) return id;
  }
  return literals_.emplace_back(text, names_->intern(text)).second;
}

void Recorder::continue_run(std::int32_t attempt, std::uint64_t n_events) {
  set_attempt(attempt);
  next_index_ = n_events;
}

void Recorder::write(detail::BodyRef body, std::int32_t wrapper) {
  const EventStamp stamp{rank_, next_index_++, host_->now(), position(wrapper)};
  if (cohort_ == nullptr || !cohort_->joins(stamp, body, *names_)) {
    deliver(*sink_, stamp, body, *names_);
  }
}

const Tensor& Recorder::covered(const Tensor& tensor, std::int32_t wrapper, Tensor& part) const {
  if (covers_whole(tensor)) return tensor;
  const std::int64_t n = tensor.n_elems();
  const std::int64_t most = (n + options_.coverage - 1) / options_.coverage;
  const std::int64_t first = std::min(n, most * (positions_.turn(wrapper) % options_.coverage));
  part = tensor.slice(first, {std::min(most, n - first)});
  return part;
}

Recorder::TensorList Recorder::list_of(std::span<const Tensor> tensors) {
  list_.clear();
  for (const Tensor& tensor : tensors) list_.push_back(&tensor);
  return list_;
}

detail::GradPrints* Recorder::reduced_prints(std::int32_t wrapper) {
  if (wrapper < 0 || wrapper >= n_wrappers()) return nullptr;
  if (cohort_ != nullptr) return &cohort_->reduced_prints(wrapper);
  return &of_wrappers_[static_cast<std::size_t>(wrapper)].reduced_grads;
}

void Recorder::record_prints(GradPoint point,
                             LayoutId layout,
                             TensorList grads,
                             std::int32_t wrapper) {
  const detail::GradPrints::Scope scope =
      scope_of(options_, point, layout, options_.coverage > 1 ? positions_.turn(wrapper) : 0);
  // Averages are the same bytes on all ranks, and an optimizer uses what the reduction left.
  const bool is_shared = point == GradPoint::kPost || point == GradPoint::kUsed;
  detail::GradPrints* const reduced = is_shared ? reduced_prints(wrapper) : nullptr;
  if (reduced != nullptr && reduced->describes(scope, grads)) {
    record(reduced->event(point), wrapper);
  } else if (reduced != nullptr && point == GradPoint::kPost) {
    read_prints(*reduced, scope, grads, wrapper);
    record(reduced->event(point), wrapper);
  } else {
    read_prints(prints_, scope, grads, wrapper);
    record(prints_.event(point), wrapper);
  }
}

void Recorder::read_prints(detail::GradPrints& prints,
                           const detail::GradPrints::Scope& scope,
                           TensorList grads,
                           std::int32_t wrapper) const {
  prints.start(scope, grads.size());
  Tensor slice;
  for (std::size_t i = grads.size(); i-- > 0;) {
    const Tensor& grad = *grads[i];
    if (!grad.defined()) continue;
    const Tensor& part = covered(grad, wrapper, slice);
    prints.set(
        i, grad, part, scope.sketched ? sketch(part) : TensorFingerprint{known_digest(part)});
  }
}

void Recorder::record_grads(GradPoint point,
                            LayoutId layout,
                            std::span<const Tensor> grads,
                            std::int32_t wrapper) {
  record_grads(point, layout, list_of(grads), wrapper);
}

void Recorder::record_states(StateKind kind,
                             StatePoint point,
                             LayoutId layout,
                             std::span<const Tensor> tensors,
                             std::int32_t wrapper) {
  record_states(kind, point, layout, list_of(tensors), wrapper);
}

// A sum names the transfer that its terms were read from too early, as they do.
void Recorder::find_early_read(const Tensor& grad, const Sketch& sketch) {
  if (!std::isnan(sketch.l1)) return;
  InFlight* const in_flight = grad.runtime().in_flight();
  const auto number = poisoned_by(sketch.l1);
  if (in_flight != nullptr && number) in_flight->read_early(*number, {.operation = "a gradient"});
}

void Recorder::record_grads(GradPoint point,
                            LayoutId layout,
                            TensorList grads,
                            std::int32_t wrapper) {
  LOCKSTEP_CHECK(
      names_->layout(layout).size() == grads.size(),
      fmt::format("{} names for {} gradients", names_->layout(layout).size(), grads.size()));
  const bool of_a_wrapper = wrapper >= 0 && wrapper < n_wrappers();
  if (point == GradPoint::kPost && of_a_wrapper) {
    of_wrappers_[static_cast<std::size_t>(wrapper)].reduced = true;
  }
  if (wants(options_, point)) record_prints(point, layout, grads, wrapper);
  if (wants_values(point == GradPoint::kUsed)) {
    record_values_of(grads, layout, value_point(point), wrapper);
  }
}

// What a step has written has never been read before, and small tensors are hardly asked for again: a place
// among what is remembered would cost more than reading them. Most often another rank holds the same.
void Recorder::digest_states(StatePoint point,
                             LayoutId layout,
                             TensorList tensors,
                             std::int32_t wrapper) {
  detail::SharedDigests* const shared =
      cohort_ != nullptr ? cohort_->shared_digests(layout) : nullptr;
  const bool is_step = point == StatePoint::kStep;
  digests_.assign(tensors.size(), 0);
  Tensor slice;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i]->defined()) continue;
    const Tensor& part = is_step ? covered(*tensors[i], wrapper, slice) : *tensors[i];
    const bool is_small = part.n_elems() <= kAlwaysWhole;
    if (is_small && shared != nullptr) {
      digests_[i] = shared->digest(i, part);
    } else if (is_small && is_step) {
      digests_[i] = part.runtime().kernels().digest(part, 0);
    } else {
      digests_[i] = known_digest(part);
    }
  }
}

void Recorder::record_states(
    StateKind kind, StatePoint point, LayoutId layout, TensorList tensors, std::int32_t wrapper) {
  LOCKSTEP_CHECK(
      names_->layout(layout).size() == tensors.size(),
      fmt::format("{} names for {} tensors", names_->layout(layout).size(), tensors.size()));
  if (options_.states) {
    digest_states(point, layout, tensors, wrapper);
    if (kind == StateKind::kParam && finds_writes(options_, wrapper, n_wrappers())) {
      of_wrappers_[static_cast<std::size_t>(wrapper)].parameters.keep(
          names_->layout(layout), digests_, tensors);
    }
    record(StateEvent{.kind = kind, .point = point, .layout = layout, .digests = digests_},
           wrapper);
  }
  if (wants_values(kind == StateKind::kParam)) {
    record_values_of(tensors, layout, value_point(point), wrapper);
  }
}

void Recorder::record_found(LayoutId layout, TensorList parameters, std::int32_t wrapper) {
  if (!finds_writes(options_, wrapper, n_wrappers())) return;
  detail::LastDigests& last = of_wrappers_[static_cast<std::size_t>(wrapper)].parameters;
  const std::span<const NameId> names = names_->layout(layout);
  LOCKSTEP_CHECK(names.size() == parameters.size(), "one parameter for each name");
  if (last.contains_all(names, parameters)) return;
  std::vector<NameId> changed;
  list_.clear();
  digests_.clear();
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (last.contains(names, i, *parameters[i])) continue;
    const std::uint64_t digest = known_digest(*parameters[i]);
    if (!last.differs(names, i, digest)) continue;
    changed.push_back(names[i]);
    list_.push_back(parameters[i]);
    digests_.push_back(digest);
  }
  if (changed.empty()) return;
  last.keep(changed, digests_, list_);
  record(StateEvent{.kind = StateKind::kParam,
                    .point = StatePoint::kFound,
                    .layout = names_->intern_layout(changed),
                    .digests = digests_},
         wrapper);
}

bool Recorder::take_reduced(std::int32_t wrapper) {
  if (wrapper < 0 || wrapper >= n_wrappers()) return true;
  return std::exchange(of_wrappers_[static_cast<std::size_t>(wrapper)].reduced, false);
}

void Recorder::record_lone(LonePoint point,
                           LayoutId layout,
                           TensorList tensors,
                           std::int32_t wrapper) {
  if (!options_.lone_steps) return;
  prints_.start({.layout = layout, .sketched = true}, tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    prints_.set(i, *tensors[i], *tensors[i], known_fingerprint(*tensors[i]));
  }
  const GradEvent prints = prints_.event(GradPoint::kPost);
  record(LoneEvent{.point = point,
                   .layout = layout,
                   .digests = prints.digests,
                   .sketches = prints.sketches,
                   .n_elems = prints.n_elems,
                   .dtype = prints.dtype},
         wrapper);
}

void Recorder::keep_auxiliary(std::string_view name,
                              std::span<const Tensor> tensors,
                              std::int32_t wrapper) {
  std::vector<NameId> names;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::string suffix = tensors.size() == 1 ? "" : "/" + std::to_string(i);
    names.push_back(names_->intern(std::string(name) + suffix));
  }
  std::erase_if(auxiliaries_, [&](const Auxiliary& kept) { return kept.name == name; });
  auxiliaries_.push_back({.name = std::string(name),
                          .layout = names_->intern_layout(names),
                          .wrapper = wrapper,
                          .tensors = {tensors.begin(), tensors.end()}});
  record_states(
      StateKind::kAuxiliary, StatePoint::kWrap, auxiliaries_.back().layout, tensors, wrapper);
}

void Recorder::record_auxiliary(StatePoint point, std::int32_t wrapper) {
  for (const Auxiliary& kept : auxiliaries_) {
    if (kept.wrapper != wrapper) continue;
    record_states(StateKind::kAuxiliary, point, kept.layout, kept.tensors, wrapper);
  }
}

bool Recorder::wants_values(bool of_step) const {
  if (options_.values) return true;
  return options_.step_values && of_step && value_bytes_ < options_.step_value_bytes;
}

void Recorder::record_values_of(TensorList tensors,
                                LayoutId layout,
                                ValuePoint point,
                                std::int32_t wrapper) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i]->defined())
      record_values(names_->layout(layout)[i], point, *tensors[i], wrapper);
  }
}

void Recorder::record_values(NameId tensor,
                             ValuePoint point,
                             const Tensor& values,
                             std::int32_t wrapper) {
  if (!options_.values && !options_.step_values) return;
  values_.resize(static_cast<std::size_t>(values.n_elems()));
  copy_values(values, values_);
  value_bytes_ += values.n_elems() * static_cast<std::int64_t>(sizeof(double));
  // Takes the index of the event that follows: indices are the same with and without values.
  const ValueEvent body{.tensor = tensor, .point = point, .values = values_};
  sink_->on_event({rank_, next_index_, host_->now(), position(wrapper), body}, *names_);
}

}  // namespace lockstep
