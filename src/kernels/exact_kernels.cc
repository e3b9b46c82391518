#include <algorithm>
#include <cfenv>
#include <cmath>
#include <string>
#include <vector>

#include "lockstep/kernels/cpu_kernels.h"
#include "lockstep/tensor/detail/dispatch.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep {

namespace {

[[noreturn]] void fail_inexact(const char* operation) {
  throw InexactOperation("operation '" + std::string(operation) +
                         "' rounded; exact mode promises it does not");
}

/// Runs one operation with the FPU watching. The operation is a virtual call, so the
/// compiler cannot move its arithmetic past the flag's clearing and testing.
template <typename F>
void watch(const char* operation, F run) {
  std::feclearexcept(FE_INEXACT);
  run();
  if (std::fetestexcept(FE_INEXACT) != 0) fail_inexact(operation);
}

/// 16-bit floats are rounded by integer arithmetic, which raises no flag: results are checked by
/// value.
bool rounds_silently(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16; }

bool same_value(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

std::vector<double> widened(const void* data, std::int64_t n_elems, DType dtype) {
  std::vector<double> values;
  detail::for_any(dtype, [&](auto tag) {
    const auto* const x = static_cast<const decltype(tag)*>(data);
    for (std::int64_t i = 0; i < n_elems; ++i) {
      values.push_back(static_cast<double>(detail::load(x[i])));
    }
  });
  return values;
}

/// What a sum or product of 16-bit floats is without their rounding. The caller watches the FPU.
std::vector<double> wide_reduction(std::span<const void* const> inputs,
                                   std::int64_t count,
                                   DType dtype,
                                   ReduceOp op) {
  std::vector<double> result = widened(inputs[0], count, dtype);
  for (const void* input : inputs.subspan(1)) {
    const std::vector<double> next = widened(input, count, dtype);
    for (std::size_t i = 0; i < result.size(); ++i) {
      result[i] = op == ReduceOp::kProduct ? result[i] * next[i] : result[i] + next[i];
    }
  }
  if (op == ReduceOp::kAvg) {
    for (double& value : result) value /= static_cast<double>(inputs.size());
  }
  return result;
}

class ExactKernels final : public Kernels {
 public:
  explicit ExactKernels(Kernels& inner) : inner_(&inner) {}

  void fill(const Tensor& out, double value) override;
  void copy(const Tensor& out, const Tensor& in) override;

  void add(const Tensor& out, const Tensor& a, const Tensor& b) override {
    watch("add", [&] { inner_->add(out, a, b); });
  }

  void sub(const Tensor& out, const Tensor& a, const Tensor& b) override {
    watch("sub", [&] { inner_->sub(out, a, b); });
  }

  void mul(const Tensor& out, const Tensor& a, const Tensor& b) override {
    watch("mul", [&] { inner_->mul(out, a, b); });
  }

  void div(const Tensor& out, const Tensor& a, const Tensor& b) override {
    watch("div", [&] { inner_->div(out, a, b); });
  }

  void scale(const Tensor& out, const Tensor& in, double factor) override {
    watch("scale", [&] { inner_->scale(out, in, factor); });
  }

  void div_scalar(const Tensor& out, const Tensor& in, double divisor) override {
    watch("div_scalar", [&] { inner_->div_scalar(out, in, divisor); });
  }

  void add_scaled(const Tensor& out, const Tensor& a, const Tensor& b, double alpha) override {
    watch("add_scaled", [&] { inner_->add_scaled(out, a, b, alpha); });
  }

  void add_row(const Tensor& out, const Tensor& a, const Tensor& row) override {
    watch("add_row", [&] { inner_->add_row(out, a, row); });
  }

  void add_channels(const Tensor& out, const Tensor& a, const Tensor& channels) override {
    watch("add_channels", [&] { inner_->add_channels(out, a, channels); });
  }

  void relu(const Tensor& out, const Tensor& in) override {
    watch("relu", [&] { inner_->relu(out, in); });
  }

  void relu_backward(const Tensor& out, const Tensor& grad, const Tensor& y) override {
    watch("relu_backward", [&] { inner_->relu_backward(out, grad, y); });
  }

  void tanh(const Tensor& out, const Tensor& in) override {
    watch("tanh", [&] { inner_->tanh(out, in); });
  }

  void tanh_backward(const Tensor& out, const Tensor& grad, const Tensor& y) override {
    watch("tanh_backward", [&] { inner_->tanh_backward(out, grad, y); });
  }

  void sigmoid(const Tensor& out, const Tensor& in) override {
    watch("sigmoid", [&] { inner_->sigmoid(out, in); });
  }

  void sigmoid_backward(const Tensor& out, const Tensor& grad, const Tensor& y) override {
    watch("sigmoid_backward", [&] { inner_->sigmoid_backward(out, grad, y); });
  }

  // The one declared rounding.
  void round_to_grid(const Tensor& out, const Tensor& in, int k, double limit) override {
    inner_->round_to_grid(out, in, k, limit);
  }

  void gemm(const Tensor& out, const Tensor& a, const Tensor& b, const Gemm& options) override {
    watch("gemm", [&] { inner_->gemm(out, a, b, options); });
  }

  void sum_rows(const Tensor& out, const Tensor& in) override {
    watch("sum_rows", [&] { inner_->sum_rows(out, in); });
  }

  void sum_channels(const Tensor& out, const Tensor& in) override {
    watch("sum_channels", [&] { inner_->sum_channels(out, in); });
  }

  void sum_all(const Tensor& out, const Tensor& in) override {
    watch("sum_all", [&] { inner_->sum_all(out, in); });
  }

  void mse(const Tensor& out, const Tensor& x, const Tensor& target, double denominator) override {
    watch("mse", [&] { inner_->mse(out, x, target, denominator); });
  }

  void mse_backward(const Tensor& out,
                    const Tensor& grad_out,
                    const Tensor& x,
                    const Tensor& target,
                    double denominator) override {
    watch("mse_backward", [&] { inner_->mse_backward(out, grad_out, x, target, denominator); });
  }

  void l1(const Tensor& out, const Tensor& x, const Tensor& target, double denominator) override {
    watch("l1", [&] { inner_->l1(out, x, target, denominator); });
  }

  void l1_backward(const Tensor& out,
                   const Tensor& grad_out,
                   const Tensor& x,
                   const Tensor& target,
                   double denominator) override {
    watch("l1_backward", [&] { inner_->l1_backward(out, grad_out, x, target, denominator); });
  }

  void cross_entropy(const Tensor& out,
                     const Tensor& log_probs,
                     const Tensor& x,
                     const Tensor& labels,
                     double denominator) override {
    watch("cross_entropy", [&] { inner_->cross_entropy(out, log_probs, x, labels, denominator); });
  }

  void cross_entropy_backward(const Tensor& out,
                              const Tensor& grad_out,
                              const Tensor& log_probs,
                              const Tensor& labels,
                              double denominator) override {
    watch("cross_entropy_backward",
          [&] { inner_->cross_entropy_backward(out, grad_out, log_probs, labels, denominator); });
  }

  void batch_norm(const Tensor& out,
                  std::span<const Tensor> x_weight_bias,
                  std::span<const Tensor> running_mean_var,
                  std::span<const Tensor> save_mean_invstd,
                  const BatchNorm& options) override {
    watch("batch_norm", [&] {
      inner_->batch_norm(out, x_weight_bias, running_mean_var, save_mean_invstd, options);
    });
  }

  void batch_norm_backward(std::span<const Tensor> grads,
                           std::span<const Tensor> in,
                           std::span<const Tensor> save_mean_invstd) override {
    watch("batch_norm_backward", [&] { inner_->batch_norm_backward(grads, in, save_mean_invstd); });
  }

  void batch_norm_stats(std::span<const Tensor> mean_invstd, const Tensor& x, double eps) override {
    watch("batch_norm_stats", [&] { inner_->batch_norm_stats(mean_invstd, x, eps); });
  }

  void batch_norm_merge_stats(std::span<const Tensor> mean_invstd,
                              std::span<const Tensor> running_mean_var,
                              const Tensor& rows,
                              const BatchNorm& options) override {
    watch("batch_norm_merge_stats",
          [&] { inner_->batch_norm_merge_stats(mean_invstd, running_mean_var, rows, options); });
  }

  void batch_norm_apply(const Tensor& out,
                        std::span<const Tensor> x_weight_bias,
                        std::span<const Tensor> mean_invstd) override {
    watch("batch_norm_apply", [&] { inner_->batch_norm_apply(out, x_weight_bias, mean_invstd); });
  }

  void batch_norm_sums(const Tensor& sums,
                       std::span<const Tensor> weight_bias_grads,
                       std::span<const Tensor> grad_x,
                       std::span<const Tensor> mean_invstd) override {
    watch("batch_norm_sums",
          [&] { inner_->batch_norm_sums(sums, weight_bias_grads, grad_x, mean_invstd); });
  }

  void batch_norm_spread(const Tensor& out,
                         std::span<const Tensor> in,
                         std::span<const Tensor> mean_invstd,
                         const Tensor& sums,
                         double count) override {
    watch("batch_norm_spread",
          [&] { inner_->batch_norm_spread(out, in, mean_invstd, sums, count); });
  }

  void softmax(const Tensor& out, const Tensor& in, const Softmax& options) override {
    watch("softmax", [&] { inner_->softmax(out, in, options); });
  }

  void softmax_backward(const Tensor& out,
                        const Tensor& grad,
                        const Tensor& y,
                        const Softmax& options) override {
    watch("softmax_backward", [&] { inner_->softmax_backward(out, grad, y, options); });
  }

  void gelu(const Tensor& out, const Tensor& in, Gelu form) override {
    watch("gelu", [&] { inner_->gelu(out, in, form); });
  }

  void gelu_backward(const Tensor& out, const Tensor& grad, const Tensor& x, Gelu form) override {
    watch("gelu_backward", [&] { inner_->gelu_backward(out, grad, x, form); });
  }

  void layer_norm(const Tensor& out,
                  std::span<const Tensor> x_weight_bias,
                  std::span<const Tensor> save_mean_invstd,
                  double eps) override {
    watch("layer_norm", [&] { inner_->layer_norm(out, x_weight_bias, save_mean_invstd, eps); });
  }

  void layer_norm_backward(std::span<const Tensor> grads,
                           std::span<const Tensor> in,
                           std::span<const Tensor> save_mean_invstd) override {
    watch("layer_norm_backward", [&] { inner_->layer_norm_backward(grads, in, save_mean_invstd); });
  }

  void gather_rows(const Tensor& out, const Tensor& table, const Tensor& indices) override {
    watch("gather_rows", [&] { inner_->gather_rows(out, table, indices); });
  }

  void scatter_add_rows(const Tensor& table,
                        const Tensor& rows,
                        const Tensor& indices,
                        std::int64_t skipped) override {
    watch("scatter_add_rows", [&] { inner_->scatter_add_rows(table, rows, indices, skipped); });
  }

  void swap_middle(const Tensor& out, const Tensor& in) override {
    watch("swap_middle", [&] { inner_->swap_middle(out, in); });
  }

  void unfold(const Tensor& out, const Tensor& image, const Window& window) override {
    watch("unfold", [&] { inner_->unfold(out, image, window); });
  }

  void fold(const Tensor& image, const Tensor& columns, const Window& window) override {
    watch("fold", [&] { inner_->fold(image, columns, window); });
  }

  void max_pool(const Tensor& out,
                const Tensor& positions,
                const Tensor& in,
                const Window& window) override {
    watch("max_pool", [&] { inner_->max_pool(out, positions, in, window); });
  }

  void max_pool_backward(const Tensor& out, const Tensor& grad, const Tensor& positions) override {
    watch("max_pool_backward", [&] { inner_->max_pool_backward(out, grad, positions); });
  }

  void avg_pool(const Tensor& out, const Tensor& in, const Window& window) override {
    watch("avg_pool", [&] { inner_->avg_pool(out, in, window); });
  }

  void avg_pool_backward(const Tensor& out, const Tensor& grad, const Window& window) override {
    watch("avg_pool_backward", [&] { inner_->avg_pool_backward(out, grad, window); });
  }

  void sgd(const Tensor& param,
           const Tensor& grad,
           const Tensor& momentum_buffer,
           const SgdUpdate& update) override {
    watch("sgd", [&] { inner_->sgd(param, grad, momentum_buffer, update); });
  }

  void adam(const Tensor& param,
            const Tensor& grad,
            std::span<const Tensor> moments,
            const AdamUpdate& update) override {
    watch("adam", [&] { inner_->adam(param, grad, moments, update); });
  }

  void adagrad(const Tensor& param,
               const Tensor& grad,
               const Tensor& sum,
               const AdagradUpdate& update) override {
    watch("adagrad", [&] { inner_->adagrad(param, grad, sum, update); });
  }

  void rmsprop(const Tensor& param,
               const Tensor& grad,
               std::span<const Tensor> averages,
               const RmspropUpdate& update) override {
    watch("rmsprop", [&] { inner_->rmsprop(param, grad, averages, update); });
  }

  bool unscale(const Tensor& grad, double factor) override {
    bool found = false;
    watch("unscale", [&] { found = inner_->unscale(grad, factor); });
    return found;
  }

  void clamp(const Tensor& out, const Tensor& in, double limit) override {
    watch("clamp", [&] { inner_->clamp(out, in, limit); });
  }

  double norm(const Tensor& in, double p) override {
    double result = 0.0;
    watch("norm", [&] { result = inner_->norm(in, p); });
    return result;
  }

  void average_into_bucket(const Tensor& out, const Tensor& grad, double divisor) override;

  void reduce(std::span<void* const> outputs,
              std::span<const void* const> inputs,
              std::int64_t count,
              DType dtype,
              ReduceOp op) override;

  // Observers: what they round stays out of the job.
  std::uint64_t digest(const Tensor& in, std::uint64_t base) override {
    return inner_->digest(in, base);
  }

  Sketch sketch(const Tensor& in) override { return inner_->sketch(in); }

  TensorFingerprint fingerprint(const Tensor& in) override { return inner_->fingerprint(in); }

 private:
  Kernels* inner_;
};

// The reciprocal of a world size such as 3 rounds, and yet grad * (1 / 3) is often exact because
// the gradient is a multiple of 3: what counts is whether the quotient times the divisor is the
// gradient.
void ExactKernels::average_into_bucket(const Tensor& out, const Tensor& grad, double divisor) {
  const Tensor before = out.address() == grad.address() ? grad.clone() : grad;
  inner_->average_into_bucket(out, grad, divisor);
  bool exact = true;
  detail::for_any(out.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const auto* const o = static_cast<const T*>(out.read_raw());
    const auto* const g = static_cast<const T*>(before.read_raw());
    for (std::int64_t i = 0; i < out.n_elems(); ++i) {
      const auto quotient = static_cast<double>(detail::load(o[i]));
      exact &= std::fma(quotient, divisor, -static_cast<double>(detail::load(g[i]))) == 0.0;
    }
  });
  if (!exact) fail_inexact("average_into_bucket");
}

void ExactKernels::fill(const Tensor& out, double value) {
  watch("fill", [&] { inner_->fill(out, value); });
  if (!rounds_silently(out.dtype()) || out.n_elems() == 0) return;
  if (!same_value(out.at(0), value)) fail_inexact("fill");
}

void ExactKernels::copy(const Tensor& out, const Tensor& in) {
  watch("copy", [&] { inner_->copy(out, in); });
  if (!rounds_silently(out.dtype()) || out.dtype() == in.dtype()) return;
  const std::vector<double> wanted = widened(in.read_raw(), in.n_elems(), in.dtype());
  const std::vector<double> got = widened(out.read_raw(), out.n_elems(), out.dtype());
  if (!std::equal(got.begin(), got.end(), wanted.begin(), same_value)) fail_inexact("copy");
}

void ExactKernels::reduce(std::span<void* const> outputs,
                          std::span<const void* const> inputs,
                          std::int64_t count,
                          DType dtype,
                          ReduceOp op) {
  const bool arithmetic = op != ReduceOp::kMin && op != ReduceOp::kMax;
  if (!rounds_silently(dtype) || !arithmetic) {
    watch("reduce", [&] { inner_->reduce(outputs, inputs, count, dtype, op); });
    return;
  }
  std::vector<double> wanted;
  watch("reduce", [&] { wanted = wide_reduction(inputs, count, dtype, op); });
  inner_->reduce(outputs, inputs, count, dtype, op);
  const std::vector<double> got = widened(outputs[0], count, dtype);
  if (!std::equal(got.begin(), got.end(), wanted.begin(), same_value)) fail_inexact("reduce");
}

}  // namespace

std::unique_ptr<Kernels> make_exact_kernels(Kernels& inner) {
  return std::make_unique<ExactKernels>(inner);
}

}  // namespace lockstep
