// Where fibers were left, so that a switch to one can be prepared.
#pragma once

#include <cstddef>
#include <vector>

namespace lockstep::sim {

/// The frame of each fiber's last switch.
///
///     address
///     higher   frames of the rank that lead to the switch   read when it returns
///              frame of the switch                          noted here
///     lower    registers that Boost saves                   read when it is resumed
class LastFrames {
 public:
  void add() { frames_.push_back(nullptr); }

  /// Its next run begins with a fresh stack.
  void forget(std::size_t fiber) { frames_[fiber] = nullptr; }

  /// `frame` switches away from the fiber.
  void note(std::size_t fiber, const void* frame) {
    frames_[fiber] = static_cast<const std::byte*>(frame);
  }

  /// Starts to load what a switch to the fiber reads. `context`: Boost's, in which it looks up where
  /// the registers are. Nothing if the fiber has not run yet.
  void prefetch(std::size_t fiber, const void* context) const {
    const std::byte* const frame = frames_[fiber];
    if (frame == nullptr) return;
    for (std::ptrdiff_t line = kSavedBelow; line < kFramesAbove; line += kLine) {
      __builtin_prefetch(frame + line, 1);
    }
    __builtin_prefetch(static_cast<const std::byte*>(context) + kStackPointerIn, 1);
    // GCC 12 takes a function that only prefetches for one without effect, and removes calls of it.
    asm volatile("");
  }

 private:
  static constexpr std::ptrdiff_t kLine = 64;
  static constexpr std::ptrdiff_t kSavedBelow = -256;
  static constexpr std::ptrdiff_t kFramesAbove = 384;
  static constexpr std::size_t kStackPointerIn = 0xd0;  // Of Boost 1.74; elsewhere a load in vain.

  std::vector<const std::byte*> frames_;  // Null: not run yet.
};

}  // namespace lockstep::sim
