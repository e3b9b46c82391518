// Elementary functions of one operand.
#include "lockstep/autograd/node.h"
#include "lockstep/autograd/saved_tensor.h"
#include "lockstep/functional/detail/record_unary.h"
#include "lockstep/functional/functions.h"

namespace lockstep {
namespace {

/// Multiplies by the result.
class ExpNode final : public Node {
 public:
  explicit ExpNode(const Tensor& y) : y_(y) {}

  void run(Tensor&& grad) override {
    Tensor out = writable_like(grad);
    kernels().mul(out, grad, y_.get());
    send(0, std::move(out));
  }

  void release_saved() override { y_.reset(); }

 private:
  SavedTensor y_;
};

/// Divides by the operand.
class LogNode final : public Node {
 public:
  explicit LogNode(const Tensor& x) : x_(x) {}

  void run(Tensor&& grad) override {
    Tensor out = writable_like(grad);
    kernels().div(out, grad, x_.get());
    send(0, std::move(out));
  }

  void release_saved() override { x_.reset(); }

 private:
  SavedTensor x_;
};

/// Divides by twice the result.
class SqrtNode final : public Node {
 public:
  explicit SqrtNode(const Tensor& y) : y_(y) {}

  void run(Tensor&& grad) override {
    const Tensor twice = Tensor::empty_like(y_.get());
    kernels().scale(twice, y_.get(), 2.0);
    Tensor out = writable_like(grad);
    kernels().div(out, grad, twice);
    send(0, std::move(out));
  }

  void release_saved() override { y_.reset(); }

 private:
  SavedTensor y_;
};

/// Multiplies by the result's square, negated.
class ReciprocalNode final : public Node {
 public:
  explicit ReciprocalNode(const Tensor& y) : y_(y) {}

  void run(Tensor&& grad) override {
    const Tensor square = Tensor::empty_like(y_.get());
    kernels().mul(square, y_.get(), y_.get());
    Tensor out = writable_like(grad);
    kernels().scale(out, grad, -1.0);
    kernels().mul(out, out, square);
    send(0, std::move(out));
  }

  void release_saved() override { y_.reset(); }

 private:
  SavedTensor y_;
};

}  // namespace

Variable exp(const Variable& x) {
  Tensor y = Tensor::empty_like(x.data());
  x.runtime().kernels().exp(y, x.data());
  const Tensor saved = y;
  return detail::record_unary<ExpNode>(std::move(y), x, saved);
}

Variable log(const Variable& x) {
  Tensor y = Tensor::empty_like(x.data());
  x.runtime().kernels().log(y, x.data());
  return detail::record_unary<LogNode>(std::move(y), x, x.data());
}

Variable sqrt(const Variable& x) {
  Tensor y = Tensor::empty_like(x.data());
  x.runtime().kernels().sqrt(y, x.data());
  const Tensor saved = y;
  return detail::record_unary<SqrtNode>(std::move(y), x, saved);
}

Variable reciprocal(const Variable& x) {
  Tensor y = Tensor::full(x.runtime(), x.shape(), x.data().dtype(), 1.0);
  x.runtime().kernels().div(y, y, x.data());
  const Tensor saved = y;
  return detail::record_unary<ReciprocalNode>(std::move(y), x, saved);
}

}  // namespace lockstep
