#include "lockstep/dist/reducer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "lockstep/autograd/graph.h"
#include "lockstep/base/check.h"
#include "lockstep/dist/bucket_agreement.h"
#include "lockstep/dist/bucket_plan.h"
#include "lockstep/dist/layout_digest.h"
#include "lockstep/dist/reducer_error.h"
#include "lockstep/tensor/kernels.h"

namespace lockstep {

namespace {

PlannedTensor planned(const NamedVariable& parameter) {
  const Tensor& data = parameter.variable.data();
  return {data.n_elems(), data.dtype(), data.device()};
}

bool is_alias(const Tensor& grad, const Tensor& view) {
  return grad.shares_memory_with(view) && grad.offset_bytes() == view.offset_bytes();
}

// Before the rebuild the parameters registered last are assumed to be ready first.
std::vector<std::vector<std::int32_t>> initial_assignment(
    std::span<const NamedVariable> parameters, std::span<const std::int64_t> limits_bytes) {
  std::vector<PlannedTensor> tensors;
  for (const NamedVariable& parameter : parameters) tensors.push_back(planned(parameter));
  BucketPlan plan = compute_bucket_assignment_by_size(tensors, limits_bytes);
  std::reverse(plan.buckets.begin(), plan.buckets.end());
  return plan.buckets;
}

}  // namespace

Reducer::Reducer(std::vector<NamedVariable> parameters,
                 ProcessGroup& group,
                 ReducerOptions options,
                 GradientTrace* trace)
    : parameters_(std::move(parameters)),
      group_(&group),
      runtime_(&group.runtime()),
      options_(std::move(options)),
      trace_(trace),
      divisor_(static_cast<double>(group.size())),
      ready_(parameters_.size()) {
  if (parameters_.empty()) throw ReducerError("Expected at least one parameter.");
  for (const NamedVariable& parameter : parameters_) leaves_.push_back(parameter.variable);
  if (options_.find_unused_parameters) {
    reachable_.resize(parameters_.size());
    local_used_.resize(parameters_.size());
    global_used_.resize(parameters_.size());
  } else {
    ready_order_.reserve(parameters_.size());
  }
  initialize_buckets(initial_assignment(parameters_, options_.initial_limits_bytes));
  for (std::size_t i = 0; i < leaves_.size(); ++i) leaves_[i].add_hook(*this, i);
}

Reducer::~Reducer() {
  for (const Variable& leaf : leaves_) leaf.remove_hook(*this);
}

void Reducer::initialize_buckets(const std::vector<std::vector<std::int32_t>>& assignment) {
  buckets_.clear();
  buckets_.resize(assignment.size());
  slots_.resize(parameters_.size());
  for (std::size_t b = 0; b < assignment.size(); ++b) {
    Bucket& bucket = buckets_[b];
    bucket.members = assignment[b];
    LayoutDigest digest;
    std::int64_t n_elems = 0;
    for (const std::int32_t member : bucket.members) {
      const NamedVariable& parameter = parameters_[static_cast<std::size_t>(member)];
      digest.add(parameter.name, n_elems);
      n_elems += parameter.variable.data().n_elems();
    }
    bucket.layout = digest.value();
    const DType dtype = leaves_[static_cast<std::size_t>(bucket.members.front())].data().dtype();
    bucket.flat = Tensor::zeros(*runtime_, {n_elems}, dtype);
    std::int64_t offset = 0;
    for (const std::int32_t member : bucket.members) {
      const auto index = static_cast<std::size_t>(member);
      const Tensor& data = leaves_[index].data();
      slots_[index] = {bucket.flat.slice(offset, data.shape()), b};
      offset += data.n_elems();
      if (options_.gradient_as_bucket_view) adopt_gradient(index);
    }
  }
  if (trace_ != nullptr) trace_->record_buckets(assignment);
}

// A gradient that exists already moves into its bucket.
void Reducer::adopt_gradient(std::size_t index) {
  const Variable& leaf = leaves_[index];
  if (!leaf.grad().defined()) return;
  runtime_->kernels().copy(slots_[index].view, leaf.grad());
  leaf.set_grad(slots_[index].view);
}

std::vector<std::vector<std::int32_t>> Reducer::buckets() const {
  std::vector<std::vector<std::int32_t>> result;
  for (const Bucket& bucket : buckets_) result.push_back(bucket.members);
  return result;
}

bool Reducer::is_debugging() const {
  const std::optional<std::string> level = runtime_->host().environment("TORCH_DISTRIBUTED_DEBUG");
  return level == "INFO" || level == "DETAIL";
}

OpOptions Reducer::op_options(const char* scope, std::uint64_t layout) const {
  OpOptions options;
  options.layout = layout;
  options.site = options_.site;
  options.site.scope = scope;
  options.wrapper = options_.wrapper;
  return options;
}

// ---- between backward passes

void Reducer::ensure_prior_reduction_finished() const {
  if (!require_finalize_) return;
  std::vector<std::int32_t> missing;
  std::vector<std::string> names;
  const bool named = is_debugging();
  for (std::size_t i = 0; i < ready_.size(); ++i) {
    if (ready_[i] != 0) continue;
    missing.push_back(static_cast<std::int32_t>(i));
    if (named) names.push_back(parameters_[i].name);
  }
  throw ReducerError(
      unfinished_reduction_text({.rank = group_->rank(),
                                 .find_unused_parameters = options_.find_unused_parameters,
                                 .missing = missing,
                                 .missing_names = names}));
}

bool Reducer::rebuild_buckets() {
  ensure_prior_reduction_finished();
  if (!should_rebuild() || ready_order_.empty()) return false;
  if (ready_order_.size() != parameters_.size()) {
    throw ReducerError(
        "rebuilt parameter indices size is not same as original model parameters size."
        "Original model param size is: " +
        std::to_string(parameters_.size()) +
        " versus rebuilt params size of: " + std::to_string(ready_order_.size()));
  }
  const bool small_last = runtime_->host().environment("DDP_SET_LAST_BUCKET_CAP") == "1";
  if (small_last) std::reverse(ready_order_.begin(), ready_order_.end());
  std::vector<PlannedTensor> tensors;
  for (const std::int32_t index : ready_order_) {
    tensors.push_back(planned(parameters_[static_cast<std::size_t>(index)]));
  }
  BucketPlan plan =
      compute_bucket_assignment_by_size(tensors, options_.rebuilt_limits_bytes, ready_order_);
  if (small_last) std::reverse(plan.buckets.begin(), plan.buckets.end());
  agree_on_buckets(*group_, plan.buckets, parameters_.size(), op_options("ddp.rebuild", 0));
  rebuilt_ = true;
  ready_order_.clear();
  initialize_buckets(plan.buckets);
  return true;
}

void Reducer::prepare_for_backward(const Variable& output) {
  expect_hooks_ = true;
  unused_marked_ = false;
  next_bucket_ = 0;
  for (Bucket& bucket : buckets_) bucket.n_pending = bucket.members.size();
  std::fill(ready_.begin(), ready_.end(), std::uint8_t{0});
  if (options_.find_unused_parameters) {
    const std::span<const Variable> roots(&output, output.defined() ? 1 : 0);
    find_reachable(roots, leaves_, reachable_);
  }
}

// ---- inside a backward pass

void Reducer::enter_backward() {
  if (in_backward_) return;
  in_backward_ = true;
  queue_callback(*runtime_, *this);
}

void Reducer::on_grad_increment(std::size_t index, const Tensor& increment) {
  if (trace_ == nullptr) return;
  enter_backward();
  trace_->on_increment(index, increment, leaves_[index].grad());
}

void Reducer::on_grad_ready(std::size_t index) {
  if (expect_hooks_ || trace_ != nullptr) enter_backward();
  // Counts without synchronisation too: what one micro-step used is used by the whole iteration.
  if (options_.find_unused_parameters && leaves_[index].grad().defined()) local_used_[index] = 1;
  if (!expect_hooks_) return;
  if (!unused_marked_) mark_unused();
  if (should_rebuild()) ready_order_.push_back(static_cast<std::int32_t>(index));
  mark_ready(index);
}

void Reducer::mark_unused() {
  unused_marked_ = true;
  for (std::size_t i = 0; i < reachable_.size(); ++i) {
    if (reachable_[i] == 0) mark_ready(i);
  }
}

void Reducer::mark_ready(std::size_t index) {
  if (ready_[index] != 0) {
    throw ReducerError(
        marked_twice_text(index, is_debugging() ? parameters_[index].name : std::string()));
  }
  ready_[index] = 1;
  require_finalize_ = true;
  if (active_ranks_.valid()) fix_divisor();
  fill_slot(index);
  if (--buckets_[slots_[index].bucket].n_pending == 0) launch_full_buckets();
}

void Reducer::fill_slot(std::size_t index) {
  const Variable& leaf = leaves_[index];
  const Tensor& view = slots_[index].view;
  const Tensor& grad = leaf.grad();
  if (trace_ != nullptr) trace_->on_reduce(index, grad);
  Kernels& kernels = runtime_->kernels();
  if (!grad.defined()) {
    kernels.fill(view, 0.0);
    return;
  }
  if (grad.dtype() != view.dtype()) {
    throw ReducerError("Expected " + std::string(name_of(view.dtype())) + ", got " +
                       std::string(name_of(grad.dtype())));
  }
  if (options_.gradient_as_bucket_view && is_alias(grad, view)) {
    kernels.div_scalar(view, view, divisor_);
    return;
  }
  kernels.average_into_bucket(view, grad, divisor_);
  if (options_.gradient_as_bucket_view) leaf.set_grad(view);
}

void Reducer::launch_full_buckets() {
  while (next_bucket_ < buckets_.size() && buckets_[next_bucket_].n_pending == 0) {
    Bucket& bucket = buckets_[next_bucket_++];
    bucket.work = group_->all_reduce(
        Memory::of(bucket.flat), ReduceOp::kSum, op_options("ddp.backward", bucket.layout));
  }
  if (next_bucket_ == buckets_.size() && options_.find_unused_parameters) launch_used_map();
}

void Reducer::launch_used_map() {
  std::copy(local_used_.begin(), local_used_.end(), global_used_.begin());
  used_map_work_ = group_->all_reduce(
      Memory::of(std::span(global_used_)), ReduceOp::kSum, op_options("ddp.backward", 0));
}

// ---- after the graph

void Reducer::on_backward_end() {
  in_backward_ = false;
  const bool reduced = require_finalize_ && next_bucket_ == buckets_.size();
  if (trace_ != nullptr) trace_->record_local();
  if (reduced) finalize();
  if (trace_ != nullptr) trace_->record_outcome(reduced);
}

void Reducer::finalize() {
  expect_hooks_ = false;
  require_finalize_ = false;
  for (Bucket& bucket : buckets_) {
    const Work work = std::exchange(bucket.work, Work());
    work.wait_or_throw();
    for (const std::int32_t member : bucket.members) publish(static_cast<std::size_t>(member));
  }
  divisor_ = static_cast<double>(group_->size());
  if (!options_.find_unused_parameters) return;
  if (used_map_work_.valid()) std::exchange(used_map_work_, Work()).wait_or_throw();
  std::fill(local_used_.begin(), local_used_.end(), 0);
}

// The used map is waited for only when a parameter needs it.
bool Reducer::is_globally_unused(std::size_t index) {
  if (!options_.find_unused_parameters || local_used_[index] != 0) return false;
  if (used_map_work_.valid()) std::exchange(used_map_work_, Work()).wait_or_throw();
  return global_used_[index] == 0;
}

void Reducer::publish(std::size_t index) {
  if (is_globally_unused(index)) return;
  const Variable& leaf = leaves_[index];
  const Tensor& view = slots_[index].view;
  if (!options_.gradient_as_bucket_view) {
    if (leaf.grad().defined()) {
      runtime_->kernels().copy(leaf.grad(), view);
    } else {
      leaf.set_grad(view.clone());
    }
    return;
  }
  if (!leaf.grad().defined()) {
    leaf.set_grad(view);
  } else if (!is_alias(leaf.grad(), view)) {
    throw ReducerError(
        "Detected at least one parameter gradient is not the expected DDP bucket view with "
        "gradient_as_bucket_view=True. This may happen (for example) if multiple allreduce hooks "
        "were registered onto the same parameter. If you hit this error, please file an issue with "
        "a minimal repro.");
  }
}

}  // namespace lockstep
