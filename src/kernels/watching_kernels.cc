// Reports which operations touch memory that a transfer owns, and passes on what came out of one.
#include <array>

#include "lockstep/kernels/cpu_kernels.h"
#include "lockstep/tensor/in_flight.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep {

namespace {

/// The operands of one operation.
class Watch {
 public:
  Watch(const Tensor& operand, const char* operation) : operation_(operation) {
    if (!operand.defined()) return;
    InFlight* const in_flight = operand.runtime().in_flight();
    if (in_flight != nullptr && !in_flight->idle()) in_flight_ = in_flight;
    ExchangeWatch* const exchanges = operand.runtime().exchanges();
    if (exchanges != nullptr && !exchanges->idle()) exchanges_ = exchanges;
  }

  ~Watch() {
    if (exchanges_ != nullptr) pass_on();
  }

  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  Watch(Watch&&) = delete;
  Watch& operator=(Watch&&) = delete;

  template <typename Operand>
  Watch& writes(const Operand& operand) {
    if (in_flight_ != nullptr) look(operand, true);
    if (exchanges_ != nullptr) note(operand, true);
    return *this;
  }

  template <typename Operand>
  Watch& reads(const Operand& operand) {
    if (in_flight_ != nullptr) look(operand, false);
    if (exchanges_ != nullptr) note(operand, false);
    return *this;
  }

 private:
  static constexpr std::size_t kMostWritten = 6;

  void look(const Tensor& tensor, bool writes) {
    if (!tensor.defined()) return;
    const std::byte* const begin = tensor.address();
    in_flight_->access(begin, begin + tensor.n_bytes(), {operation_, writes, {}});
  }

  void look(std::span<const Tensor> tensors, bool writes) {
    for (const Tensor& tensor : tensors) look(tensor, writes);
  }

  void note(const Tensor& tensor, bool writes) {
    if (!tensor.defined()) return;
    if (!writes) {
      const std::uint32_t origin = tensor.storage()->origin();
      exchanges_->on_read(origin);
      carried_ |= exchanges_->carried(origin);
    } else if (n_written_ < kMostWritten) {
      written_[n_written_++] = &tensor;
    }
  }

  void note(std::span<const Tensor> tensors, bool writes) {
    for (const Tensor& tensor : tensors) note(tensor, writes);
  }

  /// What was computed from an exchange's result carries its bit.
  void pass_on() {
    for (std::size_t i = 0; i < n_written_; ++i) {
      Storage& storage = *written_[i]->storage();
      const bool whole = written_[i]->n_bytes() == storage.n_bytes();
      storage.set_origin(exchanges_->written(storage.origin(), carried_, whole));
    }
  }

  InFlight* in_flight_ = nullptr;
  ExchangeWatch* exchanges_ = nullptr;
  const char* operation_;
  std::array<const Tensor*, kMostWritten> written_{};
  std::size_t n_written_ = 0;
  std::uint32_t carried_ = 0;
};

class WatchingKernels final : public Kernels {
 public:
  explicit WatchingKernels(Kernels& inner) : inner_(&inner) {}

  void fill(const Tensor& out, double value) override {
    Watch(out, "fill").writes(out);
    inner_->fill(out, value);
  }

  void copy(const Tensor& out, const Tensor& in) override {
    Watch(out, "copy").writes(out).reads(in);
    inner_->copy(out, in);
  }

  void add(const Tensor& out, const Tensor& a, const Tensor& b) override {
    Watch(out, "add").writes(out).reads(a).reads(b);
    inner_->add(out, a, b);
  }

  void sub(const Tensor& out, const Tensor& a, const Tensor& b) override {
    Watch(out, "sub").writes(out).reads(a).reads(b);
    inner_->sub(out, a, b);
  }

  void mul(const Tensor& out, const Tensor& a, const Tensor& b) override {
    Watch(out, "mul").writes(out).reads(a).reads(b);
    inner_->mul(out, a, b);
  }

  void div(const Tensor& out, const Tensor& a, const Tensor& b) override {
    Watch(out, "div").writes(out).reads(a).reads(b);
    inner_->div(out, a, b);
  }

  void scale(const Tensor& out, const Tensor& in, double factor) override {
    Watch(out, "scale").writes(out).reads(in);
    inner_->scale(out, in, factor);
  }

  void div_scalar(const Tensor& out, const Tensor& in, double divisor) override {
    Watch(out, "div_scalar").writes(out).reads(in);
    inner_->div_scalar(out, in, divisor);
  }

