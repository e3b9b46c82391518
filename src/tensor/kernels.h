// The numeric operations that every op of autograd, optim and comm uses. Here stands what each is
// called, what it does to its operands, and who may stand around it; how it computes is a device's
// affair (detail/device_kernels.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "lockstep/tensor/detail/device_kernels.h"
#include "lockstep/tensor/detail/kernel_observer.h"
#include "lockstep/tensor/detail/kernel_options.h"
#include "lockstep/tensor/dtype.h"
#include "lockstep/tensor/sketch.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep {

/// Operations on contiguous tensors of one device.
///
/// Requires: outputs preallocated with the right shape; element-wise inputs of one dtype (f32 or
///     f64 unless stated). An output may alias an input of the same element-wise call.
/// Deterministic: each result is a function of the input bits alone, never of addresses or of the
///     number of threads. Element-wise maths and reductions are fixed-order loops of our own.
class Kernels final {
 public:
  // What a parameter's type says of its tensor, or of a list of tensors, is all that observers go by.
  using In = detail::OperandOf<Direction::kRead>;
  using Out = detail::OperandOf<Direction::kWritten>;
  using InOut = detail::OperandOf<Direction::kUpdated>;
  using InList = detail::OperandsOf<Direction::kRead>;
  using OutList = detail::OperandsOf<Direction::kWritten>;
  using InOutList = detail::OperandsOf<Direction::kUpdated>;

  // Options of single operations.
  using Gemm = DeviceKernels::Gemm;
  using BatchNorm = DeviceKernels::BatchNorm;
  using Softmax = DeviceKernels::Softmax;
  using Gelu = DeviceKernels::Gelu;
  using Window = DeviceKernels::Window;

  explicit Kernels(std::unique_ptr<DeviceKernels> device) : device_(std::move(device)) {}

  /// From now on `observer` stands around every operation; null: none does.
  /// Requires: it outlives the last operation.
  void observe(KernelObserver* observer) { observer_ = observer; }

  // -- memory
  /// Any dtype.
  void fill(Out out, double value) { call<&DeviceKernels::fill>(kernel_op("fill"), out, value); }

  /// Any dtype, converting.
  void copy(Out out, In in) { call<&DeviceKernels::copy>(kernel_op("copy"), out, in); }

  // -- element-wise
  void add(Out out, In a, In b) { call<&DeviceKernels::add>(kernel_op("add"), out, a, b); }

  void sub(Out out, In a, In b) { call<&DeviceKernels::sub>(kernel_op("sub"), out, a, b); }

  void mul(Out out, In a, In b) { call<&DeviceKernels::mul>(kernel_op("mul"), out, a, b); }

  void div(Out out, In a, In b) { call<&DeviceKernels::div>(kernel_op("div"), out, a, b); }

  /// out = in * factor; the factor is rounded to the tensor's dtype first, as PyTorch's scalars
  /// are.
  void scale(Out out, In in, double factor) {
    call<&DeviceKernels::scale>(kernel_op("scale"), out, in, factor);
  }

  /// out = in / divisor, a true division.
  void div_scalar(Out out, In in, double divisor) {
    call<&DeviceKernels::div_scalar>(kernel_op("div_scalar"), out, in, divisor);
  }

  /// out = a + alpha * b with one rounding of the product and one of the sum fused (PyTorch's add
  /// on AVX2 builds: fma(b, alpha, a)).
  void add_scaled(Out out, In a, In b, double alpha) {
    call<&DeviceKernels::add_scaled>(kernel_op("add_scaled"), out, a, b, alpha);
  }

  /// out[r, c] = a[r, c] + row[c].
  void add_row(Out out, In a, In row) {
    call<&DeviceKernels::add_row>(kernel_op("add_row"), out, a, row);
  }

  /// out[n, c, ...] = a[n, c, ...] + channels[c].
  void add_channels(Out out, In a, In channels) {
    call<&DeviceKernels::add_channels>(kernel_op("add_channels"), out, a, channels);
  }

  /// out = in where in is not negative, else 0. NaN and -0 pass through, as in PyTorch.
  void relu(Out out, In in) { call<&DeviceKernels::relu>(kernel_op("relu"), out, in); }

  /// out = 0 where the forward's result `y` is <= 0, else grad.
  void relu_backward(Out out, In grad, In y) {
    call<&DeviceKernels::relu_backward>(kernel_op("relu_backward"), out, grad, y);
  }

