// What the processor and CUDA implement, one function for each operation of Kernels.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "lockstep/base/enum_names.h"
#include "lockstep/tensor/detail/kernel_options.h"
#include "lockstep/tensor/dtype.h"
#include "lockstep/tensor/sketch.h"

namespace lockstep {

class Tensor;

/// The operations of Kernels, by the names of their functions. There is no second list of
/// enumerators: kernel_op("add") is the value, and a misspelt name does not compile.
enum class KernelOp : std::uint8_t {};
template <>
inline constexpr EnumNames<62> kEnumNames<KernelOp> = {"fill",
                                                       "copy",
                                                       "add",
                                                       "sub",
                                                       "mul",
                                                       "div",
                                                       "scale",
                                                       "div_scalar",
                                                       "add_scaled",
                                                       "add_row",
                                                       "add_channels",
                                                       "relu",
                                                       "relu_backward",
                                                       "tanh",
                                                       "tanh_backward",
                                                       "sigmoid",
                                                       "sigmoid_backward",
                                                       "exp",
                                                       "log",
                                                       "sqrt",
                                                       "round_to_grid",
                                                       "gemm",
                                                       "sum_rows",
                                                       "sum_channels",
                                                       "sum_all",
                                                       "mse",
                                                       "mse_backward",
                                                       "l1",
                                                       "l1_backward",
                                                       "cross_entropy",
                                                       "cross_entropy_backward",
                                                       "batch_norm",
                                                       "batch_norm_backward",
                                                       "batch_norm_stats",
                                                       "batch_norm_merge_stats",
                                                       "batch_norm_apply",
                                                       "batch_norm_sums",
                                                       "batch_norm_spread",
                                                       "softmax",
                                                       "softmax_backward",
                                                       "gelu",
                                                       "gelu_backward",
                                                       "layer_norm",
                                                       "layer_norm_backward",
                                                       "gather_rows",
                                                       "scatter_add_rows",
                                                       "swap_middle",
                                                       "unfold",
                                                       "fold",
                                                       "max_pool",
                                                       "max_pool_backward",
                                                       "avg_pool",
                                                       "avg_pool_backward",
                                                       "sgd",
                                                       "adam",
                                                       "adagrad",
                                                       "rmsprop",
                                                       "unscale",
                                                       "clamp",
                                                       "norm",
                                                       "average_into_bucket",
                                                       "reduce"};

consteval KernelOp kernel_op(std::string_view name) { return parse_enum<KernelOp>(name).value(); }

/// The operations of Kernels (kernels.h, which has their contracts) on one device. Only Kernels call
/// them, and implementations one another: observers of a program's operations do not see these.
class DeviceKernels {
 public:
  struct Gemm {
    bool transpose_a = false;
    bool transpose_b = false;
    bool accumulate = false;
  };

  struct BatchNorm {
    double momentum = 0.1;
    double eps = 1e-5;
    bool training = true;
  };

  struct Softmax {
    bool log = false;     ///< Its logarithm instead, without forming the quotient.
    bool causal = false;  ///< Row t of (..., T, T) sees columns 0 to t alone; the others become 0.
  };

  enum class Gelu : std::uint8_t { kErf, kTanh };

  /// A square-strided window over images; positions outside the image count as zero.
  struct Window {
    std::int64_t height = 1;
    std::int64_t width = 1;
    std::int64_t stride = 1;
    std::int64_t padding = 0;
  };

  DeviceKernels() = default;
  virtual ~DeviceKernels() = default;
  DeviceKernels(const DeviceKernels&) = delete;
  DeviceKernels& operator=(const DeviceKernels&) = delete;
  DeviceKernels(DeviceKernels&&) = delete;
  DeviceKernels& operator=(DeviceKernels&&) = delete;

