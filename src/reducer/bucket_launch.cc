// Buckets on their way to the other ranks: as an all-reduce, through a hook, or row by row.
#include <algorithm>
#include <utility>

#include "lockstep/reducer/buckets.h"
#include "lockstep/reducer/reducer_error.h"
#include "lockstep/reducer/sparse_all_reduce.h"
#include "lockstep/tensor/kernels.h"

namespace lockstep {

OpOptions Buckets::op_options(const char* scope, std::uint64_t layout) const {
  OpOptions options;
  options.layout = layout;
  options.site = runtime_->call_site_or(options_->site);
  options.site.scope = scope;
  options.wrapper = options_->wrapper;
  return options;
}

bool Buckets::note_ready(std::size_t index) {
  if (--buckets_[slots_[index].bucket].n_pending != 0) return false;
  for (; next_ < buckets_.size() && buckets_[next_].n_pending == 0; ++next_) {
    launch(buckets_[next_]);
  }
  return all_launched();
}

void Buckets::launch_all() {
  for (Bucket& bucket : buckets_) launch(bucket);
}

void Buckets::launch(Bucket& bucket) {
  if (bucket.is_sparse) return launch_rows(bucket);
  if (hook_ == nullptr) {
    bucket.work = group_->all_reduce(bucket.lent.lend(bucket.flat, *group_),
                                     ReduceOp::kSum,
                                     op_options("ddp.backward", bucket.layout));
    return;
  }
  bucket.pending = run_hook(bucket, next_, bucket.flat);
}

std::unique_ptr<PendingBucket> Buckets::run_hook(const Bucket& bucket,
                                                 std::size_t number,
                                                 const Tensor& flat) {
  std::vector<Variable> parameters;
  std::vector<Tensor> gradients;
  std::int64_t offset = 0;
  for (const std::int32_t member : bucket.members) {
    parameters.push_back(leaf(static_cast<std::size_t>(member)));
    const Tensor& data = parameters.back().data();
    gradients.push_back(flat.slice(offset, data.shape()));
    offset += data.n_elems();
  }
  GradBucket shown(number,
                   number + 1 == buckets_.size(),
                   flat,
                   std::move(parameters),
                   std::move(gradients),
                   op_options("ddp.hook", bucket.layout));
  std::unique_ptr<PendingBucket> future = hook_->run(shown);
  if (future != nullptr) return future;
  throw ReducerError("a communication hook returned no future: run() returned null");
}

bool Buckets::is_under_way() const {
  return std::ranges::any_of(buckets_, [](const Bucket& bucket) {
    return bucket.work.valid() || bucket.pending != nullptr;
  });
}

void Buckets::settle() {
  for (Bucket& bucket : buckets_) {
    if (bucket.work.valid()) std::exchange(bucket.work, Work()).wait_or_throw();
    if (bucket.pending != nullptr) std::exchange(bucket.pending, nullptr)->wait();
  }
}

void Buckets::shadow() {
  std::vector<Tensor> zeros;
  std::vector<Work> works;
  std::vector<std::unique_ptr<PendingBucket>> pending;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const Bucket& bucket = buckets_[b];
    if (bucket.is_sparse) {
      shadow_rows(bucket);
      continue;
    }
    zeros.push_back(Tensor::zeros(*runtime_, bucket.flat.shape(), bucket.flat.dtype()));
    if (hook_ != nullptr) {
      pending.push_back(run_hook(bucket, b, zeros.back()));
      continue;
    }
    works.push_back(group_->all_reduce(
        Memory::of(zeros.back()), ReduceOp::kSum, op_options("ddp.backward", bucket.layout)));
  }
  for (const Work& work : works) work.wait_or_throw();
  for (const std::unique_ptr<PendingBucket>& bucket : pending) static_cast<void>(bucket->wait());
}

// ---- sparse gradients

// The gradient itself is divided, entry by entry, before equal rows are added up.
void Buckets::fill_rows(std::size_t index, double divisor) {
  const Variable& variable = leaf(index);
  if (!variable.has_grad()) throw ReducerError("Expected sparse gradient to be defined.");
  if (!variable.state().sparse_grad) {
    throw ReducerError("Expected variable to have sparse gradient.");
  }
  const Tensor& values = variable.state().sparse_grad->values();
  Tensor scaled = Tensor::empty(*runtime_, values.shape(), values.dtype());
  runtime_->kernels().div_scalar(scaled, values, divisor);
  variable.state().sparse_grad = variable.state().sparse_grad->with_values(std::move(scaled));
}

void Buckets::launch_rows(Bucket& bucket) {
  const Variable& table = leaf(static_cast<std::size_t>(bucket.members.front()));
  bucket.rows = all_reduce_rows(
      *group_, *table.state().sparse_grad, op_options("ddp.backward", bucket.layout));
}

void Buckets::shadow_rows(const Bucket& bucket) {
  const Tensor& data = leaf(static_cast<std::size_t>(bucket.members.front())).data();
  const Ref<SparseRows> none =
      SparseRows::make(Tensor::empty(*runtime_, {0}, DType::kI64),
                       Tensor::empty(*runtime_, {0, data.shape()[1]}, data.dtype()),
                       data.shape()[0],
                       true);
  static_cast<void>(all_reduce_rows(*group_, *none, op_options("ddp.backward", bucket.layout)));
}

}  // namespace lockstep
