#include "lockstep/reducer/delayed_all_reduce.h"

#include <algorithm>
#include <utility>

#include "lockstep/autograd/engine.h"
#include "lockstep/reducer/coalesced_broadcast.h"
#include "lockstep/reducer/layout_digest.h"
#include "lockstep/reducer/reducer_error.h"
#include "lockstep/tensor/kernels.h"

namespace lockstep {

DelayedAllReduce::DelayedAllReduce(std::vector<NamedVariable> parameters,
                                   Variable trigger,
                                   ProcessGroup& group,
                                   const OpOptions& options)
    : parameters_(std::move(parameters)),
      trigger_(std::move(trigger)),
      group_(&group),
      options_(options) {
  LayoutDigest digest;
  std::int64_t n_elems = 0;
  for (const NamedVariable& parameter : parameters_) {
    const Tensor& data = parameter.variable.data();
    if (data.dtype() != DType::kF32) {
      throw ReducerError("parameter '" + parameter.name + "' is " +
                         std::string(name_of(data.dtype())) +
                         ": the gradients of a delayed all-reduce share one f32 buffer.");
    }
    digest.add(parameter.name, n_elems);
    n_elems += data.n_elems();
  }
  options_.layout = digest.value();
  flat_ = Tensor::zeros(group.runtime(), {n_elems}, DType::kF32);
  views_.reserve(parameters_.size());
  std::int64_t offset = 0;
  for (const NamedVariable& parameter : parameters_) {
    views_.push_back(flat_.slice(offset, parameter.variable.shape()));
    offset += parameter.variable.data().n_elems();
  }
  trigger_.add_hook(*this, 0);
}

DelayedAllReduce::~DelayedAllReduce() { trigger_.remove_hook(*this); }

void DelayedAllReduce::broadcast(std::int64_t cap_bytes, const OpOptions& options) const {
  CoalescedBroadcast(parameters_, cap_bytes).run(*group_, 0, options);
}

void DelayedAllReduce::lend_views() {
  const auto has_none = [](const NamedVariable& one) { return !one.variable.grad().defined(); };
  Kernels& kernels = group_->runtime().kernels();
  const bool all = std::all_of(parameters_.begin(), parameters_.end(), has_none);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!has_none(parameters_[i])) continue;
    parameters_[i].variable.set_grad(views_[i]);
    if (!all) kernels.fill(views_[i], 0.0);
  }
  if (all) kernels.fill(flat_, 0.0);
}

void DelayedAllReduce::on_grad_increment(std::size_t /*index*/, const Tensor& /*increment*/) {
  // Sparse contributions are announced only where they are recorded.
  if (!trigger_.state().expects_sparse) launch();
}

// Nothing was added if the gradient is undefined: then this is the only notification.
void DelayedAllReduce::on_grad_ready(std::size_t /*index*/) {
  if (!launched_) launch();
  launched_ = false;
}

void DelayedAllReduce::launch() {
  launched_ = true;
  if (work_.valid()) std::exchange(work_, Work()).wait_or_throw();
  const auto n_ranks = static_cast<double>(group_->size());
  group_->runtime().kernels().div_scalar(flat_, flat_, n_ranks);
  OpOptions options = options_;
  options.site = group_->runtime().call_site_or(options_.site);
  options.site.scope = options_.site.scope;
  work_ = group_->all_reduce(Memory::of(flat_), ReduceOp::kSum, options);
  queue_outer_callback(group_->runtime(), *this);
}

void DelayedAllReduce::on_backward_end() {
  if (work_.valid()) std::exchange(work_, Work()).wait_or_throw();
}

}  // namespace lockstep
