#include "lockstep/functional/cast.h"

#include <fmt/core.h>
#include <utility>

#include "lockstep/autograd/node.h"

namespace lockstep {
namespace {

class CastNode final : public Node {
 public:
  explicit CastNode(DType from) : from_(from) {}

  void run(Tensor&& grad) override { send(0, grad.to(from_)); }

 private:
  DType from_;
};

}  // namespace

Variable cast(const Variable& x, DType dtype) {
  LOCKSTEP_CHECK(
      is_floating(x.data().dtype()) && is_floating(dtype),
      fmt::format(
          "cannot cast {} to {}: both are floating-point", x.data().text(), name_of(dtype)));
  if (x.data().dtype() == dtype) return x;
  Ref<Node> node;
  if (Node::records({&x})) {
    node = Node::make<CastNode>(x.runtime(), x.data().dtype());
    node->connect(0, x);
  }
  return Node::attach(x.data().to(dtype), std::move(node));
}

}  // namespace lockstep
