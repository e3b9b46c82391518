#include "lockstep/tensor/shape.h"

namespace lockstep {

std::string Shape::text() const {
  std::string text = "[";
  for (std::size_t i = 0; i < n_dims_; ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(sizes_[i]);
  }
  return text + "]";
}

}  // namespace lockstep
