#include <fmt/core.h>

#include "lockstep/autograd/node.h"
#include "lockstep/autograd/saved_tensor.h"
#include "lockstep/functional/detail/operands.h"
#include "lockstep/functional/image_functions.h"

namespace lockstep {
namespace {

// Edges in PyTorch's order (convolution: input, weight, bias), which decides whose hook fires
// first.
constexpr std::size_t kConvX = 0;
constexpr std::size_t kConvWeight = 1;
constexpr std::size_t kConvBias = 2;

std::int64_t places(std::int64_t size, std::int64_t window, const Convolution& options) {
  return (size + 2 * options.padding - window) / options.stride + 1;
}

/// The matrices of one convolution: filters (O, K) times columns (K, L), K = C * kh * kw.
class Columns {
 public:
  Columns(const Shape& x, const Shape& weight, const Convolution& options)
      : image_{x[1], x[2], x[3]},
        window_{weight[2], weight[3], options.stride, options.padding},
        filters_{weight[0], weight[1] * weight[2] * weight[3]},
        height_(places(x[2], weight[2], options)),
        width_(places(x[3], weight[3], options)) {}

  const Kernels::Window& window() const { return window_; }

  Shape columns() const { return {filters_[1], height_ * width_}; }

  Shape result(std::int64_t n_images) const { return {n_images, filters_[0], height_, width_}; }

  Tensor filters(const Tensor& weight) const { return weight.reshape(filters_); }

  Tensor image(const Tensor& images, std::int64_t n) const {
    return images.slice(n * image_.n_elems(), image_);
  }

  /// Channels of image n as rows (O, L).
  Tensor rows(const Tensor& results, std::int64_t n) const {
    const Shape rows{filters_[0], height_ * width_};
    return results.slice(n * rows.n_elems(), rows);
  }

 private:
  Shape image_;
  Kernels::Window window_;
  Shape filters_;
  std::int64_t height_;
  std::int64_t width_;
};

class ConvolutionNode final : public Node {
 public:
  ConvolutionNode(const Variable& x, const Variable& weight, const Columns& columns)
      : columns_(columns), x_shape_(x.shape()), weight_shape_(weight.shape()) {
    if (weight.requires_grad()) x_ = SavedTensor(x.data());
    if (x.requires_grad()) weight_ = SavedTensor(weight.data());
  }

  void run(Tensor&& grad) override {
    if (needs(kConvX)) send(kConvX, grad_of_x(grad));
    if (needs(kConvWeight)) send(kConvWeight, grad_of_weight(grad));
    if (!needs(kConvBias)) return;
    Tensor d_bias = Tensor::empty(runtime(), {grad.size(1)}, grad.dtype());
    kernels().sum_channels(d_bias, grad);
    send(kConvBias, std::move(d_bias));
  }

  void release_saved() override {
    x_.reset();
    weight_.reset();
  }

 private:
  Tensor grad_of_x(const Tensor& grad) const {
    Tensor dx = Tensor::empty(runtime(), x_shape_, grad.dtype());
    const Tensor filters = columns_.filters(weight_.get());
    const Tensor scratch = Tensor::empty(runtime(), columns_.columns(), grad.dtype());
    for (std::int64_t n = 0; n < x_shape_[0]; ++n) {
      kernels().gemm(scratch, filters, columns_.rows(grad, n), {.transpose_a = true});
      kernels().fold(columns_.image(dx, n), scratch, columns_.window());
    }
    return dx;
  }

  Tensor grad_of_weight(const Tensor& grad) const {
    Tensor d_weight = Tensor::zeros(runtime(), weight_shape_, grad.dtype());
    const Tensor filters = columns_.filters(d_weight);
    const Tensor scratch = Tensor::empty(runtime(), columns_.columns(), grad.dtype());
    for (std::int64_t n = 0; n < x_shape_[0]; ++n) {
      kernels().unfold(scratch, columns_.image(x_.get(), n), columns_.window());
      kernels().gemm(
          filters, columns_.rows(grad, n), scratch, {.transpose_b = true, .accumulate = n > 0});
    }
    return d_weight;
  }

  Columns columns_;
  Shape x_shape_;
  Shape weight_shape_;
  SavedTensor x_;
  SavedTensor weight_;
};

void check_shapes(const Variable& x,
                  const Variable& weight,
                  const Variable& bias,
                  const Convolution& options) {
  const Shape& in = x.shape();
  const Shape& w = weight.shape();
  LOCKSTEP_CHECK(in.n_dims() == 4 && w.n_dims() == 4 && in[1] == w[1],
                 "a convolution cannot slide " + w.text() + " over " + in.text());
  LOCKSTEP_CHECK(options.stride > 0 && options.padding >= 0,
                 fmt::format("a convolution with stride {} and padding {}: the stride is positive, "
                             "padding is not negative",
                             options.stride,
                             options.padding));
  LOCKSTEP_CHECK(w[2] > 0 && w[3] > 0 && in[2] + 2 * options.padding >= w[2] &&
                     in[3] + 2 * options.padding >= w[3],
                 "the window of " + w.text() + " is larger than the padded image " + in.text());
  LOCKSTEP_CHECK(
      !bias.defined() || bias.shape() == Shape({w[0]}),
      fmt::format(
          "a convolution needs one bias per filter of {}, not {}", w.text(), bias.shape().text()));
}

Variable conv2d_as_given(const Variable& x,
                         const Variable& weight,
                         const Variable& bias,
                         const Convolution& options) {
  check_shapes(x, weight, bias, options);
  Runtime& runtime = x.runtime();
  Kernels& kernels = runtime.kernels();
  const DType dtype = x.data().dtype();
  const Columns columns(x.shape(), weight.shape(), options);
  Tensor out = Tensor::empty(runtime, columns.result(x.shape()[0]), dtype);
  const Tensor filters = columns.filters(weight.data());
  const Tensor scratch = Tensor::empty(runtime, columns.columns(), dtype);
  const bool fused = bias.defined() && is_narrow(dtype);  // As in linear.
  if (fused) {
    kernels.fill(out, 0.0);
    kernels.add_channels(out, out, bias.data());
  }
  for (std::int64_t n = 0; n < x.shape()[0]; ++n) {
    kernels.unfold(scratch, columns.image(x.data(), n), columns.window());
    kernels.gemm(columns.rows(out, n), filters, scratch, {.accumulate = fused});
  }
  if (bias.defined() && !fused) kernels.add_channels(out, out, bias.data());
  if (!Node::records({&x, &weight, &bias})) return Node::attach(std::move(out), {});

  const auto node = Node::make<ConvolutionNode>(runtime, x, weight, columns);
  node->connect(kConvX, x);
  node->connect(kConvWeight, weight);
  node->connect(kConvBias, bias);
  return Node::attach(std::move(out), node);
}

}  // namespace

Variable conv2d(const Variable& x,
                const Variable& weight,
                const Variable& bias,
                Convolution options) {
  if (!detail::autocasts(x)) return conv2d_as_given(x, weight, bias, options);
  const Variable low_bias = detail::lowered(bias);
  const Variable low_weight = detail::lowered(weight);
  return conv2d_as_given(detail::lowered(x), low_weight, low_bias, options);
}

}  // namespace lockstep
