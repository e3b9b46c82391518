// Whose turn it is: all ranks by their states, and the strategy's choice among what may happen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/sim/fiber/detail/enabled_actions.h"
#include "lockstep/sim/fiber/detail/rank_slot.h"

namespace lockstep::sim {

/// Chooses only: the scheduler switches.
class Turns {
 public:
  /// A new world. No rank is ready yet.
  void start(Strategy& strategy, std::int32_t n_ranks);

  std::int32_t n_ranks() const { return static_cast<std::int32_t>(slots_.size()); }

  /// Requires: such a rank exists.
  RankSlot& slot(Rank rank);
  const RankSlot& slot(Rank rank) const;

  std::vector<RankSlot>& slots() { return slots_; }

  const std::vector<RankSlot>& slots() const { return slots_; }

  EnabledActions& actions() { return actions_; }

  /// Offers an action that is not a resumption. Requires: its id is free, and none of a resumption.
  void enable(const ActionTable::Entry& entry);

  /// Offers the rank's resumption to the strategy.
  void make_ready(RankControl& rank, const Point& next) {
    rank.state = RankState::kReady;
    actions_.enable(Action{.id = resume_id(rank.rank),
                           .kind = ActionKind::kResume,
                           .rank = rank.rank,
                           .footprint = next.object,
                           .polls = next.kind == PointKind::kWait});
  }

  /// The strategy's next action: a rank to switch to; null when the main context must act, or when
  /// the strategy broke its contract. It is not asked again after that.
  RankSlot* choose();

  /// The rank that choose() will probably return after `ahead` other calls; null: cannot be said.
  const RankSlot* expected(std::size_t ahead) const;

  /// Whether take_breach() has something to say.
  bool has_breach() const { return breach_.has_value(); }

  /// What the strategy did wrong, once. Requires: has_breach().
  std::string take_breach();

  /// Without a strategy to ask: the first rank that is ready. Null: none is.
  RankSlot* any_ready();

  /// The rank that runs; for messages, since it takes a search.
  std::optional<Rank> running() const;

  /// How many actions were chosen.
  std::uint64_t n_choices() const { return n_choices_; }

 private:
  RankSlot* refuse(ActionId id);

  std::vector<RankSlot> slots_;
  EnabledActions actions_;
  std::uint64_t n_choices_ = 0;
  std::optional<std::string> breach_;
};

inline const RankSlot* Turns::expected(std::size_t ahead) const {
  const auto number = static_cast<std::uint64_t>(actions_.expected(ahead));
  return number < slots_.size() ? &slots_[number] : nullptr;
}

// Here, because it is asked at every point: a call less.
inline RankSlot* Turns::choose() {
  if (!actions_.any() || actions_.has_taken()) return nullptr;
  if (actions_.is_dismissed()) return any_ready();
  const ActionId id = actions_.ask();
  const auto number = static_cast<std::uint64_t>(id);
  if (number < slots_.size() && slots_[number].control().state == RankState::kReady) {
    ++n_choices_;
    actions_.take_resumption();
    return &slots_[number];
  }
  if (!actions_.take(id)) return refuse(id);
  ++n_choices_;
  return nullptr;
}

}  // namespace lockstep::sim
