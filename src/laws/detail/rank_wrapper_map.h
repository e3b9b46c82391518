// A law's memory of each rank and wrapper: one value for all ranks as long as they are in step.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "lockstep/trace/cohort.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// A wrapper of one restart attempt.
struct WrapperKey {
  std::int32_t attempt = 0;
  std::int32_t wrapper = -1;
  friend auto operator<=>(const WrapperKey&, const WrapperKey&) = default;
};

inline WrapperKey wrapper_of(const Position& at) { return {at.attempt, at.wrapper}; }

/// A wrapper as one rank sees it.
struct RankWrapper {
  std::int32_t rank = 0;
  WrapperKey key;
  friend auto operator<=>(const RankWrapper&, const RankWrapper&) = default;
};

inline RankWrapper rank_wrapper_of(const Event& event) {
  return {to_int(event.rank), wrapper_of(event.at)};
}

/// Which ranks an event is from: one rank, or all the ranks [0, n) of a cohort.
struct RankRange {
  std::int32_t first = 0;
  std::int32_t n = 1;

  bool all() const { return n > 1; }

  bool contains(Rank rank) const { return to_int(rank) >= first && to_int(rank) < first + n; }
};

inline RankRange one_rank(const Event& event) { return {to_int(event.rank), 1}; }

inline RankRange all_ranks(const CohortEvent& event) { return {0, event.n_ranks()}; }

/// Adds a rank range to a list of ranks, or of their numbers.
template <typename Number>
void append(std::vector<Number>& ranks, RankRange who) {
  const std::size_t n_before = ranks.size();
  ranks.resize(n_before + static_cast<std::size_t>(who.n));  // At once: it grows once.
  std::int32_t rank = who.first;
  for (std::size_t i = n_before; i < ranks.size(); ++i) ranks[i] = static_cast<Number>(rank++);
}

/// Calls observe(event) for each rank's own event, by rank.
template <typename Observe>
void each(const CohortEvent& event, Observe observe) {
  Event own = *event.first;
  for (std::int32_t rank = 0; rank < event.n_ranks(); ++rank) {
    const CohortEvent::Arrival& arrival = event.arrivals[static_cast<std::size_t>(rank)];
    own.rank = Rank{rank};
    own.time = arrival.time;
    own.index = arrival.index;
    if (!event.equal()) own.body = event.body_of(rank);
    observe(static_cast<const Event&>(own));
  }
}

/// Calls observe(event, rank range): once for all ranks, or for each of them.
template <typename Observe>
void deliver(const CohortEvent& event, bool together, Observe observe) {
  if (together) return observe(*event.first, all_ranks(event));
  each(event, [&](const Event& own) { observe(own, one_rank(own)); });
}

/// A value for each rank and wrapper. While events come from all ranks at once, one value stands
/// for all of a wrapper's; the first event of a single rank separates them, for good.
///
/// The last value found for a rank is found again without a search: ranks seldom change their
/// wrapper.
template <typename T>
class RankWrapperMap {
 public:
  /// Requires: a single rank, or shares(key, who).
  T& at(WrapperKey key, RankRange who) {
    return who.all() ? of_all(key, who.n) : (*this)[{who.first, key}];
  }

  T& operator[](const RankWrapper& place) {
    T* value = recent(place);
    if (value == nullptr) {
      separate(place.key);
      value = note(*all_.try_emplace(place).first);
    }
    return *value;
  }

  /// Null when there is none. Requires: as at().
  T* find(WrapperKey key, RankRange who) {
    if (who.all()) return shared(key);
    const RankWrapper place{who.first, key};
    T* value = recent(place);
    if (value != nullptr) return value;
    if (shared_.contains(key)) separate(key);
    const auto known = all_.find(place);
    return known == all_.end() ? nullptr : note(*known);
  }

  T* find(const RankWrapper& place) { return find(place.key, {place.rank, 1}); }

  /// Whether these ranks share one value: always true of a single rank.
  bool shares(WrapperKey key, RankRange who) const {
    if (!who.all()) return true;
    const auto known = shared_.find(key);
    return known != shared_.end() ? known->second.n_ranks == who.n : !apart_.contains(key);
  }

  /// By rank; separates all ranks.
  std::map<RankWrapper, T>& all() {
    separate_all();
    return all_;
  }

  const std::map<RankWrapper, T>& all() const {
    separate_all();
    return all_;
  }

 private:
  struct Shared {
    std::int32_t n_ranks = 0;
    T value = {};
  };

  struct Recent {
    WrapperKey key;
    T* value = nullptr;  // Nodes of a map stay where they are.
  };

  static constexpr std::int32_t kMaxKept = 1 << 20;  // A file may name any rank.

  static std::size_t index(const RankWrapper& place) {
    return static_cast<std::size_t>(place.rank);
  }

  bool is_kept(const RankWrapper& place) const {
    return place.rank >= 0 && index(place) < recent_.size();
  }

  T* recent(const RankWrapper& place) const {
    if (!is_kept(place)) return nullptr;
    const Recent& last = recent_[index(place)];
    return last.key == place.key ? last.value : nullptr;
  }

  T* note(std::pair<const RankWrapper, T>& entry) {
    const RankWrapper& place = entry.first;
    if (place.rank >= 0 && place.rank < kMaxKept) {
      if (!is_kept(place)) recent_.resize(index(place) + 1);
      recent_[index(place)] = {place.key, &entry.second};
    }
    return &entry.second;
  }

  T* shared(WrapperKey key) {
    if (last_shared_ != nullptr && last_key_ == key) return last_shared_;
    const auto known = shared_.find(key);
    if (known == shared_.end()) return nullptr;
    last_key_ = key;
    last_shared_ = &known->second.value;
    return last_shared_;
  }

  T& of_all(WrapperKey key, std::int32_t n_ranks) {
    T* const known = shared(key);
    return known != nullptr ? *known
                            : shared_.try_emplace(key, Shared{n_ranks}).first->second.value;
  }

  void separate(WrapperKey key) const {
    apart_.insert(key);
    const auto known = shared_.find(key);
    if (known == shared_.end()) return;
    for (std::int32_t rank = 0; rank < known->second.n_ranks; ++rank) {
      all_.try_emplace(RankWrapper{rank, key}, known->second.value);
    }
    shared_.erase(known);
    last_shared_ = nullptr;
  }

  void separate_all() const {
    while (!shared_.empty()) separate(shared_.begin()->first);
  }

  // Telling ranks apart changes how values are kept, not what they are.
  mutable std::map<WrapperKey, Shared> shared_;
  mutable std::set<WrapperKey> apart_;  // Wrappers whose ranks have separate values.
  mutable std::map<RankWrapper, T> all_;
  std::vector<Recent> recent_;  // By rank.
  WrapperKey last_key_;
  mutable T* last_shared_ = nullptr;  // What shared_ holds at last_key_.
};

}  // namespace lockstep::laws