  void add_scaled(const Tensor& out, const Tensor& a, const Tensor& b, double alpha) override {
    Watch(out, "add_scaled").writes(out).reads(a).reads(b);
    inner_->add_scaled(out, a, b, alpha);
  }

  void add_row(const Tensor& out, const Tensor& a, const Tensor& row) override {
    Watch(out, "add_row").writes(out).reads(a).reads(row);
    inner_->add_row(out, a, row);
  }

  void add_channels(const Tensor& out, const Tensor& a, const Tensor& channels) override {
    Watch(out, "add_channels").writes(out).reads(a).reads(channels);
    inner_->add_channels(out, a, channels);
  }

  void relu(const Tensor& out, const Tensor& in) override {
    Watch(out, "relu").writes(out).reads(in);
    inner_->relu(out, in);
  }

  void relu_backward(const Tensor& out, const Tensor& grad, const Tensor& y) override {
    Watch(out, "relu_backward").writes(out).reads(grad).reads(y);
    inner_->relu_backward(out, grad, y);
  }

  void tanh(const Tensor& out, const Tensor& in) override {
    Watch(out, "tanh").writes(out).reads(in);
    inner_->tanh(out, in);
  }

  void tanh_backward(const Tensor& out, const Tensor& grad, const Tensor& y) override {
    Watch(out, "tanh_backward").writes(out).reads(grad).reads(y);
    inner_->tanh_backward(out, grad, y);
  }

  void sigmoid(const Tensor& out, const Tensor& in) override {
    Watch(out, "sigmoid").writes(out).reads(in);
    inner_->sigmoid(out, in);
  }

  void sigmoid_backward(const Tensor& out, const Tensor& grad, const Tensor& y) override {
    Watch(out, "sigmoid_backward").writes(out).reads(grad).reads(y);
    inner_->sigmoid_backward(out, grad, y);
  }

  void round_to_grid(const Tensor& out, const Tensor& in, int k, double limit) override {
    Watch(out, "round_to_grid").writes(out).reads(in);
    inner_->round_to_grid(out, in, k, limit);
  }

  void gemm(const Tensor& out, const Tensor& a, const Tensor& b, const Gemm& options) override {
    Watch(out, "gemm").writes(out).reads(a).reads(b);
    inner_->gemm(out, a, b, options);
  }

  void sum_rows(const Tensor& out, const Tensor& in) override {
    Watch(out, "sum_rows").writes(out).reads(in);
    inner_->sum_rows(out, in);
  }

  void sum_channels(const Tensor& out, const Tensor& in) override {
    Watch(out, "sum_channels").writes(out).reads(in);
    inner_->sum_channels(out, in);
  }

  void sum_all(const Tensor& out, const Tensor& in) override {
    Watch(out, "sum_all").writes(out).reads(in);
    inner_->sum_all(out, in);
  }

  void mse(const Tensor& out, const Tensor& x, const Tensor& target, double denominator) override {
    Watch(out, "mse").writes(out).reads(x).reads(target);
    inner_->mse(out, x, target, denominator);
  }

  void mse_backward(const Tensor& out,
                    const Tensor& grad_out,
                    const Tensor& x,
                    const Tensor& target,
                    double denominator) override {
    Watch(out, "mse_backward").writes(out).reads(grad_out).reads(x).reads(target);
    inner_->mse_backward(out, grad_out, x, target, denominator);
  }

  void l1(const Tensor& out, const Tensor& x, const Tensor& target, double denominator) override {
    Watch(out, "l1").writes(out).reads(x).reads(target);
    inner_->l1(out, x, target, denominator);
  }

  void l1_backward(const Tensor& out,
                   const Tensor& grad_out,
                   const Tensor& x,
                   const Tensor& target,
                   double denominator) override {
    Watch(out, "l1_backward").writes(out).reads(grad_out).reads(x).reads(target);
    inner_->l1_backward(out, grad_out, x, target, denominator);
  }

  void cross_entropy(const Tensor& out,
                     const Tensor& log_probs,
                     const Tensor& x,
                     const Tensor& labels,
                     double denominator) override {
    Watch(out, "cross_entropy").writes(out).writes(log_probs).reads(x).reads(labels);
    inner_->cross_entropy(out, log_probs, x, labels, denominator);
  }

  void cross_entropy_backward(const Tensor& out,
                              const Tensor& grad_out,
                              const Tensor& log_probs,
                              const Tensor& labels,
                              double denominator) override {
    Watch(out, "cross_entropy_backward").writes(out).reads(grad_out).reads(log_probs).reads(labels);
    inner_->cross_entropy_backward(out, grad_out, log_probs, labels, denominator);
  }

