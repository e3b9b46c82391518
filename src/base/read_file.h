// A file of the machine's disk, whole.
#pragma once

#include <string>

#include "lockstep/base/error.h"

namespace lockstep {

/// The bytes of the file at `path`.
/// Errors: "cannot read this file" with the system's reason; a folder. The place is `path`.
Result<std::string> read_file(const std::string& path);

}  // namespace lockstep
