// Which ranks share a wrapper, where wrappers reduce over parts of the world.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
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

}  // namespace lockstep::laws