  /// The C library's tanh, element by element: the same bits on machines with the same libm.
  void tanh(Out out, In in) { call<&DeviceKernels::tanh>(kernel_op("tanh"), out, in); }

  /// out = grad * fma(-y, y, 1) with y = tanh(x) (PyTorch's AVX2 builds fuse it so).
  void tanh_backward(Out out, In grad, In y) {
    call<&DeviceKernels::tanh_backward>(kernel_op("tanh_backward"), out, grad, y);
  }

  /// 1 / (1 + exp(-in)) with the C library's exp.
  void sigmoid(Out out, In in) { call<&DeviceKernels::sigmoid>(kernel_op("sigmoid"), out, in); }

  /// out = grad * (1 - y) * y, left to right, with the forward's result y.
  void sigmoid_backward(Out out, In grad, In y) {
    call<&DeviceKernels::sigmoid_backward>(kernel_op("sigmoid_backward"), out, grad, y);
  }

  /// The C library's exp and log.
  void exp(Out out, In in) { call<&DeviceKernels::exp>(kernel_op("exp"), out, in); }

  void log(Out out, In in) { call<&DeviceKernels::log>(kernel_op("log"), out, in); }

  /// Rounded correctly.
  void sqrt(Out out, In in) { call<&DeviceKernels::sqrt>(kernel_op("sqrt"), out, in); }

  /// out = clamp(round_half_even(in * 2^k) / 2^k, -limit, limit): the one declared rounding of
  /// exact mode (docs/determinism.md).
  void round_to_grid(Out out, In in, int k, double limit) {
    call<&DeviceKernels::round_to_grid>(kernel_op("round_to_grid"), out, in, k, limit);
  }

  // -- products: (M, K) x (K, N), either operand stored transposed; `accumulate` adds to out.
  //    Below M * N * K = 64^3 each element is one chain of fma over k ascending, from +0: a row
  //    then does not depend on the batch. Above, Eigen's blocked order under pinned cache sizes: a
  //    function of the sizes alone.
  void gemm(InOut out, In a, In b, const Gemm& options) {
    call<&DeviceKernels::gemm>(kernel_op("gemm"), out, a, b, options);
  }

  // -- reductions, in index order
  /// (B, D) -> (D,), b ascending.
  void sum_rows(Out out, In in) { call<&DeviceKernels::sum_rows>(kernel_op("sum_rows"), out, in); }

  /// (N, C, ...) -> (C,): positions ascending within an image, then images ascending.
  void sum_channels(Out out, In in) {
    call<&DeviceKernels::sum_channels>(kernel_op("sum_channels"), out, in);
  }

  /// -> scalar, i ascending.
  void sum_all(Out out, In in) { call<&DeviceKernels::sum_all>(kernel_op("sum_all"), out, in); }

  // -- losses: out is a scalar; `grad_out` a scalar; sums run in index order. `denominator` divides
  //    the sum (PyTorch's mean: the number of elements, or of samples for cross entropy).
  void mse(Out out, In x, In target, double denominator) {
    call<&DeviceKernels::mse>(kernel_op("mse"), out, x, target, denominator);
  }

  void mse_backward(Out out, In grad_out, In x, In target, double denominator) {
    call<&DeviceKernels::mse_backward>(
        kernel_op("mse_backward"), out, grad_out, x, target, denominator);
  }

  void l1(Out out, In x, In target, double denominator) {
    call<&DeviceKernels::l1>(kernel_op("l1"), out, x, target, denominator);
  }

  void l1_backward(Out out, In grad_out, In x, In target, double denominator) {
    call<&DeviceKernels::l1_backward>(
        kernel_op("l1_backward"), out, grad_out, x, target, denominator);
  }

  /// x (B, C), labels i64 (B,). `log_probs` (B, C) receives log-softmax for the backward pass.
  void cross_entropy(Out out, Out log_probs, In x, In labels, double denominator) {
    call<&DeviceKernels::cross_entropy>(
        kernel_op("cross_entropy"), out, log_probs, x, labels, denominator);
  }

  void cross_entropy_backward(Out out, In grad_out, In log_probs, In labels, double denominator) {
    call<&DeviceKernels::cross_entropy_backward>(
        kernel_op("cross_entropy_backward"), out, grad_out, log_probs, labels, denominator);
  }

