#include <fmt/core.h>

#include "lockstep/autograd/node.h"
#include "lockstep/autograd/saved_tensor.h"
#include "lockstep/functional/image_functions.h"

namespace lockstep {
namespace {

class MaxPoolNode final : public Node {
 public:
  MaxPoolNode(const Shape& x, const Tensor& positions) : x_(x), positions_(positions) {}

  void run(Tensor&& grad) override {
    Tensor out = Tensor::empty(runtime(), x_, grad.dtype());
    kernels().max_pool_backward(out, grad, positions_.get());
    send(0, std::move(out));
  }

  void release_saved() override { positions_.reset(); }

 private:
  Shape x_;
  SavedTensor positions_;
};

class AvgPoolNode final : public Node {
 public:
  AvgPoolNode(const Shape& x, const Kernels::Window& window) : x_(x), window_(window) {}

  void run(Tensor&& grad) override {
    Tensor out = Tensor::empty(runtime(), x_, grad.dtype());
    kernels().avg_pool_backward(out, grad, window_);
    send(0, std::move(out));
  }

 private:
  Shape x_;
  Kernels::Window window_;
};

Shape pooled(const Shape& x, const Kernels::Window& window) {
  LOCKSTEP_CHECK(x.n_dims() == 4, "pooling takes (N, C, H, W), not " + x.text());
  LOCKSTEP_CHECK(window.stride > 0 && window.padding >= 0 && window.height > 0 && window.width > 0,
                 fmt::format("a window of {} by {} with stride {} and padding {}: sizes and stride "
                             "are positive, padding is not negative",
                             window.height,
                             window.width,
                             window.stride,
                             window.padding));
  const std::int64_t down = x[2] + 2 * window.padding - window.height;
  const std::int64_t right = x[3] + 2 * window.padding - window.width;
  LOCKSTEP_CHECK(down >= 0 && right >= 0,
                 fmt::format("a window of {} by {} is larger than {} with padding {}",
                             window.height,
                             window.width,
                             x.text(),
                             window.padding));
  return {x[0], x[1], down / window.stride + 1, right / window.stride + 1};
}

}  // namespace

Variable max_pool2d(const Variable& x, const Kernels::Window& window) {
  const Shape shape = pooled(x.shape(), window);
  Tensor out = Tensor::empty(x.runtime(), shape, x.data().dtype());
  const Tensor positions = Tensor::empty(x.runtime(), shape, DType::kI64);
  x.runtime().kernels().max_pool(out, positions, x.data(), window);
  if (!Node::records({&x})) return Node::attach(std::move(out), {});
  const auto node = Node::make<MaxPoolNode>(x.runtime(), x.shape(), positions);
  node->connect(0, x);
  return Node::attach(std::move(out), node);
}

Variable avg_pool2d(const Variable& x, const Kernels::Window& window) {
  Tensor out = Tensor::empty(x.runtime(), pooled(x.shape(), window), x.data().dtype());
  x.runtime().kernels().avg_pool(out, x.data(), window);
  if (!Node::records({&x})) return Node::attach(std::move(out), {});
  const auto node = Node::make<AvgPoolNode>(x.runtime(), x.shape(), window);
  node->connect(0, x);
  return Node::attach(std::move(out), node);
}

}  // namespace lockstep
