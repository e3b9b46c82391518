// Documents as text.
#include <algorithm>
#include <array>
#include <cmath>

#include "lockstep/base/check.h"
#include "lockstep/base/text.h"
#include "lockstep/harness/format/document.h"

namespace lockstep {
namespace {

/// Longer tables of the top level are sections.
constexpr std::size_t kLongestLine = 120;

bool is_bare_letter(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
         (letter >= '0' && letter <= '9') || letter == '_' || letter == '-';
}

std::string written_key(const std::string& key) {
  const bool bare = !key.empty() && std::all_of(key.begin(), key.end(), is_bare_letter);
  return bare ? key : toml_string(key);
}

/// TOML distinguishes integers from floats by how they are written.
std::string written_number(double value) {
  if (std::isnan(value)) return "nan";
  std::string text = exact(value);
  const bool looks_whole = text.find_first_of(".einf") == std::string::npos;
  return looks_whole ? text + ".0" : text;
}

std::string written_scalar(const TomlNode& node) {
  switch (node.kind) {
    case TomlNode::Kind::kString:
      return toml_string(node.text);
    case TomlNode::Kind::kInteger:
      return std::to_string(node.integer);
    case TomlNode::Kind::kFloat:
      return written_number(node.number);
    case TomlNode::Kind::kBool:
      return node.flag ? "true" : "false";
    default:
      break;
  }
  LOCKSTEP_CHECK(false, "a scenario has no dates");
  return {};
}

/// A value on one line, with a list of open tables and arrays instead of recursion.
class InlineText {
 public:
  explicit InlineText(const TomlNode& root) {
    begin(root);
    while (!open_.empty()) step();
  }

  std::string take() { return std::move(text_); }

 private:
  struct Open {
    const TomlNode* node;
    std::size_t next;
  };

  void begin(const TomlNode& node) {
    if (!node.is_table() && !node.is_array()) {
      text_ += written_scalar(node);
      return;
    }
    text_ += node.is_table() ? "{ " : "[";
    open_.push_back({&node, 0});
  }

  /// The next child of the innermost open value, or its end.
  void step() {
    const TomlNode& node = *open_.back().node;
    const std::size_t i = open_.back().next++;
    const std::size_t size = node.is_table() ? node.fields.size() : node.items.size();
    if (i == size) {
      text_ += node.is_table() ? " }" : "]";
      open_.pop_back();
      return;
    }
    if (i > 0) text_ += ", ";
    if (node.is_table()) text_ += written_key(node.fields[i].key) + " = ";
    begin(node.is_table() ? node.fields[i].value : node.items[i]);
  }

  std::string text_;
  std::vector<Open> open_;
};

std::string written_inline(const TomlNode& root) { return InlineText(root).take(); }

/// An array whose items are tables has each on its own line.
std::string written_value(const TomlNode& node) {
  std::string text = written_inline(node);
  const bool lists_tables = node.is_array() && !node.items.empty() && node.items[0].is_table();
  if (!lists_tables || text.size() <= kLongestLine) return text;
  text = "[\n";
  for (const TomlNode& item : node.items) text += "  " + written_inline(item) + ",\n";
  return text + "]";
}

}  // namespace

std::string toml_string(const std::string& text) {
  constexpr std::array<char, 16> kDigits = {
      '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'};
  std::string result = "\"";
  for (const char letter : text) {
    const auto code = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') {
      result += '\\';
      result += letter;
    } else if (letter == '\n') {
      result += "\\n";
    } else if (code < 0x20 || code == 0x7f) {
      result += "\\u00";
      result += kDigits.at(code >> 4U);
      result += kDigits.at(code & 15U);
    } else {
      result += letter;
    }
  }
  return result + "\"";
}

std::string render_toml(const TomlNode& document) {
  std::string text;
  std::string sections;
  for (const TomlField& field : document.fields) {
    const std::string key = written_key(field.key);
    const std::string line = key + " = " + written_value(field.value) + "\n";
    if (!field.value.is_table() || line.size() <= kLongestLine) {
      text += line;
      continue;
    }
    sections += "\n[" + key + "]\n";
    for (const TomlField& inner : field.value.fields) {
      sections += written_key(inner.key) + " = " + written_value(inner.value) + "\n";
    }
  }
  return text + sections;
}

}  // namespace lockstep
