// Enabled actions that are not resumptions, found by id.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/sim/fiber/world.h"

namespace lockstep::sim {

/// A hash table with open addressing: a collective is enabled and picked without touching the heap.
class ActionTable {
 public:
  struct Entry {
    Action action;
    ActionHandler* handler = nullptr;  ///< Null: a timer's handler, see `timer`.
    std::int32_t timer = -1;
    bool used = false;
  };

  void clear();

  bool contains(ActionId id) const { return n_entries_ > 0 && entries_[find(id)].used; }

  /// Requires: the id is free.
  void insert(const Entry& entry);
  /// Requires: contains(id).
  Entry take(ActionId id);

  std::size_t size() const { return n_entries_; }

 private:
  std::size_t home(ActionId id) const;
  std::size_t find(ActionId id) const;  // Its place, or the free one where it would go.
  void grow();

  std::vector<Entry> entries_;
  std::size_t n_entries_ = 0;
};

}  // namespace lockstep::sim
