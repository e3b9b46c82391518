// Values that a forward pass keeps for its backward pass.
#pragma once

#include <cstdint>

#include "lockstep/tensor/tensor.h"

namespace lockstep {

/// Stands for a saved tensor whose values are kept elsewhere, or nowhere until they are needed.
class PackedTensor : public Counted {
 public:
  /// The values that were packed. The reference holds for as long as this lives.
  virtual const Tensor& unpack() = 0;
};

/// While set on a runtime, takes every tensor that an operation saves (Runtime).
///
/// Source: torch.autograd.graph.saved_tensors_hooks.
class SavedTensorHooks {
 public:
  SavedTensorHooks() = default;
  virtual ~SavedTensorHooks() = default;
  SavedTensorHooks(const SavedTensorHooks&) = delete;
  SavedTensorHooks& operator=(const SavedTensorHooks&) = delete;
  SavedTensorHooks(SavedTensorHooks&&) = delete;
  SavedTensorHooks& operator=(SavedTensorHooks&&) = delete;

  virtual Ref<PackedTensor> pack(const Tensor& tensor) = 0;
};

/// A tensor and the version it had when it was saved, or what hooks made of it.
///
/// Errors: ContractViolation from get() when the values were written since, or already released.
class SavedTensor {
 public:
  SavedTensor() = default;

  explicit SavedTensor(const Tensor& tensor)
      : tensor_(tensor), version_(tensor.storage()->version()) {
    if (tensor.runtime().saved_tensor_hooks() != nullptr) pack();
  }

  const Tensor& get() const {
    if (!tensor_.defined() || tensor_.storage()->version() != version_) return unpack_or_fail();
    return tensor_;
  }

  void reset() {
    tensor_ = Tensor();
    packed_ = Ref<PackedTensor>();
  }

 private:
  void pack();
  const Tensor& unpack_or_fail() const;

  Tensor tensor_;
  Ref<PackedTensor> packed_;
  std::uint32_t version_ = 0;
};

}  // namespace lockstep
