// Files of results: tensors by name.
#pragma once

#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/formats/state_file.h"

namespace lockstep {

/// Reads safetensors, a state dict that torch.save wrote, or a .npy array with one or two dimensions,
/// which is one tensor called "array"; an array of one column has one dimension.
/// Errors: those of read_state() and of data::parse_npy().
Result<std::vector<StoredTensor>> read_results(const std::string& path);

}  // namespace lockstep
