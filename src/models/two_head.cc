#include "lockstep/models/two_head.h"

#include "lockstep/functional/functions.h"

namespace lockstep::nn {

TwoHead::TwoHead(Runtime& runtime, TwoHeadSizes sizes, LinearOptions options)
    : Module(runtime),
      trunk_(runtime, sizes.in, sizes.hidden, options),
      head_a_(runtime, sizes.hidden, sizes.out, options),
      head_b_(runtime, sizes.hidden, sizes.out, options) {
  register_module("trunk", trunk_);
  register_module("head_a", head_a_);
  register_module("head_b", head_b_);
}

Variable TwoHead::forward(const Variable& x) {
  const Variable features = relu(trunk_.forward(x));
  switch (heads_) {
    case Heads::kA:
      return head_a_.forward(features);
    case Heads::kB:
      return head_b_.forward(features);
    case Heads::kBoth:
      break;
  }
  const Variable a = head_a_.forward(features);  // Before B, whatever the order of arguments: its
  const Variable b = head_b_.forward(features);  // nodes decide whose gradients are ready first.
  return add(a, b);
}

}  // namespace lockstep::nn
