#include "lockstep/harness/format/toml_document.h"

#include <algorithm>
#include <toml++/toml.h>

#include "lockstep/base/disk_files.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

std::string place(const std::string& path, const toml::source_position& at) {
  return path + ":" + std::to_string(at.line) + ":" + std::to_string(at.column);
}

void read_scalar(const toml::node& from, TomlNode& to) {
  if (const auto* text = from.as_string()) {
    to.kind = TomlNode::Kind::kString;
    to.text = text->get();
  } else if (const auto* integer = from.as_integer()) {
    to.kind = TomlNode::Kind::kInteger;
    to.integer = integer->get();
    to.number = static_cast<double>(to.integer);
  } else if (const auto* number = from.as_floating_point()) {
    to.kind = TomlNode::Kind::kFloat;
    to.number = number->get();
  } else if (const auto* flag = from.as_boolean()) {
    to.kind = TomlNode::Kind::kBool;
    to.flag = flag->get();
  } else {
    to.kind = TomlNode::Kind::kDate;
  }
}

/// The parser keeps tables sorted by key; people read them in the order of the file.
std::vector<std::pair<const toml::key*, const toml::node*>> in_file_order(
    const toml::table& table) {
  std::vector<std::pair<const toml::key*, const toml::node*>> entries;
  entries.reserve(table.size());
  for (auto&& [key, value] : table) entries.emplace_back(&key, &value);
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    const toml::source_position left = a.first->source().begin;
    const toml::source_position right = b.first->source().begin;
    return left.line != right.line ? left.line < right.line : left.column < right.column;
  });
  return entries;
}

/// Copies the parser's tree with a list of open nodes instead of recursion. Children are made
/// before their addresses are taken, so no vector moves while one of them is open.
TomlNode convert(const toml::table& root, const std::string& path) {
  TomlNode result;
  std::vector<std::pair<const toml::node*, TomlNode*>> open = {{&root, &result}};
  while (!open.empty()) {
    const auto [from, to] = open.back();
    open.pop_back();
    to->where = place(path, from->source().begin);
    if (const toml::table* table = from->as_table()) {
      to->kind = TomlNode::Kind::kTable;
      const auto entries = in_file_order(*table);
      for (const auto& [key, value] : entries) {
        to->fields.push_back({std::string(key->str()), place(path, key->source().begin), {}});
      }
      for (std::size_t i = 0; i < entries.size(); ++i) {
        open.emplace_back(entries[i].second, &to->fields[i].value);
      }
    } else if (const toml::array* array = from->as_array()) {
      to->kind = TomlNode::Kind::kArray;
      to->items.resize(array->size());
      for (std::size_t i = 0; i < array->size(); ++i)
        open.emplace_back(array->get(i), &to->items[i]);
    } else {
      read_scalar(*from, *to);
    }
  }
  return result;
}

/// One step of a dotted path: the child of a table, or the numbered item of an array.
TomlNode* child(TomlNode& node, std::string_view key) {
  if (node.is_table()) return node.find(key);
  const auto index = parse_int(key);
  if (!node.is_array() || !index || *index < 0) return nullptr;
  const auto i = static_cast<std::size_t>(*index);
  return i < node.items.size() ? &node.items[i] : nullptr;
}

std::string suggestion_among(const TomlNode& node, std::string_view key) {
  std::vector<std::string_view> keys;
  for (const TomlField& field : node.fields) keys.push_back(field.key);
  return did_you_mean(key, keys);
}

}  // namespace

const TomlNode* TomlNode::find(std::string_view key) const {
  for (const TomlField& field : fields) {
    if (field.key == key) return &field.value;
  }
  return nullptr;
}

TomlNode* TomlNode::find(std::string_view key) {
  for (TomlField& field : fields) {
    if (field.key == key) return &field.value;
  }
  return nullptr;
}

TomlNode copy_of(const TomlNode& node) {
  TomlNode copy;
  std::vector<std::pair<const TomlNode*, TomlNode*>> open = {{&node, &copy}};
  while (!open.empty()) {
    const auto [from, to] = open.back();
    open.pop_back();
    to->kind = from->kind;
    to->flag = from->flag;
    to->integer = from->integer;
    to->number = from->number;
    to->text = from->text;
    to->where = from->where;
    to->items.resize(from->items.size());
    to->fields.resize(from->fields.size());
    for (std::size_t i = 0; i < from->items.size(); ++i) {
      open.emplace_back(&from->items[i], &to->items[i]);
    }
    for (std::size_t i = 0; i < from->fields.size(); ++i) {
      to->fields[i].key = from->fields[i].key;
      to->fields[i].where = from->fields[i].where;
      open.emplace_back(&from->fields[i].value, &to->fields[i].value);
    }
  }
  return copy;
}

