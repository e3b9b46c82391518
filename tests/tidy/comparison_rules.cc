#include "tests/tidy/comparison_rules.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "tests/tidy/lines.h"

namespace lockstep::tidy {

namespace {

constexpr std::string_view kSpace = " \t\n";

bool is_comparison(std::string_view two) { return two == "==" || two == "!="; }

bool ends_with_comparison(std::string_view before) {
  while (!before.empty() && is_word_char(before.back())) before.remove_suffix(1);  // R"(a)"
  const std::size_t last = before.find_last_not_of(kSpace);
  return last != std::string_view::npos && last > 0 && is_comparison(before.substr(last - 1, 2));
}

bool starts_with_comparison(std::string_view after) {
  while (!after.empty() && is_word_char(after.front())) after.remove_prefix(1);  // A suffix: "a"sv.
  const std::size_t first = after.find_first_not_of(kSpace);
  return first != std::string_view::npos && is_comparison(after.substr(first, 2));
}

/// After the literal that begins at `begin`, which is its first quote.
std::size_t end_of_literal(std::string_view text, std::size_t begin) {
  const char quote = text[begin];
  if (quote == '"' && begin > 0 && text[begin - 1] == 'R') {
    const std::size_t open = text.find('(', begin);
    if (open == std::string_view::npos) return text.size();
    const std::string close = ")" + std::string(text.substr(begin + 1, open - begin - 1)) + "\"";
    const std::size_t end = text.find(close, open);
    return end == std::string_view::npos ? text.size() : end + close.size();
  }
  std::size_t end = begin + 1;
  while (end < text.size() && text[end] != quote) end += text[end] == '\\' ? 2U : 1U;
  return std::min(end + 1, text.size());
}

/// 1'000'000
bool separates_digits(std::string_view text, std::size_t at) {
  return text[at] == '\'' && at > 0 && is_word_char(text[at - 1]);
}

}  // namespace

std::vector<std::size_t> literal_comparisons_in(const File& file) {
  const std::string owned = without_comments(file.text);
  const std::string_view text = owned;
  std::vector<std::size_t> lines;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((text[i] != '"' && text[i] != '\'') || separates_digits(text, i)) continue;
    const std::size_t end = end_of_literal(text, i);
    const bool compared = text[i] == '"' && (ends_with_comparison(text.substr(0, i)) ||
                                             starts_with_comparison(text.substr(end)));
    if (compared) {
      const auto place = static_cast<std::ptrdiff_t>(i);
      lines.push_back(
          static_cast<std::size_t>(std::count(text.begin(), text.begin() + place, '\n')));
    }
    i = end - 1;
  }
  return lines;
}

Complaints literal_comparisons(const std::vector<File>& files,
                               const std::map<std::string, std::size_t>& allowed) {
  Complaints complaints;
  std::set<std::string> seen;
  for (const File& file : files) {
    const std::vector<std::size_t> lines = literal_comparisons_in(file);
    const auto exception = allowed.find(file.path);
    const std::size_t most = exception == allowed.end() ? 0 : exception->second;
    if (exception != allowed.end()) seen.insert(file.path);
    if (lines.size() > most) {
      complaints.push_back(at(file, lines.back()) + "compares with a string literal " +
                           std::to_string(lines.size()) + " times, and may " +
                           std::to_string(most) +
                           " times: a closed set of words is an enum with a EnumNames");
    } else if (lines.size() < most) {
      complaints.push_back(file.path + " compares with a string literal " +
                           std::to_string(lines.size()) + " times: let its exception say so");
    }
  }
  for (const auto& [path, most] : allowed) {
    if (!seen.contains(path)) complaints.push_back(path + " is not there: it needs no exception");
  }
  return complaints;
}

}  // namespace lockstep::tidy
