// Softmax, layer norm, cross entropy and batch norm.
#include "lockstep/gpu/cuda/detail/operands.cuh"
#include "lockstep/gpu/cuda/ops/batch_norm.cuh"
#include "lockstep/gpu/cuda/ops/rows.cuh"

namespace lockstep::cuda {

namespace {

std::int64_t row_width(const Tensor& tensor) {
  const Shape& shape = tensor.shape();
  LOCKSTEP_CHECK(shape.n_dims() > 0, "rows need a last dimension");
  const std::int64_t width = shape[shape.n_dims() - 1];
  LOCKSTEP_CHECK(width > 0, "rows are not empty");
  return width;
}

std::int64_t softmax_width(const Tensor& tensor, const Kernels::Softmax& options) {
  const Shape& shape = tensor.shape();
  const std::size_t n = shape.n_dims();
  LOCKSTEP_CHECK(!options.causal || (!options.log && n >= 2 && shape[n - 1] == shape[n - 2]),
                 "a causal softmax takes square (..., T, T) and no logarithm");
  return row_width(tensor);
}

void check_classes(const Tensor& x, const Tensor& labels) {
  LOCKSTEP_CHECK(x.shape().n_dims() == 2, "class scores have shape (B, C)");
  LOCKSTEP_CHECK(labels.n_elems() == x.size(0), "one label per row");
}

Planes planes_of(const Tensor& x) {
  const Shape& shape = x.shape();
  LOCKSTEP_CHECK(shape.n_dims() >= 2, "batch norm needs a dimension of channels");
  Planes planes{.outer = shape[0], .channels = shape[1], .inner = 1};
  for (std::size_t d = 2; d < shape.n_dims(); ++d) planes.inner *= shape[d];
  return planes;
}

/// What a caller does not want saved, and a later kernel needs.
Tensor or_scratch(std::span<const Tensor> tensors, std::size_t i, const Tensor& like) {
  if (i < tensors.size() && tensors[i].defined()) return tensors[i];
  return Tensor::empty(like.runtime(), {like.size(1)}, like.dtype());
}

}  // namespace

void CudaKernels::softmax(const Tensor& out, const Tensor& in, const Softmax& options) {
  if (!functions_ || is_narrow(in.dtype())) return host_->softmax(out, in, options);
  agreed_elems(out, in);
  const std::int64_t width = softmax_width(in, options);
  for_float(in.dtype(), [&](auto tag) {
    using T = decltype(tag);
    executor_->run(in.n_elems() / width,
                   SoftmaxRow<T>{at<T>(out), at<T>(in), width, options.log, options.causal});
  });
}

void CudaKernels::softmax_backward(const Tensor& out,
                                   const Tensor& grad,
                                   const Tensor& y,
                                   const Softmax& options) {
  if ((!functions_ && options.log) || is_narrow(out.dtype()))
    return host_->softmax_backward(out, grad, y, options);
  agreed_elems(out, grad, y);
  const std::int64_t width = softmax_width(y, options);
  for_float(y.dtype(), [&](auto tag) {
    using T = decltype(tag);
    executor_->run(
        y.n_elems() / width,
        SoftmaxSlopeRow<T>{at<T>(out), at<T>(grad), at<T>(y), width, options.log, options.causal});
  });
}

void CudaKernels::layer_norm(const Tensor& out,
                             std::span<const Tensor> x_weight_bias,
                             std::span<const Tensor> save_mean_invstd,
                             double eps) {
  if (is_narrow(x_weight_bias[0].dtype()))
    return host_->layer_norm(out, x_weight_bias, save_mean_invstd, eps);
  const Tensor& x = x_weight_bias[0];
  agreed_elems(out, x);
  const std::int64_t width = row_width(x);
  for_float(x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    T* const mean = at<T>(save_mean_invstd[0]);
    T* const invstd = at<T>(save_mean_invstd[1]);
    executor_->run(x.n_elems() / width,
                   LayerNormStatistics<T>{mean, invstd, at<T>(x), width, static_cast<T>(eps)});
    executor_->run(x.n_elems(),
                   LayerNormElement<T>{at<T>(out),
                                       at<T>(x),
                                       at<T>(x_weight_bias[1]),
                                       at<T>(x_weight_bias[2]),
                                       mean,
                                       invstd,
                                       width});
  });
}

