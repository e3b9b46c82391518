// The choices of one run and what is known about their alternatives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/sim/fiber/action.h"
#include "lockstep/sim/strategy/detail/touched.h"

namespace lockstep::sim {

/// An action and what it touched when it ran from here.
struct Tried {
  ActionId id{};
  Touched touched;
};

/// One choice, and the action that was picked.
struct Choice {
  std::vector<ActionId> enabled;
  std::vector<ActionId> wanted;  ///< Enabled alternatives that must run.
  std::vector<Tried> done;       ///< Those that ran.
  std::vector<Tried> asleep;     ///< Those whose runs from here would repeat others.
  ActionId picked{};
  Touched touched;
  std::int64_t enabled_by = -1;       ///< The choice whose action enabled the picked one.
  std::size_t floor = 0;              ///< Time passed: all choices below come before this one.
  std::vector<std::uint64_t> before;  ///< Bits: the choices that come before this one in any order.

  bool comes_after(std::size_t i) const {
    return i / 64 < before.size() && (before[i / 64] >> (i % 64) & 1U) != 0;
  }

  bool is_asleep(ActionId id) const;
  bool was_tried(ActionId id) const;
  /// Makes sure that `id` runs from here one day.
  void want(ActionId id);
};

/// The choices of a run, in order. Memory of longer runs is kept for later ones.
class Choices {
 public:
  std::size_t size() const { return size_; }

  Choice& operator[](std::size_t i) { return choices_[i]; }

  const Choice& operator[](std::size_t i) const { return choices_[i]; }

  Choice& last() { return choices_[size_ - 1]; }

  /// Requires: the size is larger than n.
  void cut(std::size_t n) { size_ = n; }

  Choice& append();
  /// Puts to sleep, before the last choice, what the ones above have tried or put to sleep and what
  /// its predecessor's action does not touch.
  void inherit_sleep();
  /// Orders choice j against all earlier ones and wants the reversal of each race it ends.
  void look_for_races(std::size_t j);

 private:
  void reverse(std::size_t i, std::size_t j);
  bool is_first(ActionId id, std::size_t k);
  bool conflict(std::size_t i, std::size_t j) const;

  std::vector<Choice> choices_;
  std::size_t size_ = 0;
  std::vector<std::size_t> moved_;  // What would run earlier, of the race at hand.
  std::vector<ActionId> firsts_;
};

}  // namespace lockstep::sim
