#include "lockstep/reducer/reducer.h"

#include <algorithm>
#include <fmt/core.h>
#include <optional>
#include <utility>

#include "lockstep/autograd/graph.h"
#include "lockstep/base/check.h"
#include "lockstep/reducer/bucket_agreement.h"
#include "lockstep/reducer/bucket_plan.h"
#include "lockstep/reducer/layout_digest.h"
#include "lockstep/reducer/reducer_error.h"
#include "lockstep/tensor/kernels.h"

namespace lockstep {

namespace {

PlannedTensor planned(const NamedVariable& parameter) {
  const Tensor& data = parameter.variable.data();
  return {data.n_elems(), data.dtype(), data.device(), parameter.variable.state().expects_sparse};
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
    track_use();
  } else {
    ready_order_.reserve(parameters_.size());
  }
  last_ready_order_.reserve(parameters_.size());
  initialize_buckets(initial_assignment(parameters_, options_.initial_limits_bytes));
  rearm_hooks();
}

void Reducer::rearm_hooks() {
  for (std::size_t i = 0; i < leaves_.size(); ++i) leaves_[i].add_hook(*this, i);
}

void Reducer::track_use() {
  tracks_use_ = true;
  reachable_.assign(parameters_.size(), 1);
  local_used_.assign(parameters_.size(), 0);
  global_used_.assign(parameters_.size(), 0);
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
    const auto front = static_cast<std::size_t>(bucket.members.front());
    bucket.is_sparse = leaves_[front].state().expects_sparse;
    if (bucket.is_sparse) {
      LOCKSTEP_CHECK(bucket.members.size() == 1,
                     fmt::format("bucket {} holds a sparse gradient and {} others: it needs its "
                                 "own bucket (an error of Lockstep)",
                                 b,
                                 bucket.members.size() - 1));
      slots_[front] = {Tensor(), b};
      continue;
    }
    bucket.flat = Tensor::zeros(
        *runtime_, {n_elems}, options_.grad_dtype.value_or(leaves_[front].data().dtype()));
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

const std::string& Reducer::debug_name(std::size_t index) const {
  return options_.debug_names.empty() ? parameters_[index].name : options_.debug_names[index];
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
    if (named) names.push_back(debug_name(i));
  }
  throw ReducerError(
      unfinished_reduction_text({.rank = group_->rank(),
                                 .find_unused_parameters = options_.find_unused_parameters,
                                 .static_graph = static_graph_,
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

std::int64_t Reducer::unused_bytes() const {
  std::int64_t n_bytes = 0;
  for (std::size_t i = 0; i < reachable_.size(); ++i) {
    if (reachable_[i] != 0) continue;
    const Tensor& data = leaves_[i].data();
    n_bytes += data.n_elems() * size_of(data.dtype());
  }
  return n_bytes;
}

void Reducer::register_comm_hook(CommHook& hook) {
  if (hook_ != nullptr) {
    throw ReducerError("register_comm_hook or register_builtin_comm_hook can only be called once.");
  }
  for (const NamedVariable& parameter : parameters_) {
    if (!parameter.variable.state().expects_sparse) continue;
    throw ReducerError("communication hooks take flat buckets, and parameter '" + parameter.name +
                       "' receives sparse gradients.");
  }
  hook_ = &hook;
}

void Reducer::set_static_graph() {
  if (n_iterations_ > 0) {
    throw ReducerError(
        "set_static_graph() should be called before training loop starts and after "
        "DistributedDataParallel is constructed.");
  }
  static_graph_ = true;
  firings_.assign(parameters_.size(), 0);
  firings_left_.assign(parameters_.size(), 0);
  ready_order_.reserve(parameters_.size());
  track_use();
}

void Reducer::prepare_for_backward(std::span<const Variable> outputs) {
  expect_hooks_ = true;
  last_ready_order_.clear();
  unused_marked_ = false;
  next_bucket_ = 0;
  for (Bucket& bucket : buckets_) bucket.n_pending = bucket.members.size();
  std::fill(ready_.begin(), ready_.end(), std::uint8_t{0});
  if (static_graph_) {
    firings_left_ = firings_;
  } else if (options_.find_unused_parameters) {
    find_reachable(outputs, leaves_, reachable_);
  }
}

}  // namespace lockstep
