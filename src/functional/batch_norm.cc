#include <array>
#include <fmt/core.h>
#include <stdexcept>

#include "lockstep/autograd/node.h"
#include "lockstep/autograd/saved_tensor.h"
#include "lockstep/functional/detail/operands.h"
#include "lockstep/functional/functions.h"

namespace lockstep {
namespace {

constexpr std::size_t kNormX = 0;
constexpr std::size_t kNormWeight = 1;
constexpr std::size_t kNormBias = 2;

// Saved by both modes: what normalised x.
struct Statistics {
  Tensor mean;    ///< (D,)
  Tensor invstd;  ///< (D,)
};

bool is_image(const Shape& shape) { return shape.n_dims() == 4; }

/// (B, D, H, W) as rows (B * H * W, D); rows as they are.
Tensor to_rows(const Tensor& x) {
  if (!is_image(x.shape())) return x;
  const Shape& s = x.shape();
  const Tensor rows = Tensor::empty(x.runtime(), {s[0], s[2] * s[3], s[1], 1}, x.dtype());
  x.runtime().kernels().swap_middle(rows, x.reshape({s[0], s[1], s[2] * s[3], 1}));
  return rows.reshape({s[0] * s[2] * s[3], s[1]});
}

/// The way back from to_rows.
Tensor from_rows(const Tensor& rows, const Shape& shape) {
  if (!is_image(shape)) return rows;
  const Shape planes{shape[0], shape[2] * shape[3], shape[1], 1};
  const Tensor x =
      Tensor::empty(rows.runtime(), {shape[0], shape[1], shape[2] * shape[3], 1}, rows.dtype());
  rows.runtime().kernels().swap_middle(x, rows.reshape(planes));
  return x.reshape(shape);
}

SavedTensor saved_or_nothing(const Variable& variable) {
  return variable.defined() ? SavedTensor(variable.data()) : SavedTensor();
}

class BatchNormNode : public Node {
 public:
  /// `rows` is x as rows (R, D).
  BatchNormNode(const Tensor& rows, const Variable& weight, const Statistics& statistics)
      : x_(rows),
        weight_(saved_or_nothing(weight)),
        has_weight_(weight.defined()),
        mean_(statistics.mean),
        invstd_(statistics.invstd) {}

  void run(Tensor&& grad) override {
    const Tensor rows = to_rows(grad);
    std::array grads{Tensor::empty(runtime(), rows.shape(), grad.dtype()),
                     Tensor::empty(runtime(), {rows.size(1)}, grad.dtype()),
                     Tensor::empty(runtime(), {rows.size(1)}, grad.dtype())};
    differentiate(grads, rows);
    if (needs(kNormX)) send(kNormX, from_rows(grads[kNormX], grad.shape()));
    for (const std::size_t i : {kNormWeight, kNormBias}) {
      if (needs(i)) send(i, std::move(grads[i]));
    }
  }

  void release_saved() override {
    for (SavedTensor* saved : {&x_, &weight_, &mean_, &invstd_}) saved->reset();
  }

 protected:
  virtual void differentiate(std::span<const Tensor> grads, const Tensor& grad) const {
    const std::array in{grad, x_.get(), weight()};
    const std::array saved{mean_.get(), invstd_.get()};
    kernels().batch_norm_backward(grads, in, saved);
  }

  /// Undefined when the layer has none.
  Tensor weight() const { return has_weight_ ? weight_.get() : Tensor(); }

  SavedTensor x_;
  SavedTensor weight_;
  bool has_weight_;
  SavedTensor mean_;
  SavedTensor invstd_;
};

// With running statistics the layer is affine: nothing flows through mean and variance.
class FrozenBatchNormNode final : public BatchNormNode {
 public:
  using BatchNormNode::BatchNormNode;

 private:
  Tensor as_rows(const Tensor& row, const Shape& shape) const {
    Tensor rows = Tensor::zeros(runtime(), shape, row.dtype());
    kernels().add_row(rows, rows, row);
    return rows;
  }