  void batch_norm(const Tensor& out,
                  std::span<const Tensor> x_weight_bias,
                  std::span<const Tensor> running_mean_var,
                  std::span<const Tensor> save_mean_invstd,
                  const BatchNorm& options) override {
    Watch(out, "batch_norm")
        .writes(out)
        .reads(x_weight_bias)
        .writes(running_mean_var)
        .writes(save_mean_invstd);
    inner_->batch_norm(out, x_weight_bias, running_mean_var, save_mean_invstd, options);
  }

  void batch_norm_backward(std::span<const Tensor> grads,
                           std::span<const Tensor> in,
                           std::span<const Tensor> save_mean_invstd) override {
    Watch(in[0], "batch_norm_backward").writes(grads).reads(in).reads(save_mean_invstd);
    inner_->batch_norm_backward(grads, in, save_mean_invstd);
  }

  void batch_norm_stats(std::span<const Tensor> mean_invstd, const Tensor& x, double eps) override {
    Watch(x, "batch_norm_stats").writes(mean_invstd).reads(x);
    inner_->batch_norm_stats(mean_invstd, x, eps);
  }

  void batch_norm_merge_stats(std::span<const Tensor> mean_invstd,
                              std::span<const Tensor> running_mean_var,
                              const Tensor& rows,
                              const BatchNorm& options) override {
    Watch(rows, "batch_norm_merge_stats").writes(mean_invstd).writes(running_mean_var).reads(rows);
    inner_->batch_norm_merge_stats(mean_invstd, running_mean_var, rows, options);
  }

  void batch_norm_apply(const Tensor& out,
                        std::span<const Tensor> x_weight_bias,
                        std::span<const Tensor> mean_invstd) override {
    Watch(out, "batch_norm_apply").writes(out).reads(x_weight_bias).reads(mean_invstd);
    inner_->batch_norm_apply(out, x_weight_bias, mean_invstd);
  }

  void batch_norm_sums(const Tensor& sums,
                       std::span<const Tensor> weight_bias_grads,
                       std::span<const Tensor> grad_x,
                       std::span<const Tensor> mean_invstd) override {
    Watch(sums, "batch_norm_sums")
        .writes(sums)
        .writes(weight_bias_grads)
        .reads(grad_x)
        .reads(mean_invstd);
    inner_->batch_norm_sums(sums, weight_bias_grads, grad_x, mean_invstd);
  }

  void batch_norm_spread(const Tensor& out,
                         std::span<const Tensor> in,
                         std::span<const Tensor> mean_invstd,
                         const Tensor& sums,
                         double count) override {
    Watch(out, "batch_norm_spread").writes(out).reads(in).reads(mean_invstd).reads(sums);
    inner_->batch_norm_spread(out, in, mean_invstd, sums, count);
  }

  void softmax(const Tensor& out, const Tensor& in, const Softmax& options) override {
    Watch(out, "softmax").writes(out).reads(in);
    inner_->softmax(out, in, options);
  }

  void softmax_backward(const Tensor& out,
                        const Tensor& grad,
                        const Tensor& y,
                        const Softmax& options) override {
    Watch(out, "softmax_backward").writes(out).reads(grad).reads(y);
    inner_->softmax_backward(out, grad, y, options);
  }

  void gelu(const Tensor& out, const Tensor& in, Gelu form) override {
    Watch(out, "gelu").writes(out).reads(in);
    inner_->gelu(out, in, form);
  }

  void gelu_backward(const Tensor& out, const Tensor& grad, const Tensor& x, Gelu form) override {
    Watch(out, "gelu_backward").writes(out).reads(grad).reads(x);
    inner_->gelu_backward(out, grad, x, form);
  }

  void layer_norm(const Tensor& out,
                  std::span<const Tensor> x_weight_bias,
                  std::span<const Tensor> save_mean_invstd,
                  double eps) override {
    Watch(out, "layer_norm").writes(out).reads(x_weight_bias).writes(save_mean_invstd);
    inner_->layer_norm(out, x_weight_bias, save_mean_invstd, eps);
  }

  void layer_norm_backward(std::span<const Tensor> grads,
                           std::span<const Tensor> in,
                           std::span<const Tensor> save_mean_invstd) override {
    Watch(in[0], "layer_norm_backward").writes(grads).reads(in).reads(save_mean_invstd);
    inner_->layer_norm_backward(grads, in, save_mean_invstd);
  }

  void gather_rows(const Tensor& out, const Tensor& table, const Tensor& indices) override {
    Watch(out, "gather_rows").writes(out).reads(table).reads(indices);
    inner_->gather_rows(out, table, indices);
  }

