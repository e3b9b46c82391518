#include "lockstep/parallel/model_averaging.h"

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "lockstep/tensor/kernels.h"
#include "lockstep/trace/recorder.h"

namespace lockstep {

namespace {

/// One event, and the parameters as they are now, for each wrapper that has some of them.
void record_average(std::span<const Variable> parameters, ProcessGroup& group, std::int64_t step) {
  Recorder* const recorder = group.runtime().recorder();
  if (recorder == nullptr) return;
  NameTable& names = recorder->names();

  struct Part {
    std::vector<NameId> names;
    std::vector<Tensor> tensors;
  };

  std::map<std::int32_t, Part> by_wrapper;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i].grad().defined()) continue;
    const VariableState& state = parameters[i].state();
    Part& part = by_wrapper[state.wrapper];
    part.names.push_back(state.name != kNoName ? state.name
                                               : names.intern("parameter." + std::to_string(i)));
    part.tensors.push_back(parameters[i].data());
  }
  for (const auto& [wrapper, part] : by_wrapper) {
    const LayoutId layout = names.intern_layout(part.names);
    recorder->record(OuterStepEvent{.kind = recorder->literal("average"),
                                    .group = group.id(),
                                    .n_ranks = group.size(),
                                    .step = step,
                                    .denominator = static_cast<double>(group.size()),
                                    .layout = layout},
                     wrapper);
    recorder->record_states(StateKind::kParam, StatePoint::kOuter, layout, part.tensors, wrapper);
  }
}

}  // namespace

void average_parameters(std::span<const Variable> parameters,
                        ProcessGroup& group,
                        CallSite site,
                        std::int64_t step) {
  std::vector<Tensor> averaged;
  std::int64_t n_elems = 0;
  for (const Variable& parameter : parameters) {
    if (!parameter.grad().defined()) continue;
    averaged.push_back(parameter.data());
    n_elems += parameter.data().n_elems();
  }
  if (averaged.empty()) {
    throw std::invalid_argument("torch.cat(): expected a non-empty list of Tensors");
  }
  Runtime& runtime = group.runtime();
  const Tensor flat = Tensor::empty(runtime, {n_elems}, averaged.front().dtype());
  std::int64_t offset = 0;
  for (const Tensor& data : averaged) {
    runtime.kernels().copy(flat.slice(offset, data.shape()), data);
    offset += data.n_elems();
  }
  runtime.kernels().div_scalar(flat, flat, static_cast<double>(group.size()));
  OpOptions options;
  options.site = site;
  options.site.scope = "model_averaging";
  group.all_reduce(Memory::of(flat), ReduceOp::kSum, options).wait_or_throw();
  offset = 0;
  for (const Tensor& data : averaged) {
    runtime.kernels().copy(data, flat.slice(offset, data.shape()));
    data.storage()->bump_version();
    offset += data.n_elems();
  }
  record_average(parameters, group, step);
}

ModelAverager::ModelAverager(std::int64_t warmup_steps) : warmup_steps_(warmup_steps) {
  if (warmup_steps < 0) {
    throw std::invalid_argument("Arg ``warmup_steps`` must be a non-negative number.");
  }
}

void ModelAverager::average(std::span<const Variable> parameters, CallSite site) {
  if (step_ >= warmup_steps_) {
    ProcessGroup* group = group_at(step_);
    if (group != nullptr) average_parameters(parameters, *group, site, step_);
  }
  ++step_;
}

PeriodicModelAverager::PeriodicModelAverager(ProcessGroup& group,
                                             std::int64_t period,
                                             std::int64_t warmup_steps)
    : ModelAverager(warmup_steps), group_(&group), period_(period) {
  if (period < 1) throw std::invalid_argument("Arg ``period`` must be a positive value.");
  if (period == 1) {
    group.runtime().host().log(
        "When period is 1, no need to use model averaging because the communication cost of "
        "all-reducing parameters will be no less than the cost of all-reducing gradients by "
        "DistributedDataParallel in the backward pass. Therefore, only DistributedDataParallel "
        "should be used for this case.");
  }
}

ProcessGroup* PeriodicModelAverager::group_at(std::int64_t step) const {
  return (step - warmup_steps()) % period_ == 0 ? group_ : nullptr;
}

}  // namespace lockstep
