// What most tests of the reducer need: a model of two numbers, and hooks that answer with a tensor.
#pragma once

#include <memory>
#include <utility>

#include "tests/ddp/tiny_model.h"
#include "tests/support/mini_world.h"

namespace lockstep::testing {

/// A cap that every f32 parameter fills by itself.
inline constexpr double kOneElementCapMb = 4.0 / 1024 / 1024;

/// Parameters "a" and "b" of one element, zero.
struct TwoParameters : TinyModel {
  explicit TwoParameters(MiniRank& rank)
      : TinyModel(rank.runtime), a(parameter("a", {0})), b(parameter("b", {0})) {}

  /// optimizer.zero_grad(set_to_none=True)
  void forget() const {
    for (const NamedVariable& one : parameters) one.variable.set_grad(Tensor());
  }

  /// A loss with these gradients; that of b is ready first.
  Variable loss(double gradient_of_a, double gradient_of_b) const {
    return total({flat_term(a, gradient_of_a), flat_term(b, gradient_of_b)});
  }

  Variable a;
  Variable b;
};

/// A hook's future: `result`, once `work` is done. Without a work it is done at once.
class PendingResult final : public PendingBucket {
 public:
  explicit PendingResult(Tensor result, Work work = {})
      : result_(std::move(result)), work_(std::move(work)) {}

  Tensor wait() override {
    if (work_.valid()) work_.wait_or_throw();
    return result_;
  }

 private:
  Tensor result_;
  Work work_;
};

/// The sum of `bucket` over the ranks, undivided.
inline std::unique_ptr<PendingBucket> sum_of(ProcessGroup& group, const GradBucket& bucket) {
  return std::make_unique<PendingResult>(
      bucket.buffer(),
      group.all_reduce(Memory::of(bucket.buffer()), ReduceOp::kSum, bucket.op_options()));
}

}  // namespace lockstep::testing
