// The numeric operations that every op of autograd, optim and comm uses: one virtual call each, so
// that the CPU, an exactness-proving decorator and CUDA are interchangeable.
#pragma once

#include <cstdint>
#include <span>

#include "lockstep/base/words.h"
#include "lockstep/tensor/sketch.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep {

/// Element-wise reductions over ranks, as c10d names them.
enum class ReduceOp : std::uint8_t {
  kSum,
  kAvg,
  kProduct,
  kMin,
  kMax,
  kPremulSum,
  kBand,
  kBor,
  kBxor
};
template <>
inline constexpr WordTable<9> kWords<ReduceOp> = {
    "sum", "avg", "product", "min", "max", "premul_sum", "band", "bor", "bxor"};

/// What to do with the per-sample values of a loss.
enum class Reduction : std::uint8_t { kMean, kSum };

/// Hyper-parameters of one SGD update (PyTorch's names and order of operations).
struct SgdUpdate {
  double lr = 1e-3;
  double momentum = 0.0;
  double dampening = 0.0;
  double weight_decay = 0.0;
  bool nesterov = false;
  bool maximize = false;
  bool first_step = false;  ///< The momentum buffer does not exist yet: it becomes the gradient.
};

/// Hyper-parameters of one update of Adam or AdamW (PyTorch's names).
struct AdamUpdate {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.0;
  bool decoupled = false;  ///< AdamW: the decay shrinks the parameter and stays out of the moments.
  bool amsgrad = false;
  bool maximize = false;
  bool lerp = false;  ///< First moment by lerp (PyTorch 2), else by mul and add (1.13).
  double step = 1.0;  ///< Of this update, from 1.
};

struct AdagradUpdate {
  double lr = 1e-2;
  double lr_decay = 0.0;
  double weight_decay = 0.0;
  double eps = 1e-10;
  bool maximize = false;
  double step = 1.0;  ///< Of this update, from 1.
};

struct RmspropUpdate {
  double lr = 1e-2;
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0.0;
  double momentum = 0.0;
  bool centered = false;
  bool maximize = false;
  bool lerp = false;  ///< Mean gradient by lerp (PyTorch 2), else by mul and add (1.13).
};

/// Operations on contiguous tensors of one device.
///
/// Requires: outputs preallocated with the right shape; element-wise inputs of one dtype (f32 or
///     f64 unless stated). An output may alias an input of the same element-wise call.
/// Deterministic: each result is a function of the input bits alone, never of addresses or of the
///     number of threads. Element-wise maths and reductions are fixed-order loops of our own.
class Kernels {
 public:
  virtual ~Kernels() = default;

  // -- memory
  virtual void fill(const Tensor& out, double value) = 0;      ///< Any dtype.
  virtual void copy(const Tensor& out, const Tensor& in) = 0;  ///< Any dtype, converting.

  // -- element-wise
  virtual void add(const Tensor& out, const Tensor& a, const Tensor& b) = 0;
  virtual void sub(const Tensor& out, const Tensor& a, const Tensor& b) = 0;
  virtual void mul(const Tensor& out, const Tensor& a, const Tensor& b) = 0;
  virtual void div(const Tensor& out, const Tensor& a, const Tensor& b) = 0;
  /// out = in * factor; the factor is rounded to the tensor's dtype first, as PyTorch's scalars
  /// are.
  virtual void scale(const Tensor& out, const Tensor& in, double factor) = 0;
  /// out = in / divisor, a true division.
  virtual void div_scalar(const Tensor& out, const Tensor& in, double divisor) = 0;
  /// out = a + alpha * b with one rounding of the product and one of the sum fused (PyTorch's add
  /// on AVX2 builds: fma(b, alpha, a)).
  virtual void add_scaled(const Tensor& out, const Tensor& a, const Tensor& b, double alpha) = 0;
  /// out[r, c] = a[r, c] + row[c].
  virtual void add_row(const Tensor& out, const Tensor& a, const Tensor& row) = 0;
  /// out[n, c, ...] = a[n, c, ...] + channels[c].
  virtual void add_channels(const Tensor& out, const Tensor& a, const Tensor& channels) = 0;
  /// out = in where in is not negative, else 0. NaN and -0 pass through, as in PyTorch.
  virtual void relu(const Tensor& out, const Tensor& in) = 0;
  /// out = 0 where the forward's result `y` is <= 0, else grad.
  virtual void relu_backward(const Tensor& out, const Tensor& grad, const Tensor& y) = 0;
  /// The C library's tanh, element by element: the same bits on machines with the same libm.
  virtual void tanh(const Tensor& out, const Tensor& in) = 0;
  /// out = grad * fma(-y, y, 1) with y = tanh(x) (PyTorch's AVX2 builds fuse it so).
  virtual void tanh_backward(const Tensor& out, const Tensor& grad, const Tensor& y) = 0;
  /// 1 / (1 + exp(-in)) with the C library's exp.
  virtual void sigmoid(const Tensor& out, const Tensor& in) = 0;
  /// out = grad * (1 - y) * y, left to right, with the forward's result y.
  virtual void sigmoid_backward(const Tensor& out, const Tensor& grad, const Tensor& y) = 0;
  /// out = clamp(round_half_even(in * 2^k) / 2^k, -limit, limit): the one declared rounding of
  /// exact mode (docs/determinism.md).
  virtual void round_to_grid(const Tensor& out, const Tensor& in, int k, double limit) = 0;