  void scatter_add_rows(const Tensor& table,
                        const Tensor& rows,
                        const Tensor& indices,
                        std::int64_t skipped) override {
    Watch(table, "scatter_add_rows").writes(table).reads(rows).reads(indices);
    inner_->scatter_add_rows(table, rows, indices, skipped);
  }

  void swap_middle(const Tensor& out, const Tensor& in) override {
    Watch(out, "swap_middle").writes(out).reads(in);
    inner_->swap_middle(out, in);
  }

  void unfold(const Tensor& out, const Tensor& image, const Window& window) override {
    Watch(out, "unfold").writes(out).reads(image);
    inner_->unfold(out, image, window);
  }

  void fold(const Tensor& image, const Tensor& columns, const Window& window) override {
    Watch(image, "fold").writes(image).reads(columns);
    inner_->fold(image, columns, window);
  }

  void max_pool(const Tensor& out,
                const Tensor& positions,
                const Tensor& in,
                const Window& window) override {
    Watch(out, "max_pool").writes(out).writes(positions).reads(in);
    inner_->max_pool(out, positions, in, window);
  }

  void max_pool_backward(const Tensor& out, const Tensor& grad, const Tensor& positions) override {
    Watch(out, "max_pool_backward").writes(out).reads(grad).reads(positions);
    inner_->max_pool_backward(out, grad, positions);
  }

  void avg_pool(const Tensor& out, const Tensor& in, const Window& window) override {
    Watch(out, "avg_pool").writes(out).reads(in);
    inner_->avg_pool(out, in, window);
  }

  void avg_pool_backward(const Tensor& out, const Tensor& grad, const Window& window) override {
    Watch(out, "avg_pool_backward").writes(out).reads(grad);
    inner_->avg_pool_backward(out, grad, window);
  }

  void sgd(const Tensor& param,
           const Tensor& grad,
           const Tensor& momentum_buffer,
           const SgdUpdate& update) override {
    Watch(param, "sgd").writes(param).reads(grad).writes(momentum_buffer);
    inner_->sgd(param, grad, momentum_buffer, update);
  }

  void adam(const Tensor& param,
            const Tensor& grad,
            std::span<const Tensor> moments,
            const AdamUpdate& update) override {
    Watch(param, "adam").writes(param).reads(grad).writes(moments);
    inner_->adam(param, grad, moments, update);
  }

  void adagrad(const Tensor& param,
               const Tensor& grad,
               const Tensor& sum,
               const AdagradUpdate& update) override {
    Watch(param, "adagrad").writes(param).reads(grad).writes(sum);
    inner_->adagrad(param, grad, sum, update);
  }

  void rmsprop(const Tensor& param,
               const Tensor& grad,
               std::span<const Tensor> averages,
               const RmspropUpdate& update) override {
    Watch(param, "rmsprop").writes(param).reads(grad).writes(averages);
    inner_->rmsprop(param, grad, averages, update);
  }

  bool unscale(const Tensor& grad, double factor) override {
    Watch(grad, "unscale").writes(grad);
    return inner_->unscale(grad, factor);
  }

  void clamp(const Tensor& out, const Tensor& in, double limit) override {
    Watch(out, "clamp").writes(out).reads(in);
    inner_->clamp(out, in, limit);
  }

  double norm(const Tensor& in, double p) override {
    Watch(in, "norm").reads(in);
    return inner_->norm(in, p);
  }

  void average_into_bucket(const Tensor& out, const Tensor& grad, double divisor) override {
    Watch(out, "average_into_bucket").writes(out).reads(grad);
    inner_->average_into_bucket(out, grad, divisor);
  }

  // Raw memory: what groups and their transfers themselves do.
  void reduce(std::span<void* const> outputs,
              std::span<const void* const> inputs,
              std::int64_t count,
              DType dtype,
              ReduceOp op) override {
    inner_->reduce(outputs, inputs, count, dtype, op);
  }

  // Observers are not the program.
  std::uint64_t digest(const Tensor& in, std::uint64_t base) override {
    return inner_->digest(in, base);
  }

  Sketch sketch(const Tensor& in) override { return inner_->sketch(in); }

  TensorFingerprint fingerprint(const Tensor& in) override { return inner_->fingerprint(in); }

 private:
  Kernels* inner_;
};

}  // namespace

std::unique_ptr<Kernels> make_watching_kernels(Kernels& inner) {
  return std::make_unique<WatchingKernels>(inner);
}

}  // namespace lockstep
