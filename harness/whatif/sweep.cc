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

/// Follows brackets and quotes, letter by letter.
class Nesting {
 public:
  void read(char letter) {
    if (quote_ != '\0') {
      if (letter == quote_) quote_ = '\0';
      return;
    }
    if (letter == '"' || letter == '\'') quote_ = letter;
    if (kOpening.find(letter) != std::string_view::npos) ++depth_;
    if (kClosing.find(letter) != std::string_view::npos) --depth_;
    closed_too_often_ = closed_too_often_ || depth_ < 0;
  }

  bool is_outside() const { return depth_ == 0 && quote_ == '\0'; }

  bool is_whole() const { return is_outside() && !closed_too_often_; }

 private:
  int depth_ = 0;
  char quote_ = '\0';
  bool closed_too_often_ = false;
};

/// Splits at commas outside of brackets and quotes. Absent: one of these is not closed.
std::optional<std::vector<std::string>> split_values(std::string_view text) {
  std::vector<std::string> values(1);
  Nesting nesting;
  for (const char letter : text) {
    if (letter == ',' && nesting.is_outside()) {
      values.emplace_back();
      continue;
    }
    nesting.read(letter);
    values.back().push_back(letter);
  }
  if (!nesting.is_whole()) return std::nullopt;
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
