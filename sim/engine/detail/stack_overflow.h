// Says so when a rank runs out of stack, instead of a bare signal.
#pragma once

#include <cstdint>

#include "lockstep/sim/engine/detail/stacks.h"

namespace lockstep::sim {

/// While it lives, a fault of a rank on this thread beyond its stack prints which rank it was and
/// which option helps, and ends the process with code 1. Any other fault of a rank prints the rank
/// and the address; then the signal takes its course, for those who want its core. A process with a
/// handler of its own for SIGSEGV keeps that one.
///
/// A rank that calls exit() would have the thread's memory freed while it stands on it: the process
/// ends with a line that says so, and code 1.
class StackOverflow {
 public:
  /// They answer in a signal handler: they only read.
  class Owners {
   public:
    virtual ~Owners() = default;
    /// The stack that this thread stands on, -1: its own.
    virtual std::int32_t running() const = 0;
    virtual std::int32_t rank_of(std::int32_t stack) const = 0;
  };

  StackOverflow(const Stacks& stacks, const Owners& owners);
  ~StackOverflow();
  StackOverflow(const StackOverflow&) = delete;
  StackOverflow& operator=(const StackOverflow&) = delete;
  StackOverflow(StackOverflow&&) = delete;
  StackOverflow& operator=(StackOverflow&&) = delete;

  /// For stacks without a guard page: the same, since another rank's stack is damaged already.
  [[noreturn]] static void end(std::int32_t rank, std::size_t bytes);

 private:
  friend class OverflowHandler;

  /// Says what the fault of a rank at `address` means, the rank's stack pointer being `top` (0: not
  /// known).
  /// Returns: whether it was one.
  bool explain(const void* address, std::uintptr_t top) const;

  const Stacks* stacks_;
  const Owners* owners_;
  StackOverflow* next_;
};

}  // namespace lockstep::sim
