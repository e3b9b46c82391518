// The class that make_cpu_kernels creates, shared by the files that define its methods.
#pragma once

#include <memory>
#include <utility>

#include "lockstep/kernels/detail/block_scratch.h"
#include "lockstep/tensor/kernels.h"

namespace lockstep::detail {

class CpuKernels : public DeviceKernels {
 public:
  CpuKernels() : CpuKernels(std::make_shared<SketchSigns>()) {}

  /// With signs that other kernels of the same thread use, too.
  explicit CpuKernels(std::shared_ptr<SketchSigns> signs) : signs_(std::move(signs)) {}

  void fill(const Tensor& out, double value) override;
  void copy(const Tensor& out, const Tensor& in) override;

  void add(const Tensor& out, const Tensor& a, const Tensor& b) override;
  void sub(const Tensor& out, const Tensor& a, const Tensor& b) override;
  void mul(const Tensor& out, const Tensor& a, const Tensor& b) override;
  void div(const Tensor& out, const Tensor& a, const Tensor& b) override;
  void scale(const Tensor& out, const Tensor& in, double factor) override;
  void div_scalar(const Tensor& out, const Tensor& in, double divisor) override;
  void add_scaled(const Tensor& out, const Tensor& a, const Tensor& b, double alpha) override;
  void add_row(const Tensor& out, const Tensor& a, const Tensor& row) override;
  void add_channels(const Tensor& out, const Tensor& a, const Tensor& channels) override;
  void relu(const Tensor& out, const Tensor& in) override;
  void relu_backward(const Tensor& out, const Tensor& grad, const Tensor& y) override;
  void tanh(const Tensor& out, const Tensor& in) override;
  void tanh_backward(const Tensor& out, const Tensor& grad, const Tensor& y) override;
  void sigmoid(const Tensor& out, const Tensor& in) override;
  void sigmoid_backward(const Tensor& out, const Tensor& grad, const Tensor& y) override;
  void exp(const Tensor& out, const Tensor& in) override;
  void log(const Tensor& out, const Tensor& in) override;
  void sqrt(const Tensor& out, const Tensor& in) override;
  void round_to_grid(const Tensor& out, const Tensor& in, int k, double limit) override;

  void gemm(const Tensor& out, const Tensor& a, const Tensor& b, const Gemm& options) override;

  void sum_rows(const Tensor& out, const Tensor& in) override;
  void sum_channels(const Tensor& out, const Tensor& in) override;
  void sum_all(const Tensor& out, const Tensor& in) override;

  void mse(const Tensor& out, const Tensor& x, const Tensor& target, double denominator) override;
  void mse_backward(const Tensor& out,
                    const Tensor& grad_out,
                    const Tensor& x,
                    const Tensor& target,
                    double denominator) override;
  void l1(const Tensor& out, const Tensor& x, const Tensor& target, double denominator) override;
  void l1_backward(const Tensor& out,
                   const Tensor& grad_out,
                   const Tensor& x,
                   const Tensor& target,
                   double denominator) override;
  void cross_entropy(const Tensor& out,
                     const Tensor& log_probs,
                     const Tensor& x,
                     const Tensor& labels,
                     double denominator) override;
  void cross_entropy_backward(const Tensor& out,
                              const Tensor& grad_out,
                              const Tensor& log_probs,
                              const Tensor& labels,
                              double denominator) override;

  void batch_norm(const Tensor& out,
                  std::span<const Tensor> x_weight_bias,
                  std::span<const Tensor> running_mean_var,
                  std::span<const Tensor> save_mean_invstd,
                  const BatchNorm& options) override;
  void batch_norm_backward(std::span<const Tensor> grads,
                           std::span<const Tensor> in,
                           std::span<const Tensor> save_mean_invstd) override;

  void batch_norm_stats(std::span<const Tensor> mean_invstd, const Tensor& x, double eps) override;
  void batch_norm_merge_stats(std::span<const Tensor> mean_invstd,
                              std::span<const Tensor> running_mean_var,
                              const Tensor& rows,
                              const BatchNorm& options) override;
  void batch_norm_apply(const Tensor& out,
                        std::span<const Tensor> x_weight_bias,
                        std::span<const Tensor> mean_invstd) override;
  void batch_norm_sums(const Tensor& sums,
                       std::span<const Tensor> weight_bias_grads,
                       std::span<const Tensor> grad_x,
                       std::span<const Tensor> mean_invstd) override;
  void batch_norm_spread(const Tensor& out,
                         std::span<const Tensor> in,
                         std::span<const Tensor> mean_invstd,
                         const Tensor& sums,
                         double count) override;

  void softmax(const Tensor& out, const Tensor& in, const Softmax& options) override;
  void softmax_backward(const Tensor& out,
                        const Tensor& grad,
                        const Tensor& y,
                        const Softmax& options) override;
  void gelu(const Tensor& out, const Tensor& in, Gelu form) override;
  void gelu_backward(const Tensor& out, const Tensor& grad, const Tensor& x, Gelu form) override;
  void layer_norm(const Tensor& out,
                  std::span<const Tensor> x_weight_bias,
                  std::span<const Tensor> save_mean_invstd,
                  double eps) override;
  void layer_norm_backward(std::span<const Tensor> grads,
                           std::span<const Tensor> in,
                           std::span<const Tensor> save_mean_invstd) override;
  void gather_rows(const Tensor& out, const Tensor& table, const Tensor& indices) override;
  void scatter_add_rows(const Tensor& table,
                        const Tensor& rows,
                        const Tensor& indices,
                        std::int64_t skipped) override;
  void swap_middle(const Tensor& out, const Tensor& in) override;
  void unfold(const Tensor& out, const Tensor& image, const Window& window) override;
  void fold(const Tensor& image, const Tensor& columns, const Window& window) override;
  void max_pool(const Tensor& out,
                const Tensor& positions,
                const Tensor& in,
                const Window& window) override;
  void max_pool_backward(const Tensor& out, const Tensor& grad, const Tensor& positions) override;
  void avg_pool(const Tensor& out, const Tensor& in, const Window& window) override;
  void avg_pool_backward(const Tensor& out, const Tensor& grad, const Window& window) override;

  void sgd(const Tensor& param,
           const Tensor& grad,
           const Tensor& momentum_buffer,
           const SgdUpdate& update) override;
  void adam(const Tensor& param,
            const Tensor& grad,
            std::span<const Tensor> moments,
            const AdamUpdate& update) override;
  void adagrad(const Tensor& param,
               const Tensor& grad,
               const Tensor& sum,
               const AdagradUpdate& update) override;
  void rmsprop(const Tensor& param,
               const Tensor& grad,
               std::span<const Tensor> averages,
               const RmspropUpdate& update) override;
  bool unscale(const Tensor& grad, double factor) override;
  void clamp(const Tensor& out, const Tensor& in, double limit) override;
  double norm(const Tensor& in, double p) override;
  void average_into_bucket(const Tensor& out, const Tensor& grad, double divisor) override;
  void reduce(std::span<void* const> outputs,
              std::span<const void* const> inputs,
              std::int64_t count,
              DType dtype,
              ReduceOp op) override;

  std::uint64_t digest(const Tensor& in, std::uint64_t base) override;
  Sketch sketch(const Tensor& in) override;
  TensorFingerprint fingerprint(const Tensor& in) override;

 private:
  std::shared_ptr<SketchSigns> signs_;
  BlockScratch scratch_;
};

}  // namespace lockstep::detail
