// House rules about declarations in headers.
#pragma once

#include <map>

#include "tests/tidy/rules.h"

namespace lockstep::tidy {

/// A field whose value was pushed to the next line by its comment: the comment belongs above it.
Complaints torn_fields(const File& header);

/// Functions, types, enumerators, constants and fields that headers of the product declare and
/// nothing names but their own declarations and definitions. Tests count as users. Names are
/// compared as words: a used thing of the same name hides a dead one.
///
/// Requires: `files` holds all sources; `allowed` says of each exception who uses it.
Complaints dead_declarations(const std::vector<File>& files,
                             const std::map<std::string, std::string>& allowed);

}  // namespace lockstep::tidy
