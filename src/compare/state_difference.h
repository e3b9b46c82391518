// Where two files of named tensors differ, and by how much.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/compare/tensor_distance.h"
#include "lockstep/formats/state_file.h"

namespace lockstep {

/// One tensor that is not the same in both files.
struct TensorDifference {
  std::string tensor = {};
  std::optional<TensorDistance> distance = {};  ///< Where both have the same type and sizes.
  std::string text = {};                        ///< All of it as a sentence.
};

/// Compares tensors by name: type, sizes, and every bit of the elements. The order of tensors does not
/// count.
/// Returns: those that differ, in the order of the left file, then those that only the right one has.
std::vector<TensorDifference> state_differences(std::span<const StoredTensor> left,
                                                std::span<const StoredTensor> right);

}  // namespace lockstep
