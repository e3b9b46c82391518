// Losses as values that remember their reduction.
#pragma once

#include <cstdint>
#include <utility>

#include "lockstep/functional/functions.h"

namespace lockstep::nn {

/// Mean or sum of (x - target)^2 over all elements.
class MSELoss {
 public:
  explicit MSELoss(Reduction reduction = Reduction::kMean) : reduction_(reduction) {}

  Variable operator()(const Variable& x, const Tensor& target) const {
    return reduction_ == Reduction::kMean ? mse_loss(x, target) : mse_loss(x, target, 1.0);
  }

 private:
  Reduction reduction_;
};

/// Mean or sum of |x - target| over all elements.
class L1Loss {
 public:
  explicit L1Loss(Reduction reduction = Reduction::kMean) : reduction_(reduction) {}

  Variable operator()(const Variable& x, const Tensor& target) const {
    return reduction_ == Reduction::kMean ? l1_loss(x, target) : l1_loss(x, target, 1.0);
  }

 private:
  Reduction reduction_;
};

/// Mean over samples, or sum, of -log softmax(x)[label]; x (B, C), labels i64 (B,). Samples whose
/// label is `ignore_index` add nothing and do not count; a mean over none is NaN, as in PyTorch.
/// With weights of classes (C,) each sample counts as much as its class, and a mean is divided by what
/// the samples of this rank's batch weigh.
class CrossEntropyLoss {
 public:
  static constexpr std::int64_t kIgnored = -100;  ///< PyTorch's own default.

  explicit CrossEntropyLoss(Reduction reduction = Reduction::kMean,
                            std::int64_t ignore_index = kIgnored)
      : reduction_(reduction), ignore_index_(ignore_index) {}

  explicit CrossEntropyLoss(Tensor class_weights,
                            Reduction reduction = Reduction::kMean,
                            std::int64_t ignore_index = kIgnored)
      : class_weights_(std::move(class_weights)),
        reduction_(reduction),
        ignore_index_(ignore_index) {}

  Variable operator()(const Variable& x, const Tensor& labels) const;

 private:
  Variable of_counting(const Variable& x, const Tensor& labels) const;

  Tensor class_weights_;  // Undefined: all count alike.
  Reduction reduction_;
  std::int64_t ignore_index_;
};

}  // namespace lockstep::nn
