// What happens at later times, in a deterministic order.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "lockstep/base/types.h"

namespace lockstep::sim {

/// What timers call, by number; numbers are used again.
class TimerHandlers {
 public:
  std::int32_t keep(std::function<void()> handler);
  std::function<void()> take(std::int32_t number);
  void clear();

 private:
  std::vector<std::function<void()>> handlers_;
  std::vector<std::int32_t> free_;
};

/// A heap of timers; equal times come out in the order they went in.
class Timers {
 public:
  struct Timer {
    VirtualTime time;
    std::uint64_t number = 0;      ///< Order of creation.
    std::int32_t rank = -1;        ///< The sleeper to wake, or -1: `handler` is called.
    std::uint32_t generation = 0;  ///< Which of the rank's waits this one ends.
    std::int32_t handler = -1;
    bool daemon = false;
  };

  void clear();
  void push(Timer timer);

  bool empty() const { return heap_.empty(); }

  /// Only timers that do not keep a world alive are left.
  bool only_daemons() const { return n_daemons_ == heap_.size(); }

  const Timer& next() const { return heap_.front(); }

  Timer pop();

  TimerHandlers& handlers() { return handlers_; }

 private:
  std::vector<Timer> heap_;
  std::size_t n_daemons_ = 0;
  std::uint64_t n_made_ = 0;
  TimerHandlers handlers_;
};

}  // namespace lockstep::sim
