// How calls are called in verdicts.
#pragma once

#include <string>

#include "lockstep/sim/group/detail/sim_work.h"

namespace lockstep::sim {

bool is_message(const SimWork& work);
/// "all_reduce #0 of group 0 (2 x f32) at train.cc:5".
std::string describe_call(const SimWork& work);

}  // namespace lockstep::sim