  // -- products: (M, K) x (K, N), either operand stored transposed; `accumulate` adds to out.
  //    Below M * N * K = 64^3 each element is one chain of fma over k ascending, from +0: a row
  //    then does not depend on the batch. Above, Eigen's blocked order under pinned cache sizes: a
  //    function of the sizes alone.
  struct Gemm {
    bool transpose_a = false;
    bool transpose_b = false;
    bool accumulate = false;
  };

  virtual void gemm(const Tensor& out, const Tensor& a, const Tensor& b, const Gemm& options) = 0;

  // -- reductions, in index order
  virtual void sum_rows(const Tensor& out, const Tensor& in) = 0;  ///< (B, D) -> (D,), b ascending.
  /// (N, C, ...) -> (C,): positions ascending within an image, then images ascending.
  virtual void sum_channels(const Tensor& out, const Tensor& in) = 0;
  virtual void sum_all(const Tensor& out, const Tensor& in) = 0;  ///< -> scalar, i ascending.

  // -- losses: out is a scalar; `grad_out` a scalar; sums run in index order. `denominator` divides
  //    the sum (PyTorch's mean: the number of elements, or of samples for cross entropy).
  virtual void mse(const Tensor& out,
                   const Tensor& x,
                   const Tensor& target,
                   double denominator) = 0;
  virtual void mse_backward(const Tensor& out,
                            const Tensor& grad_out,
                            const Tensor& x,
                            const Tensor& target,
                            double denominator) = 0;
  virtual void l1(const Tensor& out, const Tensor& x, const Tensor& target, double denominator) = 0;
  virtual void l1_backward(const Tensor& out,
                           const Tensor& grad_out,
                           const Tensor& x,
                           const Tensor& target,
                           double denominator) = 0;
  /// x (B, C), labels i64 (B,). `log_probs` (B, C) receives log-softmax for the backward pass.
  virtual void cross_entropy(const Tensor& out,
                             const Tensor& log_probs,
                             const Tensor& x,
                             const Tensor& labels,
                             double denominator) = 0;
  virtual void cross_entropy_backward(const Tensor& out,
                                      const Tensor& grad_out,
                                      const Tensor& log_probs,
                                      const Tensor& labels,
                                      double denominator) = 0;

  // -- batch norm over the rows of (B, D); statistics per column
  struct BatchNorm {
    double momentum = 0.1;
    double eps = 1e-5;
    bool training = true;
  };

  /// Training: mean and biased variance of the batch, saved into save_mean and save_invstd; running
  /// statistics move by `momentum` (unbiased variance). Evaluation: uses and saves the running
  /// ones.
  virtual void batch_norm(const Tensor& out,
                          std::span<const Tensor> x_weight_bias,
                          std::span<const Tensor> running_mean_var,
                          std::span<const Tensor> save_mean_invstd,
                          const BatchNorm& options) = 0;
  /// grads = {grad_x, grad_weight, grad_bias}; in = {grad_out, x, weight}; saved as above.
  virtual void batch_norm_backward(std::span<const Tensor> grads,
                                   std::span<const Tensor> in,
                                   std::span<const Tensor> save_mean_invstd) = 0;

