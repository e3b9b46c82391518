#include "tests/tidy/declaration_rules.h"

#include <algorithm>
#include <array>
#include <optional>

#include "tests/tidy/lines.h"

namespace lockstep::tidy {

namespace {

struct Token {
  std::string_view text;
  std::size_t line = 0;  ///< Index.
  bool gap = false;      ///< White space precedes it.
};

using Tokens = std::vector<Token>;

bool is_name(std::string_view text) { return is_word_char(text.front()) && text.front() > '9'; }

/// How long the literal at the start of `rest` is; 0 when there is none.
std::size_t literal_length(std::string_view rest) {
  if (rest.starts_with("R\"")) {
    const std::size_t open = rest.find('(');
    const std::string end = ")" + std::string(rest.substr(2, open - 2)) + "\"";
    const std::size_t found = rest.find(end);
    return found == std::string_view::npos ? rest.size() : found + end.size();
  }
  if (rest.front() != '"' && rest.front() != '\'') return 0;
  for (std::size_t i = 1; i < rest.size(); ++i) {
    if (rest[i] == rest.front()) return i + 1;
    if (rest[i] == '\\') ++i;
  }
  return rest.size();
}

std::size_t word_length(std::string_view rest) {
  std::size_t n = 0;
  const bool number = rest.front() >= '0' && rest.front() <= '9';
  while (n < rest.size() && (is_word_char(rest[n]) || (number && n > 0 && rest[n] == '\''))) ++n;
  return n;
}

std::size_t token_length(std::string_view rest) {
  if (const std::size_t literal = literal_length(rest); literal > 0) return literal;
  if (const std::size_t word = word_length(rest); word > 0) return word;
  return rest.starts_with("::") || rest.starts_with("->") ? 2 : 1;
}

/// `code` has no comments. Lines of the preprocessor that include are left out.
Tokens tokens_of(std::string_view code) {
  Tokens tokens;
  std::size_t line = 0;
  bool gap = true;
  bool is_first = true;
  while (!code.empty()) {
    std::size_t n = 1;
    if (is_first && code.starts_with("#include")) n = std::min(code.find('\n'), code.size());
    const bool skipped = n > 1;
    const bool space = code.front() == ' ' || code.front() == '\n';
    if (!space && !skipped) {
      n = token_length(code);
      tokens.push_back({code.substr(0, n), line, gap});
    }
    is_first = code[n - 1] == '\n' || (is_first && space);
    gap = space;
    line += static_cast<std::size_t>(std::count(code.begin(), code.begin() + n, '\n'));
    code.remove_prefix(n);
  }
  return tokens;
}

template <std::size_t kSize>
bool is_one_of(std::string_view text, const std::array<std::string_view, kSize>& words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

/// Which names of one file are declared where, and which are used.
class Reader {
 public:
  using Place = std::pair<std::string, std::size_t>;  ///< Path and line index.

  explicit Reader(const File& file) : file_(&file), code_(without_comments(file.text)) {
    tokens_ = tokens_of(code_);
  }

  void read(std::map<std::string, Place>& declared, std::set<std::string>& used) {
    mark_enumerators();
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      const std::string_view name = tokens_[i].text;
      if (!is_name(name)) continue;
      if (declares_type(i)) mark_body(i);
      if (declares(i)) {
        declared.try_emplace(std::string(name), file_->path, tokens_[i].line);
      } else if (!qualifies_definition(i) && !is_inside_own_body(i)) {
        used.insert(std::string(name));
      }
    }
  }

 private:
  std::string_view text(std::size_t i) const {
    return i < tokens_.size() ? tokens_[i].text : std::string_view(";");
  }

  /// Where "a::b::name" begins.
  std::size_t chain_begin(std::size_t i) const {
    while (i >= 2 && text(i - 1) == "::" && is_name(text(i - 2))) i -= 2;
    return i;
  }

  bool declares_type(std::size_t i) const {
    constexpr std::array<std::string_view, 6> kIntroducers = {
        "struct", "class", "enum", "union", "concept", "using"};
    const std::size_t begin = chain_begin(i);
    return begin > 0 && is_one_of(text(begin - 1), kIntroducers) && text(i) != "class" &&
           text(i) != "alignas";
  }

  /// Whether a type precedes token `i`, as the formatter writes it: "Type name", "Type*
  /// name", "Type<Argument> name".
  bool follows_type(std::size_t i) const {
    static const std::set<std::string_view> no_types = {
        "return", "else",    "throw",  "case",      "co_return", "new",       "delete",
        "not",    "and",     "or",     "do",        "goto",      "typename",  "namespace",
        "class",  "private", "public", "protected", "virtual",   "constexpr", "explicit"};
    std::size_t before = chain_begin(i);
    if (before == 0 || !tokens_[before].gap) return false;
    --before;
    while (before > 0 && (text(before) == "*" || text(before) == "&") && !tokens_[before].gap) {
      --before;
    }
    const std::string_view end = text(before);
    if (end == ">") return !tokens_[before].gap;
    return is_name(end) && !no_types.contains(end);
  }

  bool declares(std::size_t i) const {
    if (declares_type(i) || is_enumerator_[i]) return true;
    constexpr std::array<std::string_view, 5> kAfter = {"(", ";", "=", "{", "["};
    const bool compared = text(i + 1) == "=" && text(i + 2) == "=" && !tokens_[i + 2].gap;
    return is_one_of(text(i + 1), kAfter) && !compared && follows_type(i);
  }

  /// The `Pool` of "void Pool::post(", and both of "Pool::Pool(" and "Pool::~Pool(".
  bool qualifies_definition(std::size_t i) const {
    const std::size_t tilde = i > 0 && text(i - 1) == "~" ? 1 : 0;
    if (i >= 2 + tilde && text(i - tilde - 1) == "::" && text(i - tilde - 2) == text(i))
      return true;
    std::size_t end = i;
    while (text(end + 1) == "::" && end + 2 < tokens_.size()) end += text(end + 2) == "~" ? 3U : 2U;
    if (end == i || text(end + 1) != "(") return false;
    return follows_type(end) || text(end) == text(i) || text(end - 1) == "~";
  }

  std::size_t end_of_body(std::size_t open) const {
    std::size_t depth = 0;
    for (std::size_t i = open; i < tokens_.size(); ++i) {
      if (text(i) == "{") ++depth;
      if (text(i) == "}" && --depth == 0) return i;
    }
    return tokens_.size();
  }

  /// The brace that opens the body of what is declared at `i`, unless it is only declared.
  std::optional<std::size_t> open_of_body(std::size_t i) const {
    while (i < tokens_.size() && text(i) != "{" && text(i) != ";" && text(i) != "(") ++i;
    return text(i) == "{" ? std::optional(i) : std::nullopt;
  }

  void mark_enumerators() {
    is_enumerator_.assign(tokens_.size(), false);
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      const std::optional<std::size_t> open =
          text(i) == "enum" ? open_of_body(i + 1) : std::nullopt;
      if (!open) continue;
      for (std::size_t k = *open + 1; k < end_of_body(*open); ++k) {
        is_enumerator_[k] = text(k - 1) == "{" || text(k - 1) == ",";
      }
    }
  }

