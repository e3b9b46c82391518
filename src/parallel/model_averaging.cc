#include "lockstep/parallel/model_averaging.h"

#include <stdexcept>

#include "lockstep/tensor/kernels.h"

namespace lockstep {

void average_parameters(std::span<const Variable> parameters, ProcessGroup& group, CallSite site) {
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
  Kernels& kernels = group.runtime().kernels();
  const Tensor flat = Tensor::empty(group.runtime(), {n_elems}, averaged.front().dtype());
  std::int64_t offset = 0;
  for (const Tensor& data : averaged) {
    kernels.copy(flat.slice(offset, data.shape()), data);
    offset += data.n_elems();
  }
  kernels.div_scalar(flat, flat, static_cast<double>(group.size()));
  OpOptions options;
  options.site = site;
  options.site.scope = "model_averaging";
  group.all_reduce(Memory::of(flat), ReduceOp::kSum, options).wait_or_throw();
  offset = 0;
  for (const Tensor& data : averaged) {
    kernels.copy(data, flat.slice(offset, data.shape()));
    data.storage()->bump_version();
    offset += data.n_elems();
  }
}

ModelAverager::ModelAverager(std::int64_t warmup_steps) : warmup_steps_(warmup_steps) {
  if (warmup_steps < 0) {
    throw std::invalid_argument("Arg ``warmup_steps`` must be a non-negative number.");
  }
}

void ModelAverager::average(std::span<const Variable> parameters, CallSite site) {
  if (step_ >= warmup_steps_) {
    ProcessGroup* group = group_at(step_);
    if (group != nullptr) average_parameters(parameters, *group, site);
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
