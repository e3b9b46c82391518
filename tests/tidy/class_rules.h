// House rules about the size of classes.
#pragma once

#include <map>
#include <string>

#include "tests/tidy/rules.h"

namespace lockstep::tidy {

/// What a class keeps to itself.
struct ClassSize {
  std::string name;
  std::size_t line = 0;       ///< From 1.
  std::size_t n_private = 0;  ///< Fields, and functions that only it calls.
};

/// The classes and structs of a file, nested ones too, in the order of their ends. Constructors,
/// destructors, deleted functions, types and friends do not count; overloads do, each.
std::vector<ClassSize> classes_in(const File& file);

/// Classes with more than 25 private members: a change to one of them takes all into account.
///
/// Requires: `allowed` says of each exception how many it may have; an exception that is not needed
///     is a complaint, too.
Complaints too_many_members(const std::vector<File>& files,
                            const std::map<std::string, std::size_t>& allowed);

}  // namespace lockstep::tidy