  virtual void fill(const Tensor& out, double value) = 0;
  virtual void copy(const Tensor& out, const Tensor& in) = 0;
  virtual void add(const Tensor& out, const Tensor& a, const Tensor& b) = 0;
  virtual void sub(const Tensor& out, const Tensor& a, const Tensor& b) = 0;
  virtual void mul(const Tensor& out, const Tensor& a, const Tensor& b) = 0;
  virtual void div(const Tensor& out, const Tensor& a, const Tensor& b) = 0;
  virtual void scale(const Tensor& out, const Tensor& in, double factor) = 0;
  virtual void div_scalar(const Tensor& out, const Tensor& in, double divisor) = 0;
  virtual void add_scaled(const Tensor& out, const Tensor& a, const Tensor& b, double alpha) = 0;
  virtual void add_row(const Tensor& out, const Tensor& a, const Tensor& row) = 0;
  virtual void add_channels(const Tensor& out, const Tensor& a, const Tensor& channels) = 0;
  virtual void relu(const Tensor& out, const Tensor& in) = 0;
  virtual void relu_backward(const Tensor& out, const Tensor& grad, const Tensor& y) = 0;
  virtual void tanh(const Tensor& out, const Tensor& in) = 0;
  virtual void tanh_backward(const Tensor& out, const Tensor& grad, const Tensor& y) = 0;
  virtual void sigmoid(const Tensor& out, const Tensor& in) = 0;
  virtual void sigmoid_backward(const Tensor& out, const Tensor& grad, const Tensor& y) = 0;
  virtual void exp(const Tensor& out, const Tensor& in) = 0;
  virtual void log(const Tensor& out, const Tensor& in) = 0;
  virtual void sqrt(const Tensor& out, const Tensor& in) = 0;
  virtual void round_to_grid(const Tensor& out, const Tensor& in, int k, double limit) = 0;
  virtual void gemm(const Tensor& out, const Tensor& a, const Tensor& b, const Gemm& options) = 0;
  virtual void sum_rows(const Tensor& out, const Tensor& in) = 0;
  virtual void sum_channels(const Tensor& out, const Tensor& in) = 0;
  virtual void sum_all(const Tensor& out, const Tensor& in) = 0;
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
  virtual void batch_norm(const Tensor& out,
                          std::span<const Tensor> x_weight_bias,
                          std::span<const Tensor> running_mean_var,
                          std::span<const Tensor> save_mean_invstd,
                          const BatchNorm& options) = 0;
  virtual void batch_norm_backward(std::span<const Tensor> grads,
                                   std::span<const Tensor> in,
                                   std::span<const Tensor> save_mean_invstd) = 0;
  virtual void batch_norm_stats(std::span<const Tensor> mean_invstd,
                                const Tensor& x,
                                double eps) = 0;
  virtual void batch_norm_merge_stats(std::span<const Tensor> mean_invstd,
                                      std::span<const Tensor> running_mean_var,
                                      const Tensor& rows,
                                      const BatchNorm& options) = 0;
  virtual void batch_norm_apply(const Tensor& out,
                                std::span<const Tensor> x_weight_bias,
                                std::span<const Tensor> mean_invstd) = 0;
  virtual void batch_norm_sums(const Tensor& sums,
                               std::span<const Tensor> weight_bias_grads,
                               std::span<const Tensor> grad_x,
                               std::span<const Tensor> mean_invstd) = 0;
  virtual void batch_norm_spread(const Tensor& out,
                                 std::span<const Tensor> in,
                                 std::span<const Tensor> mean_invstd,
                                 const Tensor& sums,
                                 double count) = 0;
  virtual void softmax(const Tensor& out, const Tensor& in, const Softmax& options) = 0;
  virtual void softmax_backward(const Tensor& out,
                                const Tensor& grad,
                                const Tensor& y,
                                const Softmax& options) = 0;
  virtual void gelu(const Tensor& out, const Tensor& in, Gelu form) = 0;
  virtual void gelu_backward(const Tensor& out, const Tensor& grad, const Tensor& x, Gelu form) = 0;
  virtual void layer_norm(const Tensor& out,
                          std::span<const Tensor> x_weight_bias,
                          std::span<const Tensor> save_mean_invstd,
                          double eps) = 0;
  virtual void layer_norm_backward(std::span<const Tensor> grads,
                                   std::span<const Tensor> in,
                                   std::span<const Tensor> save_mean_invstd) = 0;
  virtual void gather_rows(const Tensor& out, const Tensor& table, const Tensor& indices) = 0;
  virtual void scatter_add_rows(const Tensor& table,
                                const Tensor& rows,
                                const Tensor& indices,
                                std::int64_t skipped) = 0;
  virtual void swap_middle(const Tensor& out, const Tensor& in) = 0;
  virtual void unfold(const Tensor& out, const Tensor& image, const Window& window) = 0;
  virtual void fold(const Tensor& image, const Tensor& columns, const Window& window) = 0;
  virtual void max_pool(const Tensor& out,
                        const Tensor& positions,
                        const Tensor& in,
                        const Window& window) = 0;
  virtual void max_pool_backward(const Tensor& out,
                                 const Tensor& grad,
                                 const Tensor& positions) = 0;
  virtual void avg_pool(const Tensor& out, const Tensor& in, const Window& window) = 0;
  virtual void avg_pool_backward(const Tensor& out, const Tensor& grad, const Window& window) = 0;
  virtual void sgd(const Tensor& param,
                   const Tensor& grad,
                   const Tensor& momentum_buffer,
                   const SgdUpdate& update) = 0;
  virtual void adam(const Tensor& param,
                    const Tensor& grad,
                    std::span<const Tensor> moments,
                    const AdamUpdate& update) = 0;
  virtual void adagrad(const Tensor& param,
                       const Tensor& grad,
                       const Tensor& sum,
                       const AdagradUpdate& update) = 0;
  virtual void rmsprop(const Tensor& param,
                       const Tensor& grad,
                       std::span<const Tensor> averages,
                       const RmspropUpdate& update) = 0;
  virtual bool unscale(const Tensor& grad, double factor) = 0;
  virtual void clamp(const Tensor& out, const Tensor& in, double limit) = 0;
  virtual double norm(const Tensor& in, double p) = 0;
  virtual void average_into_bucket(const Tensor& out, const Tensor& grad, double divisor) = 0;
  virtual void reduce(std::span<void* const> outputs,
                      std::span<const void* const> inputs,
                      std::int64_t count,
                      DType dtype,
                      ReduceOp op) = 0;

  virtual std::uint64_t digest(const Tensor& in, std::uint64_t base) = 0;
  virtual Sketch sketch(const Tensor& in) = 0;

  virtual TensorFingerprint fingerprint(const Tensor& in) { return {digest(in, 0), sketch(in)}; }
};

}  // namespace lockstep
