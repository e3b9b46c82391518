#include "lockstep/harness/cli/grammar/help_page.h"

#include <algorithm>
#include <string_view>

#include "lockstep/base/text.h"

namespace lockstep::cli {
namespace {

constexpr std::size_t kLineWidth = 100;
constexpr std::size_t kIndent = 2;
/// A longer name has its own line.
constexpr std::size_t kWidestName = 28;

/// Breaks `text` at spaces; lines after the first begin at column `from`.
std::string wrapped(const std::string& text, std::size_t from) {
  std::string result;
  std::size_t column = from;
  for (const std::string_view word : split(text, ' ')) {
    if (column > from && column + 1 + word.size() > kLineWidth) {
      result += "\n" + std::string(from, ' ');
      column = from;
    } else if (column > from) {
      result += ' ';
      ++column;
    }
    result += word;
    column += word.size();
  }
  return result;
}

/// A group of rows under its heading; nothing when there are none.
std::string section(const std::string& heading, const std::vector<HelpRow>& rows) {
  if (rows.empty()) return {};
  std::size_t width = 0;
  for (const HelpRow& row : rows) {
    if (row.name.size() <= kWidestName) width = std::max(width, row.name.size());
  }
  const std::size_t column = kIndent + width + 2;
  std::string text = "\n" + heading + ":\n";
  for (const HelpRow& row : rows) {
    const bool fits = row.name.size() <= width;
    text += std::string(kIndent, ' ') + row.name;
    text += fits ? std::string(width + 2 - row.name.size(), ' ') : "\n" + std::string(column, ' ');
    text += wrapped(row.text, column) + "\n";
  }
  return text;
}

}  // namespace

std::string render(const HelpPage& page) {
  std::string text = wrapped(page.summary, 0) + "\n\nUsage: " + page.usage + " [OPTIONS]";
  text += (page.tail.empty() ? "" : " " + page.tail) + "\n";
  text += section("Arguments", page.arguments);
  text += section("Commands", page.commands);
  text += section("Options", page.options);
  if (!page.examples.empty()) text += "\nExamples:\n";
  for (const Example& example : page.examples) {
    text += "  # " + example.purpose + "\n  " + example.line + "\n";
  }
  if (!page.footer.empty()) text += "\n" + page.footer + "\n";
  return text;
}

}  // namespace lockstep::cli
