// The hand-written alternative to a wrapper: no broadcast, gradients are averaged by a loop.
#pragma once

#include <cstdint>
#include <memory>

#include "lockstep/comm/rank_context.h"
#include "lockstep/nn/module.h"

namespace lockstep {

/// What scripts without DDP do: all-reduce each gradient after the last backward of a step, or
/// nothing at all. Records the same events as a wrapper, so the same laws judge it.
///
/// Requires: outlives neither model nor context.
class ManualAverage {
 public:
  /// In which order gradients are reduced.
  enum class Order : std::uint8_t { kNone, kModel, kArrival };

  /// `order` kNone: ranks train on their own. kArrival: last layer first, as backwards end.
  ManualAverage(nn::Module& model, RankContext& context, Order order);
  ~ManualAverage();
  ManualAverage(const ManualAverage&) = delete;
  ManualAverage& operator=(const ManualAverage&) = delete;
  ManualAverage(ManualAverage&&) = delete;
  ManualAverage& operator=(ManualAverage&&) = delete;

  std::int32_t wrapper() const;
  Variable forward(const Variable& x);
  /// Averages when `last_micro`. Errors: CommError.
  void after_backward(bool last_micro);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
