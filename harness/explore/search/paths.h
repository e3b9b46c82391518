// Places in a document, and what can be left out of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/harness/format/toml_document.h"

namespace lockstep::explore {

/// A place in a document: at each level the number of the field or item. It stays valid while
/// nothing in front of it is removed.
using Path = std::vector<std::size_t>;

/// One value of a document and where it is.
struct DocumentEntry {
  Path path;
  std::string name;      ///< Keys from the top, "loader.batches_by_rank.0.1"; items are numbers.
  std::string key;       ///< Its own key; of an item that of the array (of arrays) it is in.
  bool is_item = false;  ///< Of an array.
};

/// Every value but the document itself, parents before their children.
std::vector<DocumentEntry> entries_of(const TomlNode& document);

/// Requires: the place is in the document.
TomlNode& node_at(TomlNode& document, const Path& path);
const TomlNode& node_at(const TomlNode& document, const Path& path);

/// The document without these values. Requires: places of the document in the order of entries_of.
TomlNode without(const TomlNode& document, const std::vector<Path>& places);

/// The value at dotted `path`, or null.
const TomlNode* find_at(const TomlNode& document, std::string_view path);
TomlNode* find_at(TomlNode& document, std::string_view path);

TomlNode integer_node(std::int64_t value);
TomlNode number_node(double value);
TomlNode text_node(std::string text);
/// Sets the value at dotted `path`, making tables on the way. Requires: tables on the way.
void put(TomlNode& document, std::string_view path, TomlNode value);
/// Removes the value at dotted `path`, if there is one.
void drop(TomlNode& document, std::string_view path);

struct Size {
  std::int64_t leaves = 0;  ///< Scalars.
  std::int64_t sum = 0;     ///< Absolute values of its integers, capped.
};

Size size_of(const TomlNode& document);

}  // namespace lockstep::explore
