#include "lockstep/sim/fiber/detail/timers.h"

#include <algorithm>
#include <utility>

namespace lockstep::sim {

namespace {

bool is_later(const Timers::Timer& a, const Timers::Timer& b) {
  return a.time != b.time ? a.time > b.time : a.number > b.number;
}

}  // namespace

std::int32_t TimerHandlers::keep(std::function<void()> handler) {
  if (free_.empty()) {
    handlers_.push_back(std::move(handler));
    return static_cast<std::int32_t>(handlers_.size()) - 1;
  }
  const std::int32_t number = free_.back();
  free_.pop_back();
  handlers_[static_cast<std::size_t>(number)] = std::move(handler);
  return number;
}

std::function<void()> TimerHandlers::take(std::int32_t number) {
  free_.push_back(number);
  return std::move(handlers_[static_cast<std::size_t>(number)]);
}

void TimerHandlers::clear() {
  handlers_.clear();
  free_.clear();
}

void Timers::clear() {
  heap_.clear();
  n_daemons_ = 0;
  n_made_ = 0;
  handlers_.clear();
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