void CudaKernels::layer_norm_backward(std::span<const Tensor> grads,
                                      std::span<const Tensor> in,
                                      std::span<const Tensor> save_mean_invstd) {
  if (is_narrow(in[0].dtype())) return host_->layer_norm_backward(grads, in, save_mean_invstd);
  const Tensor& x = in[1];
  agreed_elems(grads[0], in[0], x);
  const std::int64_t width = row_width(x);
  const std::int64_t n_rows = x.n_elems() / width;
  for_float(x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const T* const grad = at<T>(in[0]);
    const T* const values = at<T>(x);
    const T* const mean = at<T>(save_mean_invstd[0]);
    const T* const invstd = at<T>(save_mean_invstd[1]);
    // The columns first: grad_x may be the very memory of grad_out.
    executor_->run(
        width,
        LayerNormSlopeColumn<T>{
            at<T>(grads[1]), at<T>(grads[2]), grad, values, mean, invstd, n_rows, width});
    executor_->run(
        n_rows,
        LayerNormSlopeRow<T>{at<T>(grads[0]), grad, values, at<T>(in[2]), mean, invstd, width});
  });
}

void CudaKernels::cross_entropy(const Tensor& out,
                                const Tensor& log_probs,
                                const Tensor& x,
                                const Tensor& labels,
                                double denominator) {
  if (!functions_ || is_narrow(x.dtype()))
    return host_->cross_entropy(out, log_probs, x, labels, denominator);
  check_classes(x, labels);
  agreed_elems(log_probs, x);
  const std::int64_t* const label = at<std::int64_t>(labels);
  const std::int64_t n_rows = x.size(0);
  const std::int64_t n = x.size(1);
  for_float(x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    T* const logs = at<T>(log_probs);
    executor_->run(n_rows, LogProbsRow<T>{logs, at<T>(x), label, n, executor_->fault()});
    executor_->run(
        1, CrossEntropy<T>{at<T>(out), logs, label, n_rows, n, static_cast<T>(denominator)});
  });
}

void CudaKernels::cross_entropy_backward(const Tensor& out,
                                         const Tensor& grad_out,
                                         const Tensor& log_probs,
                                         const Tensor& labels,
                                         double denominator) {
  if (!functions_ || is_narrow(log_probs.dtype())) {
    return host_->cross_entropy_backward(out, grad_out, log_probs, labels, denominator);
  }
  check_classes(log_probs, labels);
  agreed_elems(out, log_probs);
  for_float(out.dtype(), [&](auto tag) {
    using T = decltype(tag);
    executor_->run(out.n_elems(),
                   CrossEntropySlope<T>{at<T>(out),
                                        at<T>(grad_out),
                                        at<T>(log_probs),
                                        at<std::int64_t>(labels),
                                        log_probs.size(1),
                                        static_cast<T>(denominator),
                                        executor_->fault()});
  });
}

void CudaKernels::batch_norm(const Tensor& out,
                             std::span<const Tensor> x_weight_bias,
                             std::span<const Tensor> running_mean_var,
                             std::span<const Tensor> save_mean_invstd,
                             const BatchNorm& options) {
  if (is_narrow(x_weight_bias[0].dtype()))
    return host_->batch_norm(out, x_weight_bias, running_mean_var, save_mean_invstd, options);
  LOCKSTEP_CHECK(!x_weight_bias.empty() && out.shape().n_dims() == 2,
                 "batch norm works on the rows of (B, D)");
  const std::int64_t n = agreed_elems(out, x_weight_bias[0]);
  const Planes planes = planes_of(out);
  LOCKSTEP_CHECK(!options.training || planes.outer > 1, "a batch of one row has no variance");
  const Tensor mean = or_scratch(save_mean_invstd, 0, out);
  const Tensor invstd = or_scratch(save_mean_invstd, 1, out);
  for_float(out.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const T* const x = at<T>(x_weight_bias[0]);
    executor_->run(planes.channels,
                   BatchNormChannel<T>{.mean = at<T>(mean),
                                       .invstd = at<T>(invstd),
                                       .running_mean = at_or_null<T>(running_mean_var, 0),
                                       .running_var = at_or_null<T>(running_mean_var, 1),
                                       .x = x,
                                       .planes = planes,
                                       .momentum = static_cast<T>(options.momentum),
                                       .eps = static_cast<T>(options.eps),
                                       .training = options.training});
    executor_->run(n,
                   BatchNormElement<T>{at<T>(out),
                                       x,
                                       at_or_null<T>(x_weight_bias, 1),
                                       at_or_null<T>(x_weight_bias, 2),
                                       at<T>(mean),
                                       at<T>(invstd),
                                       planes});
  });
}

