#include <array>

#include "lockstep/autograd/functions.h"
#include "lockstep/autograd/node.h"
#include "lockstep/autograd/saved_tensor.h"

namespace lockstep {
namespace {

constexpr std::size_t kX = 0;
constexpr std::size_t kWeight = 1;
constexpr std::size_t kBias = 2;

// Saved by both modes: what normalised x, and what scaled it.
struct Statistics {
  Tensor mean;    ///< (D,)
  Tensor invstd;  ///< (D,)
};

class BatchNormNode : public Node {
 public:
  BatchNormNode(const Variable& x, const Variable& weight, const Statistics& statistics)
      : x_(x.data()), weight_(weight.data()), mean_(statistics.mean), invstd_(statistics.invstd) {}

  void run(Tensor&& grad) override {
    std::array grads{Tensor::empty(runtime(), grad.shape(), grad.dtype()),
                     Tensor::empty(runtime(), {grad.size(1)}, grad.dtype()),
                     Tensor::empty(runtime(), {grad.size(1)}, grad.dtype())};
    differentiate(grads, grad);
    for (const std::size_t i : {kX, kWeight, kBias}) {
      if (needs(i)) send(i, std::move(grads[i]));
    }
  }

  void release_saved() override {
    for (SavedTensor* saved : {&x_, &weight_, &mean_, &invstd_}) saved->reset();
  }

 protected:
  virtual void differentiate(std::span<const Tensor> grads, const Tensor& grad) const {
    const std::array in{grad, x_.get(), weight_.get()};
    const std::array saved{mean_.get(), invstd_.get()};
    kernels().batch_norm_backward(grads, in, saved);
  }

  SavedTensor x_;
  SavedTensor weight_;
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

  void differentiate(std::span<const Tensor> grads, const Tensor& grad) const override {
    const Tensor scaled = Tensor::empty(runtime(), grad.shape(), grad.dtype());
    const Tensor invstd = as_rows(invstd_.get(), grad.shape());
    kernels().mul(scaled, grad, invstd);
    kernels().mul(grads[0], scaled, as_rows(weight_.get(), grad.shape()));

    const Tensor centred = as_rows(mean_.get(), grad.shape());
    kernels().sub(centred, x_.get(), centred);
    kernels().mul(centred, centred, scaled);
    kernels().sum_rows(grads[1], centred);
    kernels().sum_rows(grads[2], grad);
  }
};

void check_shapes(const Shape& x, const Shape& weight, const Shape& bias, bool training) {
  LOCKSTEP_CHECK(x.n_dims() == 2, "batch norm takes (B, D), not " + x.text());
  LOCKSTEP_CHECK(weight == Shape({x[1]}) && bias == weight,
                 "batch norm needs one weight and bias a column of " + x.text());
  LOCKSTEP_CHECK(
      !training || x[0] > 1,
      "expected more than 1 value per channel when training, got input size " + x.text());
}

}  // namespace

Variable batch_norm(const Variable& x,
                    const Variable& weight,
                    const Variable& bias,
                    const BatchNormBuffers& buffers,
                    const Kernels::BatchNorm& options) {
  check_shapes(x.shape(), weight.shape(), bias.shape(), options.training);
  Runtime& runtime = x.runtime();
  const DType dtype = x.data().dtype();
  const Shape columns = weight.shape();
  const Statistics statistics{.mean = Tensor::empty(runtime, columns, dtype),
                              .invstd = Tensor::empty(runtime, columns, dtype)};

  Tensor out = Tensor::empty(runtime, x.shape(), dtype);
  const std::array in{x.data(), weight.data(), bias.data()};
  const std::array running{buffers.running_mean, buffers.running_var};
  const std::array save{statistics.mean, statistics.invstd};
  runtime.kernels().batch_norm(out, in, running, save, options);
  if (!Node::records({&x, &weight, &bias})) return Node::attach(std::move(out), {});

  Ref<Node> node;
  if (options.training) {
    node = Node::make<BatchNormNode>(runtime, x, weight, statistics);
  } else {
    node = Node::make<FrozenBatchNormNode>(runtime, x, weight, statistics);
  }
  node->connect(kX, x);
  node->connect(kWeight, weight);
  node->connect(kBias, bias);
  return Node::attach(std::move(out), std::move(node));
}

}  // namespace lockstep
