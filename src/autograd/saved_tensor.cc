#include "lockstep/autograd/saved_tensor.h"

#include <string>

namespace lockstep {

void SavedTensor::pack() {
  packed_ = tensor_.runtime().saved_tensor_hooks()->pack(tensor_);
  tensor_ = Tensor();
}

const Tensor& SavedTensor::unpack_or_fail() const {
  if (packed_) return packed_->unpack();
  if (!tensor_.defined()) {
    throw ContractViolation(
        "trying to backward through the graph a second time: its saved values were freed by the "
        "first backward; pass retain_graph to the first one to keep them");
  }
  throw ContractViolation(
      "one of the tensors needed for gradient computation has been modified by an in-place "
      "operation: " +
      tensor_.shape().text() + " is at version " + std::to_string(tensor_.storage()->version()) +
      ", expected version " + std::to_string(version_));
}

}  // namespace lockstep