  // -- batch norm over the rows of (B, D); statistics per column
  /// Training: mean and biased variance of the batch, saved into save_mean and save_invstd; running
  /// statistics move by `momentum` (unbiased variance). Evaluation: uses and saves the running
  /// ones.
  void batch_norm(Out out,
                  InList x_weight_bias,
                  InOutList running_mean_var,
                  OutList save_mean_invstd,
                  const BatchNorm& options) {
    call<&DeviceKernels::batch_norm>(
        kernel_op("batch_norm"), out, x_weight_bias, running_mean_var, save_mean_invstd, options);
  }

  /// grads = {grad_x, grad_weight, grad_bias}; in = {grad_out, x, weight}; saved as above.
  void batch_norm_backward(OutList grads, InList in, InList save_mean_invstd) {
    call<&DeviceKernels::batch_norm_backward>(
        kernel_op("batch_norm_backward"), grads, in, save_mean_invstd);
  }

  // -- batch norm in parts, with statistics merged over ranks between them. Channels: dimension 1
  //    of x (N, C) or (N, C, ...); per-channel tensors are (C,). Sums run in index order.
  //    Source: PyTorch Normalization.cuh, batch_norm_stats and its four companions.
  /// mean_invstd = {mean, 1 / sqrt(biased variance + eps)} of this rank's batch.
  /// Requires: not empty.
  void batch_norm_stats(OutList mean_invstd, In x, double eps) {
    call<&DeviceKernels::batch_norm_stats>(kernel_op("batch_norm_stats"), mean_invstd, x, eps);
  }

  /// Merges the rows of (R, 2C + 1), each {mean, invstd, count}, in ascending order into
  /// mean_invstd and the running statistics (may be empty). Rows that count nothing are skipped.
  void batch_norm_merge_stats(OutList mean_invstd,
                              InOutList running_mean_var,
                              In rows,
                              const BatchNorm& options) {
    call<&DeviceKernels::batch_norm_merge_stats>(
        kernel_op("batch_norm_merge_stats"), mean_invstd, running_mean_var, rows, options);
  }

  /// out = weight * (x - mean) * invstd + bias; weight and bias may be undefined.
  void batch_norm_apply(Out out, InList x_weight_bias, InList mean_invstd) {
    call<&DeviceKernels::batch_norm_apply>(
        kernel_op("batch_norm_apply"), out, x_weight_bias, mean_invstd);
  }

  /// sums (2C,) = sum of grad, then sum of grad * (x - mean); grads = {grad_weight, grad_bias}, may
  /// be empty.
  void batch_norm_sums(Out sums, OutList weight_bias_grads, InList grad_x, InList mean_invstd) {
    call<&DeviceKernels::batch_norm_sums>(
        kernel_op("batch_norm_sums"), sums, weight_bias_grads, grad_x, mean_invstd);
  }

  /// The gradient of x from sums over all ranks of `count` elements per channel.
  /// in = {grad_out, x, weight}.
  void batch_norm_spread(Out out, InList in, InList mean_invstd, In sums, double count) {
    call<&DeviceKernels::batch_norm_spread>(
        kernel_op("batch_norm_spread"), out, in, mean_invstd, sums, count);
  }

  // -- layers; rows run along the last dimension, sums over them in index order

  void softmax(Out out, In in, const Softmax& options) {
    call<&DeviceKernels::softmax>(kernel_op("softmax"), out, in, options);
  }

  /// `y` is the forward's result. Zeros that a causal mask left stay zeros.
  void softmax_backward(Out out, In grad, In y, const Softmax& options) {
    call<&DeviceKernels::softmax_backward>(kernel_op("softmax_backward"), out, grad, y, options);
  }

  /// x times the normal distribution's function, or its approximation by a tanh.
  void gelu(Out out, In in, Gelu form) {
    call<&DeviceKernels::gelu>(kernel_op("gelu"), out, in, form);
  }

  void gelu_backward(Out out, In grad, In x, Gelu form) {
    call<&DeviceKernels::gelu_backward>(kernel_op("gelu_backward"), out, grad, x, form);
  }