std::string_view describe(TomlNode::Kind kind) {
  switch (kind) {
    case TomlNode::Kind::kTable:
      return "a table";
    case TomlNode::Kind::kArray:
      return "an array";
    case TomlNode::Kind::kString:
      return "a string";
    case TomlNode::Kind::kInteger:
      return "an integer";
    case TomlNode::Kind::kFloat:
      return "a number";
    case TomlNode::Kind::kBool:
      return "true or false";
    case TomlNode::Kind::kDate:
      return "a date";
  }
  return "a value";
}

Result<TomlNode> parse_toml(const std::string& text, const std::string& path) {
  try {
    return convert(toml::parse(text, path), path);
  } catch (const toml::parse_error& error) {
    std::string message(error.description());
    if (!message.empty() && message.back() == '.') message.pop_back();
    return Error{"malformed TOML: " + printable(message), place(path, error.source().begin)};
  }
}

Result<TomlNode> read_toml(const std::string& path) {
  const Result<std::string> text = read_file(path);
  if (!text.ok()) return text.error();
  return parse_toml(text.value(), path);
}

void merge_into(TomlNode& base, const TomlNode& changes) {
  std::vector<std::pair<TomlNode*, const TomlNode*>> open = {{&base, &changes}};
  while (!open.empty()) {
    const auto [to, from] = open.back();
    open.pop_back();
    // All insertions of a level happen before addresses of its children are taken.
    for (const TomlField& field : from->fields) {
      if (to->find(field.key) == nullptr) to->fields.push_back({field.key, field.where, {}});
    }
    for (const TomlField& field : from->fields) {
      TomlNode& target = *to->find(field.key);
      const bool merges = target.is_table() && field.value.is_table() && !target.where.empty();
      if (merges) {
        open.emplace_back(&target, &field.value);
      } else {
        target = copy_of(field.value);
      }
    }
  }
}

Outcome remove_at(TomlNode& base, std::string_view path, const std::string& where) {
  TomlNode* node = &base;
  const std::vector<std::string_view> keys = split(path, '.');
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (child(*node, keys[i]) == nullptr) {
      return Error{printable("nothing to unset at '" + std::string(path) + "'" +
                             suggestion_among(*node, keys[i])),
                   where};
    }
    if (i + 1 < keys.size()) node = child(*node, keys[i]);
  }
  if (!node->is_table()) return Error{"an item of an array cannot be unset", where};
  std::erase_if(node->fields, [&](const TomlField& field) { return field.key == keys.back(); });
  return success();
}

Outcome set_at(TomlNode& base, std::string_view path, TomlNode value) {
  TomlNode* node = &base;
  for (const std::string_view key : split(path, '.')) {
    TomlNode* next = child(*node, key);
    if (next == nullptr) {
      if (!node->is_table()) {
        return Error{"'" + std::string(path) + "' leads through " +
                         std::string(describe(node->kind)) + " that has no '" + std::string(key) +
                         "'",
                     value.where};
      }
      node->fields.push_back({std::string(key), value.where, {}});
      next = &node->fields.back().value;
      next->where = value.where;
    }
    node = next;
  }
  *node = std::move(value);
  return success();
}

TomlNode setting_value(const std::string& path, const std::string& text) {
  const std::string where = "--set " + path;
  TomlNode value;
  value.kind = TomlNode::Kind::kString;
  value.text = text;
  Result<TomlNode> parsed = parse_toml("value = " + text, where);
  // A setting that smuggles in a second line is a string, not more TOML.
  if (parsed.ok() && parsed.value().fields.size() == 1)
    value = std::move(parsed.value().fields[0].value);
  std::vector<TomlNode*> open = {&value};
  while (!open.empty()) {
    TomlNode* node = open.back();
    open.pop_back();
    node->where = where;
    for (TomlNode& item : node->items) open.push_back(&item);
    for (TomlField& field : node->fields) {
      field.where = where;
      open.push_back(&field.value);
    }
  }
  return value;
}

}  // namespace lockstep
