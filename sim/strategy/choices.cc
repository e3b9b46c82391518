#include "lockstep/sim/strategy/detail/choices.h"

#include <algorithm>

namespace lockstep::sim {

namespace {

bool contains(const std::vector<Tried>& list, ActionId id) {
  return std::any_of(list.begin(), list.end(), [id](const Tried& tried) { return tried.id == id; });
}

bool contains(const std::vector<ActionId>& list, ActionId id) {
  return std::find(list.begin(), list.end(), id) != list.end();
}

}  // namespace

bool Choice::is_asleep(ActionId id) const { return contains(asleep, id); }

bool Choice::was_tried(ActionId id) const { return id == picked || contains(done, id); }

void Choice::want(ActionId id) {
  if (was_tried(id) || is_asleep(id) || contains(wanted, id)) return;
  if (contains(enabled, id)) {
    wanted.push_back(id);
    return;
  }
  // It needs others first that are enabled here: let all of them go.
  for (const ActionId other : enabled) {
    if (!was_tried(other) && !is_asleep(other) && !contains(wanted, other)) wanted.push_back(other);
  }
}

Choice& Choices::append() {
  if (size_ == choices_.size()) choices_.emplace_back();
  Choice& choice = choices_[size_++];
  choice.enabled.clear();
  choice.wanted.clear();
  choice.done.clear();
  choice.asleep.clear();
  choice.touched.clear();
  choice.before.clear();
  choice.enabled_by = -1;
  choice.floor = 0;
  return choice;
}

void Choices::inherit_sleep() {
  if (size_ < 2) return;
  Choice& choice = last();
  const Choice& previous = choices_[size_ - 2];
  for (const std::vector<Tried>* list : {&previous.asleep, &previous.done}) {
    for (const Tried& tried : *list) {
      if (!tried.touched.conflicts_with(previous.touched)) choice.asleep.push_back(tried);
    }
  }
}

bool Choices::conflict(std::size_t i, std::size_t j) const {
  return choices_[i].picked == choices_[j].picked ||
         choices_[i].touched.conflicts_with(choices_[j].touched);
}

void Choices::look_for_races(std::size_t j) {
  Choice& choice = choices_[j];
  choice.before.assign(j / 64 + 1, 0);
  const auto put_after = [&](std::size_t i) {
    const std::vector<std::uint64_t>& theirs = choices_[i].before;
    for (std::size_t w = 0; w < theirs.size(); ++w) choice.before[w] |= theirs[w];
    choice.before[i / 64] |= std::uint64_t{1} << (i % 64);
  };
  for (std::size_t i = 0; i < choice.floor; ++i) put_after(i);
  if (choice.enabled_by >= 0) put_after(static_cast<std::size_t>(choice.enabled_by));
  // From the latest on, so that what stands between two choices is known before the earlier one.
  for (std::size_t i = j; i-- > choice.floor;) {
    if (choice.comes_after(i) || !conflict(i, j)) continue;
    put_after(i);
    if (choices_[i].picked != choice.picked) reverse(i, j);
  }
}

// Whether `id`'s action at place k of `moved_` depends on none that moves before it.
bool Choices::is_first(ActionId id, std::size_t k) {
  const Choice& choice = choices_[moved_[k]];
  for (std::size_t m = 0; m < k; ++m) {
    if (choices_[moved_[m]].picked == id || choice.comes_after(moved_[m])) return false;
  }
  return true;
}

// Choices i and j race: what does not need i may run before it, and then j does too.
void Choices::reverse(std::size_t i, std::size_t j) {
  moved_.clear();
  for (std::size_t k = i + 1; k < j; ++k) {
    if (!choices_[k].comes_after(i)) moved_.push_back(k);
  }
  moved_.push_back(j);
  Choice& place = choices_[i];
  firsts_.clear();
  for (std::size_t k = 0; k < moved_.size(); ++k) {
    const ActionId id = choices_[moved_[k]].picked;
    if (!is_first(id, k)) continue;
    // Whichever of these runs first, the others can follow.
    if (place.was_tried(id) || place.is_asleep(id) || contains(place.wanted, id)) return;
    firsts_.push_back(id);
  }
  if (!firsts_.empty()) place.want(firsts_.front());
}

}  // namespace lockstep::sim
