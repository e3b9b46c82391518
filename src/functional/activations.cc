#include "lockstep/autograd/node.h"
#include "lockstep/autograd/saved_tensor.h"
#include "lockstep/functional/functions.h"

namespace lockstep {
namespace {

using Forward = void (Kernels::*)(Kernels::Out out, Kernels::In in);
using Backward = void (Kernels::*)(Kernels::Out out, Kernels::In grad, Kernels::In y);

// An element-wise function whose derivative is a function of its result.
template <Backward kBackward>
class ActivationNode final : public Node {
 public:
  explicit ActivationNode(const Tensor& y) : y_(y) {}

  void run(Tensor&& grad) override {
    Tensor out = writable_like(grad);
    (kernels().*kBackward)(out, grad, y_.get());
    send(0, std::move(out));
  }

  void release_saved() override { y_.reset(); }

 private:
  SavedTensor y_;
};

template <Forward kForward, Backward kBackward>
Variable activate(const Variable& x) {
  Tensor y = Tensor::empty(x.runtime(), x.shape(), x.data().dtype());
  (x.runtime().kernels().*kForward)(y, x.data());
  if (!Node::records({&x})) return Node::attach(std::move(y), {});
  const auto node = Node::make<ActivationNode<kBackward>>(x.runtime(), y);
  node->connect(0, x);
  return Node::attach(std::move(y), node);
}

}  // namespace

Variable relu(const Variable& x) { return activate<&Kernels::relu, &Kernels::relu_backward>(x); }

Variable sigmoid(const Variable& x) {
  return activate<&Kernels::sigmoid, &Kernels::sigmoid_backward>(x);
}

Variable tanh(const Variable& x) { return activate<&Kernels::tanh, &Kernels::tanh_backward>(x); }

}  // namespace lockstep
