// Files of results: tensors by name.
#pragma once

#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/formats/state_file.h"

namespace lockstep {

/// Reads safetensors, a state dict that torch.save wrote, or a .npy array of f4 or f8 with one or two
/// dimensions, which is one tensor called "array".
/// Errors: those of read_state() and of reading .npy; an array of integers.
Result<std::vector<StoredTensor>> read_results(const std::string& path);

}  // namespace lockstep