  /// Each row of x (R, D) to mean 0 and biased variance 1, times weight (D,), plus bias (D,). Weight,
  /// bias and what is saved may be f32 where x is 16-bit.
  void layer_norm(Out out, InList x_weight_bias, OutList save_mean_invstd, double eps) {
    call<&DeviceKernels::layer_norm>(
        kernel_op("layer_norm"), out, x_weight_bias, save_mean_invstd, eps);
  }

  /// grads = {grad_x, grad_weight, grad_bias}, all of x's dtype; in = {grad_out, x, weight}; saved as
  /// above.
  void layer_norm_backward(OutList grads, InList in, InList save_mean_invstd) {
    call<&DeviceKernels::layer_norm_backward>(
        kernel_op("layer_norm_backward"), grads, in, save_mean_invstd);
  }

  // -- movements: nothing is rounded but the means of avg_pool and the sums of scatter_add_rows,
  //    fold and the pools' backwards, which run in index order of what is added
  /// out[i, :] = table[indices[i], :], indices i64.
  void gather_rows(Out out, In table, In indices) {
    call<&DeviceKernels::gather_rows>(kernel_op("gather_rows"), out, table, indices);
  }

  /// table[indices[i], :] += rows[i, :]; rows of index `skipped` (-1: none) are left out.
  void scatter_add_rows(InOut table, In rows, In indices, std::int64_t skipped) {
    call<&DeviceKernels::scatter_add_rows>(
        kernel_op("scatter_add_rows"), table, rows, indices, skipped);
  }

  /// (A, B, C, D) -> (A, C, B, D).
  void swap_middle(Out out, In in) {
    call<&DeviceKernels::swap_middle>(kernel_op("swap_middle"), out, in);
  }

  /// One image (C, H, W) -> the window's contents at every place: (C * height * width, L).
  void unfold(Out out, In image, const Window& window) {
    call<&DeviceKernels::unfold>(kernel_op("unfold"), out, image, window);
  }

  /// The adjoint of unfold: overwrites `image` with the sums of what lands on each position.
  void fold(Out image, In columns, const Window& window) {
    call<&DeviceKernels::fold>(kernel_op("fold"), image, columns, window);
  }

  /// (N, C, H, W) -> the largest value in each window, the first of equals, and its flat position
  /// (i64, of in) for the backward pass. Padding never wins.
  void max_pool(Out out, Out positions, In in, const Window& window) {
    call<&DeviceKernels::max_pool>(kernel_op("max_pool"), out, positions, in, window);
  }

  void max_pool_backward(Out out, In grad, In positions) {
    call<&DeviceKernels::max_pool_backward>(kernel_op("max_pool_backward"), out, grad, positions);
  }

  /// (N, C, H, W) -> each window's sum, row by row, divided by the window's area: padding counts as
  /// zeros, as PyTorch's default has it.
  void avg_pool(Out out, In in, const Window& window) {
    call<&DeviceKernels::avg_pool>(kernel_op("avg_pool"), out, in, window);
  }

  /// out (N, C, H, W) receives grad / area at every position of each window.
  void avg_pool_backward(Out out, In grad, const Window& window) {
    call<&DeviceKernels::avg_pool_backward>(kernel_op("avg_pool_backward"), out, grad, window);
  }

  // -- optimizer and communication arithmetic
  /// PyTorch's single-tensor SGD on one parameter. `momentum_buffer` undefined when momentum is 0.
  void sgd(InOut param, In grad, InOut momentum_buffer, const SgdUpdate& update) {
    call<&DeviceKernels::sgd>(kernel_op("sgd"), param, grad, momentum_buffer, update);
  }

  /// PyTorch's single-tensor Adam or AdamW on one parameter.
  /// `moments`: exp_avg, exp_avg_sq, and with amsgrad max_exp_avg_sq; zeros before the first
  /// update.
  void adam(InOut param, In grad, InOutList moments, const AdamUpdate& update) {
    call<&DeviceKernels::adam>(kernel_op("adam"), param, grad, moments, update);
  }

  /// PyTorch's single-tensor Adagrad on one dense parameter.
  void adagrad(InOut param, In grad, InOut sum, const AdagradUpdate& update) {
    call<&DeviceKernels::adagrad>(kernel_op("adagrad"), param, grad, sum, update);
  }

