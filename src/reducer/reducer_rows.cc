// The reducer's buckets of sparse gradients: one table each.
#include "lockstep/reducer/reducer.h"
#include "lockstep/reducer/reducer_error.h"
#include "lockstep/reducer/sparse_all_reduce.h"
#include "lockstep/tensor/kernels.h"

namespace lockstep {

// The gradient itself is divided, entry by entry, before equal rows are added up.
void Reducer::fill_rows(std::size_t index) {
  const Variable& leaf = leaves_[index];
  if (trace_ != nullptr) trace_->on_reduce(index, whole_gradient(leaf), false);
  if (!leaf.has_grad()) throw ReducerError("Expected sparse gradient to be defined.");
  if (!leaf.state().sparse_grad) throw ReducerError("Expected variable to have sparse gradient.");
  const Tensor& values = leaf.state().sparse_grad->values();
  Tensor scaled = Tensor::empty(*runtime_, values.shape(), values.dtype());
  runtime_->kernels().div_scalar(scaled, values, divisor_);
  leaf.state().sparse_grad = leaf.state().sparse_grad->with_values(std::move(scaled));
}

void Reducer::launch_rows(Bucket& bucket) {
  const auto index = static_cast<std::size_t>(bucket.members.front());
  bucket.rows = all_reduce_rows(
      *group_, *leaves_[index].state().sparse_grad, op_options("ddp.backward", bucket.layout));
}

void Reducer::shadow_rows(const Bucket& bucket) {
  const Tensor& data = leaves_[static_cast<std::size_t>(bucket.members.front())].data();
  const Ref<SparseRows> none =
      SparseRows::make(Tensor::empty(*runtime_, {0}, DType::kI64),
                       Tensor::empty(*runtime_, {0, data.shape()[1]}, data.dtype()),
                       data.shape()[0],
                       true);
  static_cast<void>(all_reduce_rows(*group_, *none, op_options("ddp.backward", bucket.layout)));
}

}  // namespace lockstep
