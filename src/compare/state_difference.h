// Where two files of named tensors differ.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/formats/state_file.h"

namespace lockstep {

struct StateDifference {
  std::string tensor = {};  ///< The first one that differs, in the order of the left file.
  std::optional<std::int64_t> element = {};  ///< Flat, where both have the same type and sizes.
  std::int64_t n_elements = 0;               ///< Of this tensor that differ.
  std::int64_t n_tensors = 0;                ///< That differ, or that one file lacks.
  std::string text = {};                     ///< All of it as a sentence.
};

/// Compares tensors by name: type, sizes, and every bit of the elements. Values beside tensors, the
/// order of tensors and the format of the files do not count.
/// Returns: nothing when they are equal.
std::optional<StateDifference> first_state_difference(const StateFile& left,
                                                      const StateFile& right);

}  // namespace lockstep
