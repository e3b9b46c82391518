#include "lockstep/sim/fiber/detail/turns.h"

#include <algorithm>
#include <fmt/core.h>
#include <utility>

#include "lockstep/base/check.h"

namespace lockstep::sim {

namespace {

void check_rank(Rank rank, std::size_t n_ranks) {
  LOCKSTEP_CHECK(to_index(rank) < n_ranks,
                 fmt::format("no rank {} in this world: it has {} ranks", to_int(rank), n_ranks));
}

}  // namespace

void Turns::start(Strategy& strategy, std::int32_t n_ranks) {
  const auto n = static_cast<std::size_t>(n_ranks);
  // A slot never moves: its files point to it.
  if (slots_.size() != n) slots_ = std::vector<RankSlot>(n);
  for (std::size_t i = 0; i < n; ++i) {
    slots_[i].control() = RankControl{};
    slots_[i].control().rank = static_cast<Rank>(i);
  }
  n_choices_ = 0;
  breach_.reset();
  actions_.start(strategy, n_ranks);
}

RankSlot& Turns::slot(Rank rank) {
  check_rank(rank, slots_.size());
  return slots_[to_index(rank)];
}

const RankSlot& Turns::slot(Rank rank) const {
  check_rank(rank, slots_.size());
  return slots_[to_index(rank)];
}

void Turns::enable(const ActionTable::Entry& entry) {
  LOCKSTEP_CHECK(static_cast<std::uint64_t>(entry.action.id) >= slots_.size(),
                 "the ids below the world size are those of resumptions");
  actions_.enable(entry);
}

// The strategy is not asked again.
RankSlot* Turns::refuse(ActionId id) {
  actions_.dismiss();
  breach_ = "strategy " + actions_.describe_strategy() + " picked action " +
            std::to_string(static_cast<std::uint64_t>(id)) + ", which is not enabled";
  return nullptr;
}

std::string Turns::take_breach() {
  LOCKSTEP_CHECK(has_breach(), "the strategy has kept its contract");
  return *std::exchange(breach_, std::nullopt);
}

RankSlot* Turns::any_ready() {
  for (RankSlot& slot : slots_) {
    if (slot.control().state == RankState::kReady) {
      actions_.take_resumption();
      return &slot;
    }
  }
  return nullptr;
}

std::optional<Rank> Turns::running() const {
  const auto found = std::find_if(slots_.begin(), slots_.end(), [](const RankSlot& slot) {
    return slot.control().state == RankState::kRunning;
  });
  return found == slots_.end() ? std::nullopt : std::optional(found->rank());
}

}  // namespace lockstep::sim
