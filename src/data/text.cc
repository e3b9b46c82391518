#include "lockstep/data/text.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/host.h"

namespace lockstep::data {

std::string characters_of(std::string_view text) {
  std::string characters(text);
  const auto below = [](char a, char b) {
    return static_cast<unsigned char>(a) < static_cast<unsigned char>(b);
  };
  std::sort(characters.begin(), characters.end(), below);
  characters.erase(std::unique(characters.begin(), characters.end()), characters.end());
  return characters;
}

Result<Dataset> make_text(std::string_view text, std::string_view name, std::int64_t block_size) {
  const auto n = static_cast<std::int64_t>(text.size());
  if (block_size < 1) return Error{"a block of text has at least one character", std::string(name)};
  if (n <= block_size) {
    return Error{"a text of " + std::to_string(n) + " characters has no block of " +
                     std::to_string(block_size) + " and a next character",
                 std::string(name)};
  }
  const std::string characters = characters_of(text);
  std::vector<double> tokens;
  tokens.reserve(text.size());
  for (const char c : text) tokens.push_back(static_cast<double>(characters.find(c)));

  DatasetParts parts;
  parts.name = std::string(name);
  parts.size = n - block_size;
  parts.feature_columns = block_size;
  parts.target_columns = block_size;
  for (std::int64_t i = 0; i < parts.size; ++i) {
    const auto first = tokens.begin() + i;
    parts.features.insert(parts.features.end(), first, first + block_size);
    parts.targets.insert(parts.targets.end(), first + 1, first + 1 + block_size);
  }
  return Dataset::make(std::move(parts));
}

Result<Dataset> load_text(FileSystem& files, std::string_view path, std::int64_t block_size) {
  const Result<std::string> text = files.read(path);
  if (!text.ok()) return text.error();
  return make_text(text.value(), path, block_size);
}

}  // namespace lockstep::data
