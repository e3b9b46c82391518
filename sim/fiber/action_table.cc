#include "lockstep/sim/fiber/detail/action_table.h"

#include <utility>

#include "lockstep/base/check.h"

namespace lockstep::sim {

void ActionTable::clear() {
  entries_.assign(entries_.size(), Entry{});
  n_entries_ = 0;
}

std::size_t ActionTable::home(ActionId id) const {
  const std::uint64_t mixed = static_cast<std::uint64_t>(id) * 0x9e3779b97f4a7c15U;
  return static_cast<std::size_t>(mixed >> 32U) & (entries_.size() - 1);
}

std::size_t ActionTable::find(ActionId id) const {
  std::size_t i = home(id);
  while (entries_[i].used && entries_[i].action.id != id) i = (i + 1) & (entries_.size() - 1);
  return i;
}

void ActionTable::insert(const Entry& entry) {
  if ((n_entries_ + 1) * 2 > entries_.size()) grow();
  Entry& place = entries_[find(entry.action.id)];
  LOCKSTEP_CHECK(!place.used, "an action is enabled once at a time");
  place = entry;
  place.used = true;
  ++n_entries_;
}

ActionTable::Entry ActionTable::take(ActionId id) {
  std::size_t hole = find(id);
  const Entry taken = entries_[hole];
  entries_[hole].used = false;
  --n_entries_;
  // Later entries of the same run move up, or a search would stop at the hole.
  const std::size_t mask = entries_.size() - 1;
  for (std::size_t i = (hole + 1) & mask; entries_[i].used; i = (i + 1) & mask) {
    const std::size_t wanted = home(entries_[i].action.id);
    if (((i - wanted) & mask) < ((i - hole) & mask)) continue;
    entries_[hole] = entries_[i];
    entries_[i].used = false;
    hole = i;
  }
  return taken;
}

void ActionTable::grow() {
  std::vector<Entry> old(entries_.empty() ? 16 : entries_.size() * 2);
  std::swap(old, entries_);
  for (const Entry& entry : old) {
    if (entry.used) entries_[find(entry.action.id)] = entry;
  }
}

}  // namespace lockstep::sim
