#include "tests/tidy/class_rules.h"

#include <algorithm>
#include <regex>
#include <set>

#include "tests/tidy/lines.h"

namespace lockstep::tidy {

namespace {

constexpr std::size_t kMostMembers = 25;

std::string without_literals(const std::string& text) {
  static const std::regex literal(R"re("(\\.|[^"\\\n])*"|'(\\.|[^'\\\n])')re");
  return std::regex_replace(text, literal, "0");
}

/// What stands between angle brackets, from the inside out.
std::string without_template_arguments(std::string text) {
  static const std::regex arguments("<[^<>;{}]*>");
  for (std::string before; before != text;) {
    before = text;
    text = std::regex_replace(text, arguments, "");
  }
  return text;
}

/// One declaration at the top level of a class: its text up to the body or the semicolon.
bool counts(const std::string& declaration, const std::string& class_name) {
  static const std::regex no_member(
      R"re(^\s*(\[\[[^\]]*\]\]\s*)?(friend|using|typedef|enum|class|struct|static_assert|template\s+class)\b)re");
  static const std::regex gone(R"re(=\s*(delete|default)\s*$)re");
  if (declaration.find_first_not_of(" \n") == std::string::npos) return false;
  if (std::regex_search(declaration, no_member) || std::regex_search(declaration, gone)) {
    return false;
  }
  const std::regex constructor("(^|[^\\w:])~?" + class_name + "\\s*\\(");
  return !std::regex_search(without_template_arguments(declaration), constructor);
}

/// Reads the body of one class.
class BodyReader {
 public:
  BodyReader(std::string_view rest, bool is_class, std::string name)
      : rest_(rest), is_private_(is_class), name_(std::move(name)) {}

  std::size_t read() {
    int depth = 1;
    for (std::size_t i = 0; i < rest_.size() && depth > 0; ++i) {
      const char c = rest_[i];
      if (c == '{') ++depth;
      if (c == '}' && --depth == 1) end_of_body(i);
      if (depth != 1 || c == '}') continue;
      if (c == ';') {
        end_declaration();
      } else if (c != ':' || !end_of_access()) {
        declaration_ += c;
      }
    }
    return n_private_;
  }

 private:
  /// A function's body ends its declaration; a list of initial values is followed by a semicolon.
  void end_of_body(std::size_t at) {
    const std::size_t next = rest_.find_first_not_of(" \n", at + 1);
    const bool goes_on =
        next != std::string_view::npos && (rest_[next] == ';' || rest_[next] == ',');
    if (!goes_on && declaration_.find('(') != std::string::npos) end_declaration();
  }

  bool end_of_access() {
    static const std::regex access(R"re((public|protected|private)\s*$)re");
    std::smatch found;
    if (!std::regex_search(declaration_, found, access)) return false;
    is_private_ = found[1] == "private";
    declaration_.clear();
    return true;
  }

  void end_declaration() {
    if (is_private_ && counts(declaration_, name_)) ++n_private_;
    declaration_.clear();
  }

  std::string_view rest_;  // After the opening brace.
  bool is_private_;
  std::string name_;
  std::string declaration_;
  std::size_t n_private_ = 0;
};

}  // namespace

std::vector<ClassSize> classes_in(const File& file) {
  static const std::regex head(
      R"re(\b(class|struct)\s+(?:alignas\(\w+\)\s+)?([A-Za-z_]\w*(?:::\w+)*)[^;{}()=]*\{)re");
  const std::string text = without_literals(without_comments(file.text));
  std::vector<ClassSize> sizes;
  for (std::sregex_iterator at(text.begin(), text.end(), head), end; at != end; ++at) {
    const auto begin = static_cast<std::size_t>(at->position());
    const auto line = std::count(text.begin(), text.begin() + at->position(), '\n') + 1;
    const std::string name = (*at)[2];
    const std::string own = name.substr(name.rfind(':') + 1);
    const std::string_view rest =
        std::string_view(text).substr(begin + static_cast<std::size_t>(at->length()));
    sizes.push_back(
        {name, static_cast<std::size_t>(line), BodyReader(rest, (*at)[1] == "class", own).read()});
  }
  return sizes;
}

Complaints too_many_members(const std::vector<File>& files,
                            const std::map<std::string, std::size_t>& allowed) {
  Complaints complaints;
  std::set<std::string> needed;
  for (const File& file : files) {
    for (const ClassSize& size : classes_in(file)) {
      if (size.n_private <= kMostMembers) continue;
      needed.insert(size.name);
      const auto exception = allowed.find(size.name);
      const std::size_t most = exception == allowed.end() ? kMostMembers : exception->second;
      if (size.n_private <= most) continue;
      complaints.push_back(at(file, size.line - 1) + size.name + " has " +
                           std::to_string(size.n_private) + " private members, and may have " +
                           std::to_string(most) + ": split it by what it holds");
    }
  }
  for (const auto& [name, most] : allowed) {
    if (!needed.contains(name)) {
      complaints.push_back(name + " has at most " + std::to_string(kMostMembers) +
                           " private members: it needs no exception");
    }
  }
  return complaints;
}

}  // namespace lockstep::tidy
