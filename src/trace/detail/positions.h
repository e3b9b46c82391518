// Where a rank is in its training: once per wrapper, and once for what happens outside of them.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/trace/event.h"

namespace lockstep::detail {

/// Wrappers are numbered from 0 in the order in which they are opened; -1 is outside of any.
class Positions {
 public:
  /// A new wrapper, which is the current one from now on: its number.
  std::int32_t open();

  std::int32_t n_wrappers() const { return static_cast<std::int32_t>(all_.size()) - 1; }

  /// Requires: -1 or the number of a wrapper.
  Position& of(std::int32_t wrapper) {
    if (wrapper < -1 || wrapper >= n_wrappers()) check(wrapper);
    return all_[static_cast<std::size_t>(wrapper) + 1];
  }

  void set_attempt(std::int32_t attempt);
  void set_epoch(std::int32_t epoch);

  /// The wrapper of the last forward; before the first one the youngest, -1 without any.
  std::int32_t current() const { return current_; }

  void note_forward(std::int32_t wrapper) { current_ = wrapper; }

  /// An optimizer step ended at this position.
  void note_step(const Position& at) { n_steps_outside_ += at.sync < 0 ? 1 : 0; }

  /// Which of the rotating parts of a tensor a step looks at. Ranks at one place have the same turn:
  /// a rank that skips a step stays comparable in `sync`, not in `opt`.
  std::int32_t turn(std::int32_t wrapper) const {
    const std::int32_t sync = all_[static_cast<std::size_t>(wrapper) + 1].sync;
    return sync < 0 ? n_steps_outside_ : sync;
  }

 private:
  void check(std::int32_t wrapper) const;  // Throws if there is none.

  std::vector<Position> all_ = std::vector<Position>(1);  // The first is outside.
  std::int32_t current_ = -1;
  std::int32_t n_steps_outside_ = 0;  // Optimizer steps that no synchronising forward precedes.
};

}  // namespace lockstep::detail