  /// 16-bit layers differentiate in f32 and round each gradient once.
  void differentiate(std::span<const Tensor> grads, const Tensor& grad) const override {
    const DType wide = detail::wide_dtype(grad.dtype());
    if (wide == grad.dtype()) return differentiate_wide(grads, grad);
    std::array<Tensor, 3> wide_grads;
    for (std::size_t i = 0; i < wide_grads.size(); ++i) {
      wide_grads[i] = Tensor::empty(runtime(), grads[i].shape(), wide);
    }
    differentiate_wide(wide_grads, grad.to(wide));
    for (std::size_t i = 0; i < wide_grads.size(); ++i) kernels().copy(grads[i], wide_grads[i]);
  }

  void differentiate_wide(std::span<const Tensor> grads, const Tensor& grad) const {
    const Tensor scaled = Tensor::empty(runtime(), grad.shape(), grad.dtype());
    const Tensor invstd = as_rows(invstd_.get(), grad.shape());
    kernels().mul(scaled, grad, invstd);
    kernels().copy(grads[0], scaled);
    if (has_weight_)
      kernels().mul(grads[0], scaled, as_rows(weight_.get().to(grad.dtype()), grad.shape()));

    const Tensor centred = as_rows(mean_.get(), grad.shape());
    kernels().sub(centred, x_.get().to(grad.dtype()), centred);
    kernels().mul(centred, centred, scaled);
    kernels().sum_rows(grads[1], centred);
    kernels().sum_rows(grads[2], grad);
  }
};

void check_shapes(const Shape& x,
                  const Variable& weight,
                  const Variable& bias,
                  const Kernels::BatchNorm& options) {
  LOCKSTEP_CHECK(x.n_dims() == 2 || is_image(x),
                 "batch norm takes (B, D) or (B, D, H, W), not " + x.text());
  LOCKSTEP_CHECK(
      weight.defined() == bias.defined() &&
          (!weight.defined() || weight.shape() == Shape({x[1]})) &&
          (!bias.defined() || bias.shape() == Shape({x[1]})),
      fmt::format("batch norm needs one weight and bias per column of {}, or neither", x.text()));
  if (options.training && x.n_elems() <= x[1]) {
    throw std::invalid_argument(
        "Expected more than 1 value per channel when training, got input size " + x.text());
  }
}

Tensor data_or_nothing(const Variable& variable) {
  return variable.defined() ? variable.data() : Tensor();
}

}  // namespace

// For 16-bit rows beside f32 parameters once, in f32.  NOLINTNEXTLINE(misc-no-recursion)
Variable batch_norm(const Variable& x,
                    const Variable& weight,
                    const Variable& bias,
                    const BatchNormBuffers& buffers,
                    const Kernels::BatchNorm& options) {
  if (detail::is_mixed(x, weight) || detail::is_mixed(x, buffers.running_mean)) {
    return cast(batch_norm(cast(x, DType::kF32), weight, bias, buffers, options), x.data().dtype());
  }
  check_shapes(x.shape(), weight, bias, options);
  detail::check_norm_dtypes(x, data_or_nothing(weight));
  LOCKSTEP_CHECK(
      options.training || buffers.running_mean.defined(),
      fmt::format("batch norm has no running statistics to evaluate {} with", x.shape().text()));
  Runtime& runtime = x.runtime();
  const DType dtype = x.data().dtype();
  const Shape columns{x.shape()[1]};
  const DType kept = options.training ? dtype : detail::wide_dtype(dtype);
  const Statistics statistics{.mean = Tensor::empty(runtime, columns, kept),
                              .invstd = Tensor::empty(runtime, columns, kept)};

  const Tensor rows = to_rows(x.data());
  const Tensor normalised = Tensor::empty(runtime, rows.shape(), dtype);
  const std::array in{rows, data_or_nothing(weight), data_or_nothing(bias)};
  const std::array running{buffers.running_mean, buffers.running_var};
  const std::array save{statistics.mean, statistics.invstd};
  runtime.kernels().batch_norm(normalised, in, running, save, options);
  Tensor out = from_rows(normalised, x.shape());
  if (!Node::records({&x, &weight, &bias})) return Node::attach(std::move(out), {});

  Ref<Node> node;
  if (options.training) {
    node = Node::make<BatchNormNode>(runtime, rows, weight, statistics);
  } else {
    node = Node::make<FrozenBatchNormNode>(runtime, rows, weight, statistics);
  }
  node->connect(kNormX, x);
  node->connect(kNormWeight, weight);
  node->connect(kNormBias, bias);
  return Node::attach(std::move(out), std::move(node));
}

}  // namespace lockstep