void CudaKernels::batch_norm_backward(std::span<const Tensor> grads,
                                      std::span<const Tensor> in,
                                      std::span<const Tensor> save_mean_invstd) {
  if (is_narrow(in[0].dtype())) return host_->batch_norm_backward(grads, in, save_mean_invstd);
  LOCKSTEP_CHECK(in.size() >= 2 && in[0].shape().n_dims() == 2, "inputs: grad_out, x, weight");
  const Planes planes = planes_of(in[0]);
  const Tensor sums = or_scratch({}, 0, in[0]);
  const Tensor dots = or_scratch({}, 0, in[0]);
  for_float(in[0].dtype(), [&](auto tag) {
    using T = decltype(tag);
    const T* const grad = at<T>(in[0]);
    const T* const x = at<T>(in[1]);
    const T* const mean = at<T>(save_mean_invstd[0]);
    const T* const invstd = at<T>(save_mean_invstd[1]);
    executor_->run(planes.channels,
                   BatchNormSlopeChannel<T>{at<T>(sums),
                                            at<T>(dots),
                                            at_or_null<T>(grads, 1),
                                            at_or_null<T>(grads, 2),
                                            grad,
                                            x,
                                            mean,
                                            invstd,
                                            planes});
    T* const grad_x = at_or_null<T>(grads, 0);
    if (grad_x == nullptr) return;
    const T* const weight = at_or_null<T>(in, 2);
    executor_->run(planes.n_elems(),
                   BatchNormSlopeElement<T>{
                       grad_x, grad, x, weight, mean, invstd, at<T>(sums), at<T>(dots), planes});
  });
}

void CudaKernels::batch_norm_stats(std::span<const Tensor> mean_invstd,
                                   const Tensor& x,
                                   double eps) {
  const Planes planes = planes_of(x);
  LOCKSTEP_CHECK(planes.count() > 0, "an empty batch has no statistics");
  for_float(x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    executor_->run(
        planes.channels,
        SyncStatistics<T>{
            at<T>(mean_invstd[0]), at<T>(mean_invstd[1]), at<T>(x), planes, static_cast<T>(eps)});
  });
}

void CudaKernels::batch_norm_merge_stats(std::span<const Tensor> mean_invstd,
                                         std::span<const Tensor> running_mean_var,
                                         const Tensor& rows,
                                         const BatchNorm& options) {
  const std::int64_t channels = mean_invstd[0].n_elems();
  LOCKSTEP_CHECK(rows.shape().n_dims() == 2 && rows.size(1) == 2 * channels + 1,
                 "rows are {mean, invstd, count}");
  for_float(rows.dtype(), [&](auto tag) {
    using T = decltype(tag);
    executor_->run(channels,
                   SyncMerge<T>{at<T>(mean_invstd[0]),
                                at<T>(mean_invstd[1]),
                                at_or_null<T>(running_mean_var, 0),
                                at_or_null<T>(running_mean_var, 1),
                                at<T>(rows),
                                rows.size(0),
                                channels,
                                static_cast<T>(options.momentum),
                                static_cast<T>(options.eps)});
  });
}

void CudaKernels::batch_norm_apply(const Tensor& out,
                                   std::span<const Tensor> x_weight_bias,
                                   std::span<const Tensor> mean_invstd) {
  const std::int64_t n = agreed_elems(out, x_weight_bias[0]);
  for_float(out.dtype(), [&](auto tag) {
    using T = decltype(tag);
    executor_->run(n,
                   SyncApply<T>{at<T>(out),
                                at<T>(x_weight_bias[0]),
                                at_or_null<T>(x_weight_bias, 1),
                                at_or_null<T>(x_weight_bias, 2),
                                at<T>(mean_invstd[0]),
                                at<T>(mean_invstd[1]),
                                planes_of(out)});
  });
}

void CudaKernels::batch_norm_sums(const Tensor& sums,
                                  std::span<const Tensor> weight_bias_grads,
                                  std::span<const Tensor> grad_x,
                                  std::span<const Tensor> mean_invstd) {
  agreed_elems(grad_x[0], grad_x[1]);
  const Planes planes = planes_of(grad_x[0]);
  for_float(sums.dtype(), [&](auto tag) {
    using T = decltype(tag);
    executor_->run(planes.channels,
                   SyncSums<T>{at<T>(sums),
                               at_or_null<T>(weight_bias_grads, 0),
                               at_or_null<T>(weight_bias_grads, 1),
                               at<T>(grad_x[0]),
                               at<T>(grad_x[1]),
                               at<T>(mean_invstd[0]),
                               at<T>(mean_invstd[1]),
                               planes});
  });
}

void CudaKernels::batch_norm_spread(const Tensor& out,
                                    std::span<const Tensor> in,
                                    std::span<const Tensor> mean_invstd,
                                    const Tensor& sums,
                                    double count) {
  const std::int64_t n = agreed_elems(out, in[0]);
  for_float(out.dtype(), [&](auto tag) {
    using T = decltype(tag);
    executor_->run(n,
                   SyncSpread<T>{at<T>(out),
                                 at<T>(in[0]),
                                 at<T>(in[1]),
                                 at_or_null<T>(in, 2),
                                 at<T>(mean_invstd[0]),
                                 at<T>(mean_invstd[1]),
                                 at<T>(sums),
                                 planes_of(out),
                                 T{1} / static_cast<T>(count)});
  });
}

}  // namespace lockstep::cuda
