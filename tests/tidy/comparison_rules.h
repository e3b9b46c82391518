// House rules about words: a closed set of them is an enum, whose table parses and prints it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/tidy/rules.h"

namespace lockstep::tidy {

/// The lines, from 0, of a file's comparisons (== and !=) with a string literal on either side.
std::vector<std::size_t> literal_comparisons_in(const File& file);

/// Comparisons with string literals: a misspelt word compiles and is never equal.
///
/// Requires: `allowed` says of each exception how many it may have; one that has fewer is a
///     complaint, too, so that the number falls with it.
Complaints literal_comparisons(const std::vector<File>& files,
                               const std::map<std::string, std::size_t>& allowed);

}  // namespace lockstep::tidy
