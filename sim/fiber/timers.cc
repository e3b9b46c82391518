#include "lockstep/sim/fiber/detail/timers.h"

#include <algorithm>

namespace lockstep::sim {

namespace {

bool is_later(const Timers::Timer& a, const Timers::Timer& b) {
  return a.time != b.time ? a.time > b.time : a.number > b.number;
}

}  // namespace

void Timers::clear() {
  heap_.clear();
  n_daemons_ = 0;
  n_made_ = 0;
}

void Timers::push(Timer timer) {
  timer.number = n_made_++;
  if (timer.daemon) ++n_daemons_;
  heap_.push_back(timer);
  std::push_heap(heap_.begin(), heap_.end(), is_later);
}

Timers::Timer Timers::pop() {
  std::pop_heap(heap_.begin(), heap_.end(), is_later);
  const Timer timer = heap_.back();
  heap_.pop_back();
  if (timer.daemon) --n_daemons_;
  return timer;
}

}  // namespace lockstep::sim
