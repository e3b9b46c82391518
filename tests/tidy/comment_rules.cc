#include "tests/tidy/comment_rules.h"

#include <algorithm>
#include <array>
#include <optional>

#include "tests/tidy/lines.h"

namespace lockstep::tidy {

namespace {

constexpr std::array<std::string_view, 13> kTags = {"Shapes:",
                                                    "Units:",
                                                    "Requires:",
                                                    "Returns:",
                                                    "Errors:",
                                                    "Throws:",
                                                    "Deterministic:",
                                                    "Source:",
                                                    "Collectives:",
                                                    "State:",
                                                    "Memory:",
                                                    "Blocks:",
                                                    "Sparse:"};

constexpr std::size_t kTagIndent = 5;  // A space as everywhere, then four.

/// What follows the slashes of a line that is nothing but a comment; nothing for other lines.
std::optional<std::string_view> comment_of(std::string_view line, std::string_view slashes) {
  const std::size_t begin = line.find_first_not_of(' ');
  if (begin == std::string_view::npos || !line.substr(begin).starts_with(slashes)) return {};
  const std::string_view text = line.substr(begin + slashes.size());
  if (text.starts_with('/') || text.starts_with('<')) return {};
  return text;
}

std::size_t indent_of(std::string_view text) {
  return std::min(text.find_first_not_of(' '), text.size());
}

std::string_view tag_at(std::string_view text) {
  const auto* const found = std::find_if(kTags.begin(), kTags.end(), [text](std::string_view tag) {
    return text.starts_with(tag) && (text.size() == tag.size() || text[tag.size()] == ' ');
  });
  return found == kTags.end() ? std::string_view() : *found;
}

/// The first tag after the end of a sentence on the same line, or nothing.
std::string_view tag_inside(std::string_view text) {
  for (std::size_t i = text.find(' '); i != std::string_view::npos; i = text.find(' ', i + 1)) {
    const bool ends_sentence = i > 0 && (text[i - 1] == '.' || text[i - 1] == ')');
    const std::string_view tag = tag_at(text.substr(i + 1));
    if (ends_sentence && !tag.empty()) return tag;
  }
  return {};
}

/// Reads the lines of one doc comment.
class DocComment {
 public:
  /// What is wrong with the next line; empty if nothing is.
  std::string read(std::string_view text, bool is_only_line) {
    const std::size_t indent = indent_of(text);
    if (indent == text.size()) tag_ = {};
    if (indent == text.size() || is_only_line) return {};
    const std::string_view tag = indent == 1 ? tag_at(text.substr(1)) : std::string_view();
    const std::string_view inside = tag_inside(text.substr(indent));
    if (!inside.empty()) return "begin a line with '" + std::string(inside) + "'";
    if (!tag.empty()) {
      tag_ = tag;
      const bool aligned = text.substr(1 + tag.size()).starts_with("  ");
      return aligned ? "write one space after '" + std::string(tag) + "'" : std::string();
    }
    if (tag_.empty() || indent == kTagIndent) return {};
    return "indent what follows '" + std::string(tag_) + "' by four";
  }

 private:
  std::string_view tag_;  ///< What is being said; empty in the paragraph.
};

bool is_single_word(std::string_view text) {
  const std::string_view word = text.substr(indent_of(text));
  constexpr std::string_view kEnds = ".:;,)?!`";
  return !word.empty() && word.find(' ') == std::string_view::npos &&
         kEnds.find(word.back()) == std::string_view::npos && is_word_char(word.front());
}

bool goes_on(std::optional<std::string_view> comment) {
  return comment && indent_of(*comment) < comment->size();
}

}  // namespace

Complaints torn_doc_comments(const File& header) {
  Complaints complaints;
  const std::vector<std::string_view> lines = lines_of(header.text);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    DocComment doc;
    for (const std::size_t first = i; i < lines.size(); ++i) {
      const std::optional<std::string_view> text = comment_of(lines[i], "///");
      if (!text) break;
      const bool ends = i + 1 == lines.size() || !comment_of(lines[i + 1], "///");
      const std::string wrong = doc.read(*text, i == first && ends);
      if (!wrong.empty()) complaints.push_back(at(header, i) + wrong);
    }
  }
  return complaints;
}

Complaints orphaned_words(const File& header) {
  Complaints complaints;
  const std::vector<std::string_view> lines = lines_of(header.text);
  for (std::size_t i = 1; i + 1 < lines.size(); ++i) {
    for (const std::string_view slashes : {"//", "///"}) {
      const std::optional<std::string_view> text = comment_of(lines[i], slashes);
      const bool inside =
          goes_on(comment_of(lines[i - 1], slashes)) && goes_on(comment_of(lines[i + 1], slashes));
      if (!text || !inside || !is_single_word(*text)) continue;
      complaints.push_back(at(header, i) + "'" + std::string(text->substr(indent_of(*text))) +
                           "' stands alone; join the lines");
    }
  }
  return complaints;
}

}  // namespace lockstep::tidy
