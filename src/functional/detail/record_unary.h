// One way to put an operation of one operand into the graph.
#pragma once

#include <utility>

#include "lockstep/autograd/node.h"

namespace lockstep::detail {

/// The variable around `out`, produced by a node N(runtime, args...) where the graph is recorded.
template <typename N, typename... Args>
Variable record_unary(Tensor&& out, const Variable& x, const Args&... args) {
  if (!Node::records({&x})) return Node::attach(std::move(out), {});
  const Ref<N> node = Node::make<N>(x.runtime(), args...);
  node->connect(0, x);
  return Node::attach(std::move(out), node);
}

}  // namespace lockstep::detail
