// Many schedules of one program: random, PCT, all of them.
//
//   const auto found = sim::explore({.strategy = "random", .n_schedules = 100}, body);
//   if (found.value().failure) std::puts(found.value().failure->schedule.c_str());
#pragma once

#include "lockstep/sim/explore/explore.h"
#include "lockstep/sim/strategy/schedule.h"
#include "lockstep/sim/strategy/strategies.h"