  /// PyTorch's single-tensor RMSprop on one parameter. `averages`: square_avg, then momentum_buffer
  /// if momentum > 0, then grad_avg if centered; zeros before the first update.
  void rmsprop(InOut param, In grad, InOutList averages, const RmspropUpdate& update) {
    call<&DeviceKernels::rmsprop>(kernel_op("rmsprop"), param, grad, averages, update);
  }

  /// grad *= factor (rounded to f32 first, then to the dtype). Returns whether an element was not
  /// finite before.
  /// Source: PyTorch AmpKernels.cu, _amp_foreach_non_finite_check_and_unscale_.
  bool unscale(InOut grad, double factor) {
    return call<&DeviceKernels::unscale>(kernel_op("unscale"), grad, factor);
  }

  /// out = min(max(in, -limit), limit), the limit rounded to the dtype. NaN passes through.
  void clamp(Out out, In in, double limit) {
    call<&DeviceKernels::clamp>(kernel_op("clamp"), out, in, limit);
  }

  /// The p-norm of all elements, p = 1, 2 or infinity, rounded once to the dtype. Sums run in f64:
  /// element i into lane i mod 8, then the lanes in order. NaN wins over everything.
  double norm(In in, double p) { return call<&DeviceKernels::norm>(kernel_op("norm"), in, p); }

  /// out = grad * (1 / divisor): the reducer's pre-scaled copy into a bucket (reciprocal formed in
  /// double, rounded to the dtype).
  /// Source: PyTorch reducer.cpp, mark_variable_ready_dense.
  void average_into_bucket(Out out, In grad, double divisor) {
    call<&DeviceKernels::average_into_bucket>(kernel_op("average_into_bucket"), out, grad, divisor);
  }

  /// One result for all: every outputs[r][i] := (inputs[0][i] op inputs[1][i]) op ..., left to
  /// right, each operation rounded in the element type (f16/bf16: computed in f32, rounded once
  /// each). kAvg: the sum divided by the number of inputs; kPremulSum: as kSum (inputs come
  /// scaled). Raw host memory, all dtypes incl. integers; outputs may alias inputs. Works in blocks
  /// that stay in cache.
  void reduce(std::span<void* const> outputs,
              std::span<const void* const> inputs,
              std::int64_t count,
              DType dtype,
              ReduceOp op) {
    if (observer_ == nullptr) return device_->reduce(outputs, inputs, count, dtype, op);
    const RawReduction raw{outputs, inputs, count, dtype, op};
    auto run = [&] { device_->reduce(outputs, inputs, count, dtype, op); };
    observer_->around({.op = kernel_op("reduce"), .raw = &raw}, KernelRun(run));
  }

  // -- digests (sm64 and the gradient sketch; digest.h and sketch.h define them). Looking is not
  //    part of the program: no observer stands around these.
  std::uint64_t digest(const Tensor& in, std::uint64_t base) { return device_->digest(in, base); }

  Sketch sketch(const Tensor& in) { return device_->sketch(in); }

  /// digest(in, 0) and sketch(in) in one pass over memory, where that is quicker.
  TensorFingerprint fingerprint(const Tensor& in) { return device_->fingerprint(in); }

 private:
  template <auto kDo, typename... Args>
  using Result = std::invoke_result_t<decltype(kDo), DeviceKernels&, const Args&...>;

  template <auto kDo, typename... Args>
  Result<kDo, Args...> call(KernelOp op, const Args&... args) {
    if (observer_ == nullptr) [[likely]] {
      return (device_.get()->*kDo)(args...);
    }
    return observed<kDo, detail::Passed<Args>...>(op, args...);
  }

  /// Apart from its callers, which it would make larger.
  template <auto kDo, typename... Args>
  [[gnu::noinline]] Result<kDo, Args...> observed(KernelOp op, Args... args) {
    const detail::Reported<Args...> reported(args...);
    const KernelCall call{.op = op, .operands = reported.operands, .numbers = reported.numbers};
    if constexpr (std::is_void_v<Result<kDo, Args...>>) {
      auto run = [&] { (device_.get()->*kDo)(args...); };
      observer_->around(call, KernelRun(run));
    } else {
      Result<kDo, Args...> result{};
      auto run = [&] { result = (device_.get()->*kDo)(args...); };
      observer_->around(call, KernelRun(run));
      return result;
    }
  }

  std::unique_ptr<DeviceKernels> device_;
  KernelObserver* observer_ = nullptr;
};

}  // namespace lockstep
