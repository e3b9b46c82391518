#include "lockstep/reducer/buckets.h"

#include <fmt/core.h>
#include <utility>

#include "lockstep/base/check.h"
#include "lockstep/reducer/layout_digest.h"
#include "lockstep/reducer/reducer_error.h"
#include "lockstep/tensor/kernels.h"

namespace lockstep {

Buckets::Buckets(const std::vector<NamedVariable>& parameters,
                 ProcessGroup& group,
                 const ReducerOptions& options)
    : parameters_(&parameters),
      group_(&group),
      runtime_(&group.runtime()),
      options_(&options),
      buckets_(&runtime_->pool()),
      slots_(parameters.size(), &runtime_->pool()) {}

void Buckets::assign(std::vector<std::vector<std::int32_t>> assignment) {
  buckets_.clear();
  members_ = std::move(assignment);
  buckets_.resize(members_.size());
  for (std::size_t b = 0; b < members_.size(); ++b) {
    buckets_[b].members = members_[b];
    assign(buckets_[b], b);
  }
}

void Buckets::assign(Bucket& bucket, std::size_t number) {
  LayoutDigest digest;
  std::int64_t n_elems = 0;
  for (const std::int32_t member : bucket.members) {
    const NamedVariable& parameter = (*parameters_)[static_cast<std::size_t>(member)];
    digest.add(parameter.name, n_elems);
    n_elems += parameter.variable.data().n_elems();
  }
  bucket.layout = digest.value();
  const auto front = static_cast<std::size_t>(bucket.members.front());
  bucket.is_sparse = leaf(front).state().expects_sparse;
  if (bucket.is_sparse) {
    LOCKSTEP_CHECK(bucket.members.size() == 1,
                   fmt::format("bucket {} holds a sparse gradient and {} others: it needs its "
                               "own bucket (an error of Lockstep)",
                               number,
                               bucket.members.size() - 1));
    slots_[front] = {Tensor(), number};
    return;
  }
  bucket.flat = Tensor::zeros(
      *runtime_, {n_elems}, options_->grad_dtype.value_or(leaf(front).data().dtype()));
  std::int64_t offset = 0;
  for (const std::int32_t member : bucket.members) {
    const auto index = static_cast<std::size_t>(member);
    const Tensor& data = leaf(index).data();
    slots_[index] = {bucket.flat.slice(offset, data.shape()), number};
    offset += data.n_elems();
    if (options_->gradient_as_bucket_view) adopt_gradient(index);
  }
}

// A gradient that exists already moves into its bucket.
void Buckets::adopt_gradient(std::size_t index) {
  if (!leaf(index).grad().defined()) return;
  runtime_->kernels().copy(slots_[index].view, leaf(index).grad());
  leaf(index).set_grad(slots_[index].view);
}

void Buckets::begin() {
  next_ = 0;
  for (Bucket& bucket : buckets_) bucket.n_pending = bucket.members.size();
}

void Buckets::fill(std::size_t index, double divisor) {
  if (is_sparse(index)) return fill_rows(index, divisor);
  const Tensor& view = slots_[index].view;
  const Tensor& grad = leaf(index).grad();
  Kernels& kernels = runtime_->kernels();
  if (!grad.defined()) {
    kernels.fill(view, 0.0);
    return;
  }
  if (grad.dtype() != view.dtype()) {
    throw ReducerError("Expected " + std::string(name_of(view.dtype())) + ", got " +
                       std::string(name_of(grad.dtype())));
  }
  // What takes the place of the all-reduce divides, too.
  if (options_->gradient_as_bucket_view && grad.is_alias_of(view)) {
    if (hook_ == nullptr) kernels.div_scalar(view, view, divisor);
    return;
  }
  if (hook_ == nullptr) {
    kernels.average_into_bucket(view, grad, divisor);
  } else {
    kernels.copy(view, grad);
  }
  if (options_->gradient_as_bucket_view) leaf(index).set_grad(view);
}

void Buckets::take_results(UseTracker& use) {
  for (Bucket& bucket : buckets_) take_result(bucket, use);
}

void Buckets::take_result(Bucket& bucket, UseTracker& use) {
  if (bucket.is_sparse) {
    const auto index = static_cast<std::size_t>(bucket.members.front());
    leaf(index).state().sparse_grad = std::exchange(bucket.rows, {});
    return;
  }
  if (bucket.pending == nullptr) {
    const Work work = std::exchange(bucket.work, Work());
    work.wait_or_throw();
    bucket.lent.take_back(bucket.flat, work);
    for (const std::int32_t member : bucket.members) {
      const auto index = static_cast<std::size_t>(member);
      publish(index, slots_[index].view, use);
    }
    return;
  }
  const Tensor result = std::exchange(bucket.pending, nullptr)->wait();
  if (!result.defined() || result.n_elems() != bucket.flat.n_elems()) {
    throw ReducerError("a communication hook's result has " +
                       (result.defined() ? std::to_string(result.n_elems()) : std::string("no")) +
                       " elements, and its bucket " + std::to_string(bucket.flat.n_elems()));
  }
  std::int64_t offset = 0;
  for (const std::int32_t member : bucket.members) {
    const auto index = static_cast<std::size_t>(member);
    const Shape& shape = leaf(index).shape();
    publish(index, result.slice(offset, shape), use);
    offset += shape.n_elems();
  }
}

void Buckets::publish(std::size_t index, const Tensor& result, UseTracker& use) {
  if (use.is_globally_unused(index)) return;
  const Variable& variable = leaf(index);
  const Tensor& view = slots_[index].view;
  Kernels& kernels = runtime_->kernels();
  if (!options_->gradient_as_bucket_view) {
    if (!variable.grad().defined()) {
      variable.set_grad(Tensor::empty(*runtime_, view.shape(), view.dtype()));
    }
    kernels.copy(variable.grad(), result);
    return;
  }
  if (!result.is_alias_of(view)) kernels.copy(view, result);
  if (!variable.grad().defined()) {
    variable.set_grad(view);
  } else if (!variable.grad().is_alias_of(view)) {
    throw ReducerError(
        "Detected at least one parameter gradient is not the expected DDP bucket view with "
        "gradient_as_bucket_view=True. This may happen (for example) if multiple allreduce hooks "
        "were registered onto the same parameter. If you hit this error, please file an issue with "
        "a minimal repro.");
  }
}

}  // namespace lockstep