  void mark_body(std::size_t i) {
    const std::optional<std::size_t> open = open_of_body(i);
    if (open) bodies_[std::string(text(i))] = end_of_body(*open);
  }

  bool is_inside_own_body(std::size_t i) const {
    const auto body = bodies_.find(std::string(text(i)));
    return body != bodies_.end() && i < body->second;
  }

  const File* file_;
  std::string code_;
  Tokens tokens_;
  std::vector<bool> is_enumerator_;
  std::map<std::string, std::size_t> bodies_;  ///< Of types read so far: where they end.
};

bool is_product_header(const std::string& path) {
  const bool header = path.ends_with(".h") || path.ends_with(".cuh");
  return header && !path.starts_with("tests/") && !path.starts_with("bench/") &&
         path.find("examples/") == std::string::npos;
}

}  // namespace

Complaints torn_fields(const File& header) {
  Complaints complaints;
  const std::vector<std::string_view> lines = lines_of(header.text);
  for (std::size_t i = 0; i + 1 < lines.size(); ++i) {
    const bool torn = lines[i].ends_with(" =") &&
                      lines[i + 1].find(";  ") != std::string_view::npos &&
                      lines[i + 1].find("//") != std::string_view::npos;
    if (torn) complaints.push_back(at(header, i) + "write the field's comment above it");
  }
  return complaints;
}

Complaints dead_declarations(const std::vector<File>& files,
                             const std::map<std::string, std::string>& allowed) {
  std::map<std::string, Reader::Place> of_product;
  std::map<std::string, Reader::Place> of_others;
  std::set<std::string> used;
  for (const File& file : files) {
    Reader(file).read(is_product_header(file.path) ? of_product : of_others, used);
  }
  Complaints complaints;
  for (const auto& [name, place] : of_product) {
    if (used.contains(name) || allowed.contains(name)) continue;
    complaints.push_back(at({place.first, ""}, place.second) + "nothing names " + name +
                         " but its declaration; remove it");
  }
  for (const auto& [name, user] : allowed) {
    if (!of_product.contains(name) || used.contains(name)) {
      complaints.push_back(name + " needs no exception (" + user + ")");
    }
  }
  return complaints;
}

}  // namespace lockstep::tidy
