#include "lockstep/harness/whatif/sweep.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <utility>

#include "lockstep/base/text.h"

namespace lockstep {

namespace {

constexpr std::string_view kOpening = "[{(";
constexpr std::string_view kClosing = "]})";

/// Splits at commas outside of brackets and quotes. Absent: one of these is not closed.
std::optional<std::vector<std::string>> split_values(std::string_view text) {
  std::vector<std::string> values(1);
  int depth = 0;
  char quote = '\0';
  for (const char letter : text) {
    if (quote != '\0') {
      if (letter == quote) quote = '\0';
    } else if (letter == '"' || letter == '\'') {
      quote = letter;
    } else if (kOpening.find(letter) != std::string_view::npos) {
      ++depth;
    } else if (kClosing.find(letter) != std::string_view::npos) {
      if (--depth < 0) return std::nullopt;
    } else if (letter == ',' && depth == 0) {
      values.emplace_back();
      continue;
    }
    values.back().push_back(letter);
  }
  if (depth != 0 || quote != '\0') return std::nullopt;
  return values;
}

Error wrong(std::string_view text, std::string_view what) {
  return {fmt::format("--sweep '{}': {}", text, what), {}};
}

}  // namespace

Result<SweptKey> parse_swept(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    return wrong(text, "expected KEY=VALUE,VALUE,..., such as ddp.bucket_cap_mb=1,5,25");
  }
  SweptKey swept{.key = std::string(trim(text.substr(0, equals))), .values = {}};
  const auto values = split_values(text.substr(equals + 1));
  if (!values) return wrong(text, "a bracket or a quote is not closed");
  for (const std::string& value : *values) {
    swept.values.emplace_back(trim(value));
    if (swept.values.back().empty()) return wrong(text, "a value is empty");
  }
  return swept;
}

Result<std::vector<std::vector<Setting>>> combinations(const std::vector<SweptKey>& keys) {
  std::vector<std::vector<Setting>> all(1);
  for (const SweptKey& key : keys) {
    const auto same = [&](const Setting& setting) { return setting.key == key.key; };
    if (std::ranges::any_of(all.front(), same)) {
      return Error{fmt::format("--sweep names '{}' twice; give all its values at once", key.key),
                   {}};
    }
    if (all.size() * key.values.size() > kMostCombinations) {
      return Error{fmt::format("--sweep asks for more than {} combinations", kMostCombinations),
                   {}};
    }
    std::vector<std::vector<Setting>> next;
    next.reserve(all.size() * key.values.size());
    for (const std::vector<Setting>& before : all) {
      for (const std::string& value : key.values) {
        next.push_back(before);
        next.back().push_back({.key = key.key, .value = value});
      }
    }
    all = std::move(next);
  }
  return all;
}

}  // namespace lockstep
