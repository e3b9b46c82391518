// Many schedules of one program: random, PCT, uniform, all of them; and marks that say what a campaign of
// runs has reached.
//
//   const auto found = sim::explore({.strategy = "random", .n_schedules = 100}, body);
//   if (found.value().failure) std::puts(found.value().failure->schedule.c_str());
#pragma once

#include "lockstep/sim/explore/explore.h"
#include "lockstep/sim/explore/marks.h"
#include "lockstep/sim/strategy/schedule.h"
#include "lockstep/sim/strategy/strategies.h"
