#include "lockstep/harness/explore/search/paths.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "lockstep/base/text.h"

namespace lockstep::explore {
namespace {

std::size_t n_children(const TomlNode& node) {
  return node.is_table() ? node.fields.size() : node.items.size();
}

TomlNode& child(TomlNode& node, std::size_t i) {
  return node.is_table() ? node.fields[i].value : node.items[i];
}

const TomlNode& child(const TomlNode& node, std::size_t i) {
  return node.is_table() ? node.fields[i].value : node.items[i];
}

DocumentEntry child_of(const DocumentEntry& parent, const TomlNode& node, std::size_t i) {
  DocumentEntry place;
  place.path = parent.path;
  place.path.push_back(i);
  place.is_item = node.is_array();
  place.key = place.is_item ? parent.key : node.fields[i].key;
  const std::string step = place.is_item ? std::to_string(i) : place.key;
  place.name = parent.name.empty() ? step : parent.name + "." + step;
  return place;
}

}  // namespace

std::vector<DocumentEntry> entries_of(const TomlNode& document) {
  std::vector<DocumentEntry> places;
  std::vector<std::pair<DocumentEntry, const TomlNode*>> open = {{DocumentEntry{}, &document}};
  while (!open.empty()) {
    const auto [place, node] = std::move(open.back());
    open.pop_back();
    if (!place.path.empty()) places.push_back(place);
    // The last child is pushed first, so that the first one is visited next.
    for (std::size_t i = n_children(*node); i > 0; --i) {
      open.emplace_back(child_of(place, *node, i - 1), &child(*node, i - 1));
    }
  }
  return places;
}

TomlNode& node_at(TomlNode& document, const Path& path) {
  TomlNode* node = &document;
  for (const std::size_t i : path) node = &child(*node, i);
  return *node;
}

const TomlNode& node_at(const TomlNode& document, const Path& path) {
  const TomlNode* node = &document;
  for (const std::size_t i : path) node = &child(*node, i);
  return *node;
}

TomlNode without(const TomlNode& document, const std::vector<Path>& places) {
  TomlNode result = copy_of(document);
  // From the back: what is removed moves nothing in front of it.
  for (std::size_t i = places.size(); i > 0; --i) {
    const Path& path = places[i - 1];
    TomlNode& node = node_at(result, Path(path.begin(), path.end() - 1));
    const auto at = static_cast<std::ptrdiff_t>(path.back());
    if (node.is_table()) {
      node.fields.erase(node.fields.begin() + at);
    } else {
      node.items.erase(node.items.begin() + at);
    }
  }
  return result;
}

TomlNode* find_at(TomlNode& document, std::string_view path) {
  TomlNode* node = &document;
  for (const std::string_view key : split(path, '.')) {
    node = node->is_table() ? node->find(key) : nullptr;
    if (node == nullptr) return nullptr;
  }
  return node;
}

const TomlNode* find_at(const TomlNode& document, std::string_view path) {
  const TomlNode* node = &document;
  for (const std::string_view key : split(path, '.')) {
    node = node->is_table() ? node->find(key) : nullptr;
    if (node == nullptr) return nullptr;
  }
  return node;
}

TomlNode integer_node(std::int64_t value) {
  TomlNode node;
  node.kind = TomlNode::Kind::kInteger;
  node.integer = value;
  node.number = static_cast<double>(value);
  node.where = "a try of the shrinker";
  return node;
}

TomlNode number_node(double value) {
  TomlNode node;
  node.kind = TomlNode::Kind::kFloat;
  node.number = value;
  node.where = "a try of the shrinker";
  return node;
}

TomlNode text_node(std::string text) {
  TomlNode node;
  node.kind = TomlNode::Kind::kString;
  node.text = std::move(text);
  node.where = "a try of the shrinker";
  return node;
}

void put(TomlNode& document, std::string_view path, TomlNode value) {
  const Outcome set = set_at(document, path, std::move(value));
  static_cast<void>(set);  // A value in the way stays, and the reader refuses the document.
}

void drop(TomlNode& document, std::string_view path) {
  if (find_at(document, path) == nullptr) return;
  const Outcome removed = remove_at(document, path, "a try of the shrinker");
  static_cast<void>(removed);
}

Size size_of(const TomlNode& document) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40U;
  Size size;
  std::vector<const TomlNode*> open = {&document};
  while (!open.empty()) {
    const TomlNode* node = open.back();
    open.pop_back();
    for (std::size_t i = 0; i < n_children(*node); ++i) open.push_back(&child(*node, i));
    if (node->is_table() || node->is_array()) continue;
    ++size.leaves;
    if (node->kind != TomlNode::Kind::kInteger) continue;
    size.sum += std::abs(std::clamp(node->integer, -kMost, kMost));
  }
  return size;
}

}  // namespace lockstep::explore