  // -- batch norm in parts, with statistics merged over ranks between them. Channels: dimension 1
  //    of x (N, C) or (N, C, ...); per-channel tensors are (C,). Sums run in index order.
  //    Source: PyTorch Normalization.cuh, batch_norm_stats and its four companions.
  /// mean_invstd = {mean, 1 / sqrt(biased variance + eps)} of this rank's batch.
  /// Requires: not empty.
  virtual void batch_norm_stats(std::span<const Tensor> mean_invstd,
                                const Tensor& x,
                                double eps) = 0;
  /// Merges the rows of (R, 2C + 1), each {mean, invstd, count}, in ascending order into
  /// mean_invstd and the running statistics (may be empty). Rows that count nothing are skipped.
  virtual void batch_norm_merge_stats(std::span<const Tensor> mean_invstd,
                                      std::span<const Tensor> running_mean_var,
                                      const Tensor& rows,
                                      const BatchNorm& options) = 0;
  /// out = weight * (x - mean) * invstd + bias; weight and bias may be undefined.
  virtual void batch_norm_apply(const Tensor& out,
                                std::span<const Tensor> x_weight_bias,
                                std::span<const Tensor> mean_invstd) = 0;
  /// sums (2C,) = sum of grad, then sum of grad * (x - mean); grads = {grad_weight, grad_bias}, may
  /// be empty.
  virtual void batch_norm_sums(const Tensor& sums,
                               std::span<const Tensor> weight_bias_grads,
                               std::span<const Tensor> grad_x,
                               std::span<const Tensor> mean_invstd) = 0;
  /// The gradient of x from sums over all ranks of `count` elements per channel.
  /// in = {grad_out, x, weight}.
  virtual void batch_norm_spread(const Tensor& out,
                                 std::span<const Tensor> in,
                                 std::span<const Tensor> mean_invstd,
                                 const Tensor& sums,
                                 double count) = 0;

  // -- layers; rows run along the last dimension, sums over them in index order
  struct Softmax {
    bool log = false;     ///< Its logarithm instead, without forming the quotient.
    bool causal = false;  ///< Row t of (..., T, T) sees columns 0 to t alone; the others become 0.
  };

  enum class Gelu : std::uint8_t { kErf, kTanh };

  virtual void softmax(const Tensor& out, const Tensor& in, const Softmax& options) = 0;
  /// `y` is the forward's result. Zeros that a causal mask left stay zeros.
  virtual void softmax_backward(const Tensor& out,
                                const Tensor& grad,
                                const Tensor& y,
                                const Softmax& options) = 0;
  /// x times the normal distribution's function, or its approximation by a tanh.
  virtual void gelu(const Tensor& out, const Tensor& in, Gelu form) = 0;
  virtual void gelu_backward(const Tensor& out, const Tensor& grad, const Tensor& x, Gelu form) = 0;
  /// Each row of x (R, D) to mean 0 and biased variance 1, times weight (D,), plus bias (D,).
  virtual void layer_norm(const Tensor& out,
                          std::span<const Tensor> x_weight_bias,
                          std::span<const Tensor> save_mean_invstd,
                          double eps) = 0;
  /// grads = {grad_x, grad_weight, grad_bias}; in = {grad_out, x, weight}; saved as above.
  virtual void layer_norm_backward(std::span<const Tensor> grads,
                                   std::span<const Tensor> in,
                                   std::span<const Tensor> save_mean_invstd) = 0;

  // -- movements: nothing is rounded but the means of avg_pool and the sums of scatter_add_rows,
  //    fold and the pools' backwards, which run in index order of what is added
  /// out[i, :] = table[indices[i], :], indices i64.
  virtual void gather_rows(const Tensor& out, const Tensor& table, const Tensor& indices) = 0;
  /// table[indices[i], :] += rows[i, :]; rows of index `skipped` (-1: none) are left out.
  virtual void scatter_add_rows(const Tensor& table,
                                const Tensor& rows,
                                const Tensor& indices,
                                std::int64_t skipped) = 0;
  /// (A, B, C, D) -> (A, C, B, D).
  virtual void swap_middle(const Tensor& out, const Tensor& in) = 0;

  /// A square-strided window over images; positions outside the image count as zero.
  struct Window {
    std::int64_t height = 1;
    std::int64_t width = 1;
    std::int64_t stride = 1;
    std::int64_t padding = 0;
  };

