// Values that a forward pass keeps for its backward pass.
#pragma once

#include <cstdint>

#include "lockstep/tensor/tensor.h"

namespace lockstep {

/// A tensor and the version it had when it was saved.
///
/// Errors: ContractViolation from get() when the values were written since, or already released.
class SavedTensor {
 public:
  SavedTensor() = default;

  explicit SavedTensor(const Tensor& tensor)
      : tensor_(tensor), version_(tensor.storage()->version()) {}

  const Tensor& get() const {
    if (!tensor_.defined() || tensor_.storage()->version() != version_) fail();
    return tensor_;
  }

  void reset() { tensor_ = Tensor(); }

 private:
  [[noreturn]] void fail() const;

  Tensor tensor_;
  std::uint32_t version_ = 0;
};

}  // namespace lockstep
