// Which ranks share a wrapper, where wrappers reduce over parts of the world.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// Gives wrappers over sub-groups numbers of their own. Positions number the wrappers of one rank;
/// ranks of two sub-groups each wrap their first model, and do not hold replicas of each other.
class Teams {
 public:
  static bool reads(const EventBody& body) {
    return std::holds_alternative<WrapEvent>(body) || std::holds_alternative<GroupEvent>(body);
  }

  void on_event(const Event& event, std::int32_t n_ranks) {
    const std::int32_t attempt = event.at.attempt;
    const std::int32_t rank = to_int(event.rank);
    if (const auto* group = std::get_if<GroupEvent>(&event.body)) {
      members_[{attempt, rank, group->group}].assign(group->members.begin(), group->members.end());
    } else if (const auto* wrap = std::get_if<WrapEvent>(&event.body)) {
      const auto members = members_.find({attempt, rank, wrap->group});
      const bool part = members != members_.end() && wrap->n_ranks < n_ranks;
      if (!part) return;
      const Team team{attempt, event.at.wrapper, members->second};
      const auto next = kFirst + static_cast<std::int32_t>(numbers_.size());
      numbers_of_[{attempt, rank, event.at.wrapper}] =
          numbers_.try_emplace(team, next).first->second;
    }
  }

  /// Whether any wrapper has a number of its own.
  bool any() const { return !numbers_.empty(); }

  std::int32_t wrapper_of(const Event& event) const {
    const auto known = numbers_of_.find({event.at.attempt, to_int(event.rank), event.at.wrapper});
    return known == numbers_of_.end() ? event.at.wrapper : known->second;
  }

 private:
  static constexpr std::int32_t kFirst = 1 << 20;

  using OfRank = std::tuple<std::int32_t, std::int32_t, std::int32_t>;  // Attempt, rank, number.
  using Team = std::tuple<std::int32_t, std::int32_t, std::vector<std::int32_t>>;

  std::map<OfRank, std::vector<std::int32_t>> members_;  // World ranks of a group.
  std::map<Team, std::int32_t> numbers_;
  std::map<OfRank, std::int32_t> numbers_of_;
};

/// Which ranks average gradients with one another. Ranks of two groups that train apart may be two
/// parts of one model, which have to do the same to what both have.
class Averaging {
 public:
  void on_event(const Event& event) {
    const std::pair<std::int32_t, std::int32_t> rank{event.at.attempt, to_int(event.rank)};
    if (const auto* group = std::get_if<GroupEvent>(&event.body)) {
      members_[{rank, group->group}].assign(group->members.begin(), group->members.end());
    } else if (const auto* wrap = std::get_if<WrapEvent>(&event.body)) {
      const auto members = members_.find({rank, wrap->group});
      const bool part = wrap->group != 0 && members != members_.end();
      if (part && wrap->n_ranks > 1) partners_[rank.second].insert(members->second);
      if (!part) everyone_.insert(rank.second);
    }
  }

  /// Whether both ranks have wrappers, and none that both of them average through.
  bool apart(std::int32_t a, std::int32_t b) const { return is_apart(a, b) && is_apart(b, a); }

 private:
  using Members = std::vector<std::int32_t>;

  bool is_apart(std::int32_t rank, std::int32_t other) const {
    const auto known = partners_.find(rank);
    if (known == partners_.end() || everyone_.contains(rank)) return false;
    return std::ranges::none_of(known->second, [&](const Members& members) {
      return std::ranges::find(members, other) != members.end();
    });
  }

  std::map<std::pair<std::pair<std::int32_t, std::int32_t>, std::int32_t>, Members> members_;
  std::map<std::int32_t, std::set<Members>> partners_;  // World ranks, by rank.
  std::set<std::int32_t> everyone_;                     // Ranks with a wrapper over the world.
};

}  // namespace lockstep::laws
