// A file as one text.
#pragma once

#include <fstream>
#include <sstream>
#include <string>

namespace lockstep::testing {

/// Every byte of a file; empty if it cannot be read.
inline std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

}  // namespace lockstep::testing
