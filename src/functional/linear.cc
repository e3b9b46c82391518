#include <fmt/core.h>

#include "lockstep/autograd/node.h"
#include "lockstep/autograd/saved_tensor.h"
#include "lockstep/functional/detail/operands.h"
#include "lockstep/functional/functions.h"

namespace lockstep {
namespace {

// Edges in PyTorch's order (addmm: bias, x, weight), which decides whose hook fires first.
constexpr std::size_t kLinearBias = 0;
constexpr std::size_t kLinearX = 1;
constexpr std::size_t kLinearWeight = 2;

class LinearNode final : public Node {
 public:
  LinearNode(const Variable& x, const Variable& weight) {
    if (weight.requires_grad()) x_ = SavedTensor(x.data());
    if (x.requires_grad()) weight_ = SavedTensor(weight.data());
  }

  void run(Tensor&& grad) override {
    if (needs(kLinearBias)) {
      Tensor d_bias = Tensor::empty(runtime(), {grad.size(1)}, grad.dtype());
      kernels().sum_rows(d_bias, grad);
      send(kLinearBias, std::move(d_bias));
    }
    if (needs(kLinearX)) {
      const Tensor& weight = weight_.get();
      Tensor dx = Tensor::empty(runtime(), {grad.size(0), weight.size(1)}, grad.dtype());
      kernels().gemm(dx, grad, weight, {});
      send(kLinearX, std::move(dx));
    }
    if (needs(kLinearWeight)) {
      const Tensor& x = x_.get();
      Tensor d_weight = Tensor::empty(runtime(), {grad.size(1), x.size(1)}, grad.dtype());
      kernels().gemm(d_weight, grad, x, {.transpose_a = true});
      send(kLinearWeight, std::move(d_weight));
    }
  }

  void release_saved() override {
    x_.reset();
    weight_.reset();
  }

 private:
  SavedTensor x_;
  SavedTensor weight_;
};

void check_shapes(const Variable& x, const Variable& weight, const Variable& bias) {
  const Shape& in = x.shape();
  const Shape& w = weight.shape();
  LOCKSTEP_CHECK(in.n_dims() == 2 && w.n_dims() == 2 && in[1] == w[1],
                 "linear cannot multiply " + in.text() + " by the transpose of " + w.text());
  LOCKSTEP_CHECK(
      !bias.defined() || (bias.shape().n_dims() == 1 && bias.shape()[0] == w[0]),
      fmt::format(
          "linear needs one bias per row of its weight {}, not {}", w.text(), bias.shape().text()));
}

/// out = x weight^T + bias. In 16 bits the sum starts from the bias, so that it rounds once, as PyTorch's
/// addmm does; in f32 and f64 the bias is added to the finished product.
void multiply(const Tensor& out, const Tensor& x, const Tensor& weight, const Variable& bias) {
  Kernels& kernels = out.runtime().kernels();
  const bool fused = bias.defined() && is_narrow(out.dtype());
  if (fused) {
    kernels.fill(out, 0.0);
    kernels.add_row(out, out, bias.data());
  }
  kernels.gemm(out, x, weight, {.transpose_b = true, .accumulate = fused});
  if (bias.defined() && !fused) kernels.add_row(out, out, bias.data());
}

Variable linear_as_given(const Variable& x, const Variable& weight, const Variable& bias) {
  check_shapes(x, weight, bias);
  Runtime& runtime = x.runtime();
  Tensor out = Tensor::empty(runtime, {x.shape()[0], weight.shape()[0]}, x.data().dtype());
  multiply(out, x.data(), weight.data(), bias);
  if (!Node::records({&x, &weight, &bias})) return Node::attach(std::move(out), {});

  const auto node = Node::make<LinearNode>(runtime, x, weight);
  node->connect(kLinearBias, bias);
  node->connect(kLinearX, x);
  node->connect(kLinearWeight, weight);
  return Node::attach(std::move(out), node);
}

class MatmulNode final : public Node {
 public:
  MatmulNode(const Variable& a, const Variable& b) {
    if (b.requires_grad()) a_ = SavedTensor(a.data());
    if (a.requires_grad()) b_ = SavedTensor(b.data());
  }

  void run(Tensor&& grad) override {
    if (needs(0)) {
      const Tensor& b = b_.get();
      Tensor d_a = Tensor::empty(runtime(), {grad.size(0), b.size(0)}, grad.dtype());
      kernels().gemm(d_a, grad, b, {.transpose_b = true});
      send(0, std::move(d_a));
    }
    if (needs(1)) {
      const Tensor& a = a_.get();
      Tensor d_b = Tensor::empty(runtime(), {a.size(1), grad.size(1)}, grad.dtype());
      kernels().gemm(d_b, a, grad, {.transpose_a = true});
      send(1, std::move(d_b));
    }
  }

  void release_saved() override {
    a_.reset();
    b_.reset();
  }

 private:
  SavedTensor a_;
  SavedTensor b_;
};

Variable matmul_as_given(const Variable& a, const Variable& b) {
  const Shape& left = a.shape();
  const Shape& right = b.shape();
  LOCKSTEP_CHECK(
      left.n_dims() == 2 && right.n_dims() == 2,
      fmt::format("matmul multiplies matrices, not {} by {}", left.text(), right.text()));
  LOCKSTEP_CHECK(left[1] == right[0],
                 fmt::format("mat1 and mat2 shapes cannot be multiplied ({}x{} and {}x{})",
                             left[0],
                             left[1],
                             right[0],
                             right[1]));
  Tensor out = Tensor::empty(a.runtime(), {left[0], right[1]}, a.data().dtype());
  a.runtime().kernels().gemm(out, a.data(), b.data(), {});
  if (!Node::records({&a, &b})) return Node::attach(std::move(out), {});

  const auto node = Node::make<MatmulNode>(a.runtime(), a, b);
  node->connect(0, a);
  node->connect(1, b);
  return Node::attach(std::move(out), node);
}

}  // namespace

Variable linear(const Variable& x, const Variable& weight, const Variable& bias) {
  if (!detail::autocasts(x)) return linear_as_given(x, weight, bias);
  const Variable low_bias = detail::lowered(bias);
  const Variable low_weight = detail::lowered(weight);
  return linear_as_given(detail::lowered(x), low_weight, low_bias);
}

Variable matmul(const Variable& a, const Variable& b) {
  if (!detail::autocasts(a)) return matmul_as_given(a, b);
  const Variable low_b = detail::lowered(b);
  return matmul_as_given(detail::lowered(a), low_b);
}

}  // namespace lockstep
