#include "tests/tidy/word_rules.h"

#include <regex>

namespace lockstep::tidy {

namespace {

/// "src/a.cc:3: " for the place of a match.
std::string place_of(const File& file, std::size_t offset) {
  std::size_t line = 1;
  for (std::size_t i = 0; i < offset; ++i) line += file.text[i] == '\n' ? 1U : 0U;
  return file.path + ":" + std::to_string(line) + ": ";
}

void complain(const File& file,
              const std::string& code,
              const std::regex& pattern,
              const std::string& why,
              Complaints& complaints) {
  const auto end = std::sregex_iterator();
  for (auto match = std::sregex_iterator(code.begin(), code.end(), pattern); match != end;
       ++match) {
    complaints.push_back(place_of(file, static_cast<std::size_t>(match->position())) + why);
  }
}

}  // namespace

Complaints parsed_messages(const File& file) {
  Complaints complaints;
  if (!file.path.starts_with("src/laws/")) return complaints;
  const std::string code = without_comments(file.text);
  static const std::regex search(
      R"re(\.\s*r?(starts_with|ends_with|find|contains|compare)\s*\(\s*")re");
  static const std::regex comparison(
      R"((\bdetail|\bmessage)\b\s*(==|!=)|(==|!=)\s*\w+(\.|->)(detail|message)\b)");
  const std::string instead = "; let an enum of the event carry it";
  complain(file, code, search, "a law reads words out of a text" + instead, complaints);
  complain(file, code, comparison, "a law compares a text for people" + instead, complaints);
  return complaints;
}

Complaints spelled_out_causes(const File& file, const std::vector<std::string_view>& ids) {
  Complaints complaints;
  if (file.path.find("/cause_rows_") != std::string::npos) return complaints;
  const std::string code = without_comments(file.text);
  for (const std::string_view id : ids) {
    const std::string literal = "\"" + std::string(id) + "\"";
    for (std::size_t i = code.find(literal); i != std::string::npos;
         i = code.find(literal, i + 1)) {
      complaints.push_back(place_of(file, i) + literal +
                           " is the id of a cause, use its enumerator");
    }
  }
  return complaints;
}

}  // namespace lockstep::tidy
