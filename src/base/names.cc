#include "lockstep/base/names.h"

namespace lockstep {

NameTable::NameTable() {
  intern("");
  intern_layout({});
}

NameId NameTable::intern(std::string_view text) {
  if (const auto known = ids_.find(text); known != ids_.end()) return known->second;
  const auto id = static_cast<NameId>(texts_.size());
  texts_.emplace_back(text);
  ids_.emplace(texts_.back(), id);
  return id;
}

LayoutId NameTable::intern_layout(std::span<const NameId> names) {
  std::vector<NameId> list(names.begin(), names.end());
  if (const auto known = layout_ids_.find(list); known != layout_ids_.end()) return known->second;
  const auto id = static_cast<LayoutId>(layouts_.size());
  layouts_.push_back(list);
  layout_ids_.emplace(std::move(list), id);
  return id;
}

}  // namespace lockstep
