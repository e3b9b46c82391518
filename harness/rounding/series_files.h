// Two folders with the parameters of a run after each step.
#pragma once

#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/harness/rounding/growth.h"

namespace lockstep {

/// Compares two folders step by step. What lies in them belongs to the step that is the first number in its
/// name: files of tensors (as read_results() reads them), or folders of such files. Tensors are known by
/// name, and by the rest of the file's name where a step has several files. Other files are left out.
///
/// Only steps that both have are compared; tensors of other than floating-point types are left out.
/// Errors: no step in both; those of read_results(); a tensor that one side lacks, or of another type or
///     size.
Result<std::vector<SeriesStep>> compare_series(const std::string& left, const std::string& right);

}  // namespace lockstep
