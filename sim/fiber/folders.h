// Which folders a file system in memory has.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "lockstep/base/error.h"

namespace lockstep::sim {

/// Folders are made, as on a disk; only "." and "/" are there from the start.
class Folders {
 public:
  /// Makes a folder and those above it, where they are missing.
  void make(std::string_view folder);
  bool has(std::string_view folder) const;
  /// Whether a file may be made at `path`. Errors: its folder is missing.
  Outcome check(std::string_view path) const;

  void clear() { made_.clear(); }

 private:
  std::set<std::string, std::less<>> made_;
};

}  // namespace lockstep::sim
