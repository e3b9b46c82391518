// Says so when a rank runs out of stack, instead of a bare signal.
#pragma once

#include <cstdint>

#include "lockstep/sim/fiber/detail/stacks.h"

namespace lockstep::sim {

/// While it lives, a fault in a guard page of these stacks, on this thread, prints which rank it was
/// and which option helps; then the signal takes its course. A process with a handler of its own for
/// SIGSEGV keeps that one.
///
/// A rank that calls exit() would have the thread's memory freed while it stands on it: the process
/// ends with a line that says so, and code 1.
class StackOverflow {
 public:
  /// `rank_of` answers in a signal handler: it only reads.
  class Owners {
   public:
    virtual ~Owners() = default;
    virtual std::int32_t rank_of(std::int32_t stack) const = 0;
  };

  StackOverflow(const Stacks& stacks, const Owners& owners);
  ~StackOverflow();
  StackOverflow(const StackOverflow&) = delete;
  StackOverflow& operator=(const StackOverflow&) = delete;
  StackOverflow(StackOverflow&&) = delete;
  StackOverflow& operator=(StackOverflow&&) = delete;

  /// For stacks without a guard page: prints the same and ends the process, since another rank's
  /// stack is damaged already.
  [[noreturn]] static void end(std::int32_t rank, std::size_t bytes);

 private:
  friend class OverflowHandler;

  const Stacks* stacks_;
  const Owners* owners_;
  StackOverflow* next_;
};

}  // namespace lockstep::sim
