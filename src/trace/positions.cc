#include "lockstep/trace/detail/positions.h"

#include <fmt/core.h>

#include "lockstep/base/check.h"

namespace lockstep::detail {

std::int32_t Positions::open() {
  Position fresh;
  fresh.attempt = all_.front().attempt;
  fresh.epoch = all_.front().epoch;
  fresh.wrapper = n_wrappers();
  all_.push_back(fresh);
  current_ = fresh.wrapper;
  return fresh.wrapper;
}

void Positions::check(std::int32_t wrapper) const {
  LOCKSTEP_CHECK(wrapper >= -1 && wrapper < n_wrappers(),
                 fmt::format("no wrapper {} on this rank: it has {}", wrapper, n_wrappers()));
}

void Positions::set_attempt(std::int32_t attempt) {
  for (Position& position : all_) position.attempt = attempt;
}

void Positions::set_epoch(std::int32_t epoch) {
  for (Position& position : all_) position.epoch = epoch;
}

}  // namespace lockstep::detail
