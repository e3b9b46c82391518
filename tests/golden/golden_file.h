// Reads the golden files of this folder: "kind arguments : values", one case per line.
#pragma once

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/text.h"

namespace lockstep::golden {

struct Case {
  std::string kind;
  std::vector<std::string> arguments;
  std::string values;  ///< Everything after " : ", as written.

  std::int64_t integer(std::size_t i) const { return parse_int(arguments.at(i)).value(); }

  bool flag(std::size_t i) const { return arguments.at(i) == "1"; }

  std::string text() const {
    std::string out = kind;
    for (const std::string& argument : arguments) out += " " + argument;
    return out;
  }
};

/// A case without its values, from "kind arguments".
inline Case case_of(const std::string& text) {
  Case one;
  std::istringstream words(text);
  words >> one.kind;
  for (std::string word; words >> word;) one.arguments.push_back(word);
  return one;
}

/// Returns: the cases of tests/golden/<name>; empty when the file is missing.
inline std::vector<Case> read(const std::string& name) {
  std::ifstream file(std::string(LOCKSTEP_SOURCE_DIR) + "/tests/golden/" + name);
  std::vector<Case> cases;
  for (std::string line; std::getline(file, line);) {
    const std::size_t cut = line.find(" :");
    if (line.starts_with("#") || cut == std::string::npos) continue;
    Case one = case_of(line.substr(0, cut));
    one.values = line.size() > cut + 3 ? line.substr(cut + 3) : "";
    cases.push_back(std::move(one));
  }
  return cases;
}

/// FNV-1a over whole indices, as golden_format.py has it.
inline std::uint64_t digest(const std::vector<std::int64_t>& indices) {
  std::uint64_t state = 0xcbf29ce484222325ULL;
  for (const std::int64_t index : indices) {
    state = (state ^ static_cast<std::uint64_t>(index)) * 0x100000001b3ULL;
  }
  return state;
}

/// The text golden_format.py writes for these indices.
inline std::string listed(const std::vector<std::int64_t>& indices) {
  std::vector<std::string> words;
  const auto add = [&](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) words.push_back(std::to_string(indices[i]));
  };
  if (indices.size() <= 40) {
    add(0, indices.size());
  } else {
    words = {"#", std::to_string(indices.size()), hex64(digest(indices))};
    add(0, 3);
    add(indices.size() - 3, indices.size());
  }
  return join(words, " ");
}

}  // namespace lockstep::golden
