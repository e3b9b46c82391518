// Losses as values that remember their reduction.
#pragma once

#include "lockstep/autograd/functions.h"

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

/// Mean over samples, or sum, of -log softmax(x)[label]; x (B, C), labels i64 (B,).
class CrossEntropyLoss {
 public:
  explicit CrossEntropyLoss(Reduction reduction = Reduction::kMean) : reduction_(reduction) {}

  Variable operator()(const Variable& x, const Tensor& labels) const {
    return reduction_ == Reduction::kMean ? cross_entropy(x, labels)
                                          : cross_entropy(x, labels, 1.0);
  }

 private:
  Reduction reduction_;
};

}  // namespace lockstep::nn
