// A TOML file as a tree of plain values that remember where they were written, and the changes a
// scenario makes to such a tree: variants, settings, per-rank overrides.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep {

struct TomlField;

/// One value of a document. Tables keep the order of the file. Copies are made by `copy_of`, which
/// needs no recursion however deep a file nests its tables.
struct TomlNode {
  TomlNode() = default;
  ~TomlNode() = default;
  TomlNode(TomlNode&&) = default;
  TomlNode& operator=(TomlNode&&) = default;
  TomlNode(const TomlNode&) = delete;
  TomlNode& operator=(const TomlNode&) = delete;

  enum class Kind : std::uint8_t { kTable, kArray, kString, kInteger, kFloat, kBool, kDate };

  Kind kind = Kind::kTable;
  bool flag = false;
  std::int64_t integer = 0;
  double number = 0.0;            ///< kFloat; integers are converted, so a number is always here.
  std::string text;               ///< kString.
  std::vector<TomlNode> items;    ///< kArray.
  std::vector<TomlField> fields;  ///< kTable.
  std::string where;              ///< "lesson.toml:7:3", or "--set model.kind".

  bool is_table() const { return kind == Kind::kTable; }

  bool is_array() const { return kind == Kind::kArray; }

  bool is_number() const { return kind == Kind::kInteger || kind == Kind::kFloat; }

  const TomlNode* find(std::string_view key) const;
  TomlNode* find(std::string_view key);
};

/// A key with its value. `where` is the key's own place: an unknown key is reported there.
struct TomlField {
  std::string key;
  std::string where;
  TomlNode value;
};

TomlNode copy_of(const TomlNode& node);

/// "a table", "an array", "a string", ...: for messages.
std::string_view describe(TomlNode::Kind kind);

/// Parses `text`. Errors: the parser's sentence at "path:line:column".
Result<TomlNode> parse_toml(const std::string& text, const std::string& path);
/// Reads and parses a file. Errors: also a file that cannot be read.
Result<TomlNode> read_toml(const std::string& path);

/// Puts `changes` over `base`: tables merge, arrays and scalars replace.
void merge_into(TomlNode& base, const TomlNode& changes);
/// Removes the value at dotted `path`. Errors: nothing is there; where = `where`.
Outcome remove_at(TomlNode& base, std::string_view path, const std::string& where);
/// Sets the value at dotted `path`, making tables on the way; a number steps into an array.
/// Errors: the path runs through a value that is not a table, or beyond an array; where = the
///     value's.
Outcome set_at(TomlNode& base, std::string_view path, TomlNode value);
/// The value of `--set path=text`: TOML when it parses, otherwise the bare word as a string.
TomlNode setting_value(const std::string& path, const std::string& text);

}  // namespace lockstep
