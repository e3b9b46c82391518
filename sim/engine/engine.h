// The seam over the fiber library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>

namespace lockstep::sim {

/// Runs functions on their own stacks, one at a time, switching only on request.
///
/// The engine knows nothing of ranks, time or strategies, so a different one (bare Boost.Context)
/// can be tried without touching anything else. C++ exception state belongs to the thread: the
/// engine saves and restores it around every switch, or two fibers that yield inside a `catch`
/// would rethrow each other's.
///
/// Errors: a fiber that switches with less than a page of stack left, and one that is used on another
///     thread, get a ContractViolation. One that reaches the end of its stack ends the process, with
///     a line that names its rank (stack_overflow.h).
class Engine {
 public:
  using Fiber = std::int32_t;  ///< Dense numbers from 0.
  static constexpr Fiber kMain = -1;

  virtual ~Engine() = default;
  /// Makes a fiber that will call body(fiber); it does not run yet. Finished fibers are reused,
  /// stack and all, the last one first.
  /// Requires: body does not throw.
  virtual Fiber create(std::function<void(Fiber)> body) = 0;
  /// What messages about the fiber call it: rank `rank`. It is its own number otherwise.
  virtual void name(Fiber fiber, std::int32_t rank) = 0;
  /// Continues `fiber`. From the main context: returns when a fiber switches back to it. From
  /// another fiber: a direct switch, one instead of two; returns when the caller is resumed itself.
  virtual void resume(Fiber fiber) = 0;
  /// Switches back to the main context. Requires: called from a fiber.
  virtual void suspend() = 0;
  /// Starts to load what a switch to `fiber` will read.
  virtual void prefetch(Fiber fiber) const = 0;
  virtual bool finished(Fiber fiber) const = 0;
  /// Whether the caller stands on the stack of the fiber that runs: false on another thread.
  virtual bool is_here() const = 0;
  /// Ends this set of fibers, keeps their stacks for the next. Fibers that have not finished are
  /// abandoned: nothing on their stacks is destroyed.
  virtual void destroy() = 0;
};

struct StackOptions {
  std::size_t bytes = std::size_t{64} * 1024;
  /// Fibers above this number have no guard page. Older kernels allow 16,384 at most.
  std::int32_t n_guarded = std::numeric_limits<std::int32_t>::max();
};

std::unique_ptr<Engine> make_boost_fiber_engine(const StackOptions& options);

/// Whether the caller runs on a fiber of any engine of this thread.
bool inside_fiber();

/// Inside a `catch (...)`: throws on what takes a fiber down, since it must reach the bottom of the
/// stack. Returns for every other exception.
void rethrow_unwinding();

}  // namespace lockstep::sim