  /// One image (C, H, W) -> the window's contents at every place: (C * height * width, L).
  virtual void unfold(const Tensor& out, const Tensor& image, const Window& window) = 0;
  /// The adjoint of unfold: overwrites `image` with the sums of what lands on each position.
  virtual void fold(const Tensor& image, const Tensor& columns, const Window& window) = 0;
  /// (N, C, H, W) -> the largest value in each window, the first of equals, and its flat position
  /// (i64, of in) for the backward pass. Padding never wins.
  virtual void max_pool(const Tensor& out,
                        const Tensor& positions,
                        const Tensor& in,
                        const Window& window) = 0;
  virtual void max_pool_backward(const Tensor& out,
                                 const Tensor& grad,
                                 const Tensor& positions) = 0;
  /// (N, C, H, W) -> each window's sum, row by row, divided by the window's area: padding counts as
  /// zeros, as PyTorch's default has it.
  virtual void avg_pool(const Tensor& out, const Tensor& in, const Window& window) = 0;
  /// out (N, C, H, W) receives grad / area at every position of each window.
  virtual void avg_pool_backward(const Tensor& out, const Tensor& grad, const Window& window) = 0;

  // -- optimizer and communication arithmetic
  /// PyTorch's single-tensor SGD on one parameter. `momentum_buffer` undefined when momentum is 0.
  virtual void sgd(const Tensor& param,
                   const Tensor& grad,
                   const Tensor& momentum_buffer,
                   const SgdUpdate& update) = 0;
  /// PyTorch's single-tensor Adam or AdamW on one parameter.
  /// `moments`: exp_avg, exp_avg_sq, and with amsgrad max_exp_avg_sq; zeros before the first
  /// update.
  virtual void adam(const Tensor& param,
                    const Tensor& grad,
                    std::span<const Tensor> moments,
                    const AdamUpdate& update) = 0;
  /// PyTorch's single-tensor Adagrad on one dense parameter.
  virtual void adagrad(const Tensor& param,
                       const Tensor& grad,
                       const Tensor& sum,
                       const AdagradUpdate& update) = 0;
  /// PyTorch's single-tensor RMSprop on one parameter. `averages`: square_avg, then momentum_buffer
  /// if momentum > 0, then grad_avg if centered; zeros before the first update.
  virtual void rmsprop(const Tensor& param,
                       const Tensor& grad,
                       std::span<const Tensor> averages,
                       const RmspropUpdate& update) = 0;
  /// grad *= factor (rounded to f32 first, then to the dtype). Returns whether an element was not
  /// finite before.
  /// Source: PyTorch AmpKernels.cu, _amp_foreach_non_finite_check_and_unscale_.
  virtual bool unscale(const Tensor& grad, double factor) = 0;
  /// out = min(max(in, -limit), limit), the limit rounded to the dtype. NaN passes through.
  virtual void clamp(const Tensor& out, const Tensor& in, double limit) = 0;
  /// The p-norm of all elements, p = 1, 2 or infinity, rounded once to the dtype. Sums run in f64:
  /// element i into lane i mod 8, then the lanes in order. NaN wins over everything.
  virtual double norm(const Tensor& in, double p) = 0;
  /// out = grad * (1 / divisor): the reducer's pre-scaled copy into a bucket (reciprocal formed in
  /// double, rounded to the dtype).
  /// Source: PyTorch reducer.cpp, mark_variable_ready_dense.
  virtual void average_into_bucket(const Tensor& out, const Tensor& grad, double divisor) = 0;
  /// One result for all: every outputs[r][i] := (inputs[0][i] op inputs[1][i]) op ..., left to
  /// right, each operation rounded in the element type (f16/bf16: computed in f32, rounded once
  /// each). kAvg: the sum divided by the number of inputs; kPremulSum: as kSum (inputs come
  /// scaled). Raw host memory, all dtypes incl. integers; outputs may alias inputs. Works in blocks
  /// that stay in cache.
  virtual void reduce(std::span<void* const> outputs,
                      std::span<const void* const> inputs,
                      std::int64_t count,
                      DType dtype,
                      ReduceOp op) = 0;

  // -- digests (sm64 and the gradient sketch; digest.h and sketch.h define them)
  virtual std::uint64_t digest(const Tensor& in, std::uint64_t base) = 0;
  virtual Sketch sketch(const Tensor& in) = 0;

  /// digest(in, 0) and sketch(in) in one pass over memory, where that is quicker.
  virtual TensorFingerprint fingerprint(const Tensor& in) { return {digest(in, 0), sketch(in)}; }
};

}  // namespace lockstep
