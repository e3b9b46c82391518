// Element-wise arithmetic, sums and views.
#include "lockstep/autograd/node.h"
#include "lockstep/autograd/saved_tensor.h"
#include "lockstep/functional/detail/broadcast.h"
#include "lockstep/functional/detail/operands.h"
#include "lockstep/functional/detail/record_unary.h"
#include "lockstep/functional/functions.h"

namespace lockstep {
namespace {

/// An operation on two operands of one shape, in the dtype to which PyTorch promotes them.
template <typename F>
Variable in_one_dtype(const Variable& a, const Variable& b, F operation) {
  const DType from = a.data().dtype();
  if (from == b.data().dtype()) return operation(a, b);
  const DType dtype = detail::promoted(from, b.data().dtype());
  return operation(cast(a, dtype), cast(b, dtype));
}

/// The same of any two shapes that are broadcast.
template <typename F>
Variable together(const Variable& a, const Variable& b, F operation) {
  if (a.shape() == b.shape()) return in_one_dtype(a, b, operation);
  const auto [left, right] = detail::broadcast(a, b);
  return in_one_dtype(left, right, operation);
}

class AddNode final : public Node {
 public:
  void run(Tensor&& grad) override {
    if (needs(0)) send(0, Tensor(grad));
    if (needs(1)) send(1, std::move(grad));
  }
};

class SubNode final : public Node {
 public:
  void run(Tensor&& grad) override {
    if (needs(0)) send(0, Tensor(grad));
    if (needs(1)) {
      Tensor out = writable_like(grad);
      kernels().scale(out, grad, -1.0);
      send(1, std::move(out));
    }
  }
};

class MulNode final : public Node {
 public:
  MulNode(const Variable& a, const Variable& b) {
    if (b.requires_grad()) a_ = SavedTensor(a.data());
    if (a.requires_grad()) b_ = SavedTensor(b.data());
  }

  void run(Tensor&& grad) override {
    if (needs(0)) send(0, times(grad, b_));
    if (needs(1)) send(1, times(grad, a_));
  }

  void release_saved() override {
    a_.reset();
    b_.reset();
  }

 private:
  Tensor times(const Tensor& grad, const SavedTensor& factor) const {
    Tensor out = Tensor::empty_like(grad);
    kernels().mul(out, grad, factor.get());
    return out;
  }

  SavedTensor a_;
  SavedTensor b_;
};

/// a' = g / b; b' = -g (a / b) / b, rounded after each operation, as PyTorch does.
class DivNode final : public Node {
 public:
  DivNode(const Variable& a, const Variable& b) : b_(b.data()) {
    if (b.requires_grad()) a_ = SavedTensor(a.data());
  }

  void run(Tensor&& grad) override {
    const Tensor& b = b_.get();
    if (needs(0)) {
      Tensor out = Tensor::empty_like(grad);
      kernels().div(out, grad, b);
      send(0, std::move(out));
    }
    if (!needs(1)) return;
    const Tensor quotient = Tensor::empty_like(b);
    kernels().div(quotient, a_.get(), b);
    kernels().div(quotient, quotient, b);
    Tensor out = writable_like(grad);
    kernels().scale(out, grad, -1.0);
    kernels().mul(out, out, quotient);
    send(1, std::move(out));
  }

  void release_saved() override {
    a_.reset();
    b_.reset();
  }

 private:
  SavedTensor a_;
  SavedTensor b_;
};

class ScaleNode final : public Node {
 public:
  explicit ScaleNode(double factor) : factor_(factor) {}

  void run(Tensor&& grad) override {
    Tensor out = writable_like(grad);
    kernels().scale(out, grad, factor_);
    send(0, std::move(out));
  }

 private:
  double factor_;
};

class SumNode final : public Node {
 public:
  explicit SumNode(const Shape& shape) : shape_(shape) {}

  void run(Tensor&& grad) override {
    send(0, Tensor::full(runtime(), shape_, grad.dtype(), grad.item()));
  }

 private:
  Shape shape_;
};

class ReshapeNode final : public Node {
 public:
  explicit ReshapeNode(const Shape& shape) : shape_(shape) {}

  void run(Tensor&& grad) override { send(0, grad.reshape(shape_)); }

 private:
  Shape shape_;
};

// Records a node of two inputs.
template <typename N, typename... Args>
Variable record(Tensor&& out, const Variable& a, const Variable& b, const Args&... args) {
  if (!Node::records({&a, &b})) return Node::attach(std::move(out), {});
  const Ref<N> node = Node::make<N>(a.runtime(), args...);
  node->connect(0, a);
  node->connect(1, b);
  return Node::attach(std::move(out), node);
}

}  // namespace

Variable add(const Variable& a, const Variable& b) {
  return together(a, b, [](const Variable& left, const Variable& right) {
    Tensor out = Tensor::empty_like(left.data());
    left.runtime().kernels().add(out, left.data(), right.data());
    return record<AddNode>(std::move(out), left, right);
  });
}

Variable sub(const Variable& a, const Variable& b) {
  return together(a, b, [](const Variable& left, const Variable& right) {
    Tensor out = Tensor::empty_like(left.data());
    left.runtime().kernels().sub(out, left.data(), right.data());
    return record<SubNode>(std::move(out), left, right);
  });
}

Variable mul(const Variable& a, const Variable& b) {
  return together(a, b, [](const Variable& left, const Variable& right) {
    Tensor out = Tensor::empty_like(left.data());
    left.runtime().kernels().mul(out, left.data(), right.data());
    return record<MulNode>(std::move(out), left, right, left, right);
  });
}

Variable div(const Variable& a, const Variable& b) {
  return together(a, b, [](const Variable& left, const Variable& right) {
    Tensor out = Tensor::empty_like(left.data());
    left.runtime().kernels().div(out, left.data(), right.data());
    return record<DivNode>(std::move(out), left, right, left, right);
  });
}

Variable scale(const Variable& x, double factor) {
  Tensor out = Tensor::empty_like(x.data());
  x.runtime().kernels().scale(out, x.data(), factor);
  return detail::record_unary<ScaleNode>(std::move(out), x, factor);
}

Variable sum(const Variable& x) {
  Tensor out = Tensor::empty(x.runtime(), {}, x.data().dtype());
  x.runtime().kernels().sum_all(out, x.data());
  return detail::record_unary<SumNode>(std::move(out), x, x.shape());
}

Variable reshape(const Variable& x, const Shape& shape) {
  return detail::record_unary<ReshapeNode>(x.data().reshape(shape), x, x.shape());
}

}  // namespace lockstep
