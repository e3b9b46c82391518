// Random jobs that every rank of a healthy DDP can finish, or fails at the same place.
#pragma once

#include <cstdint>

#include "tests/programs/program.h"

namespace lockstep::programs {

/// The `index`-th job of a seed. `max_world` bounds the number of ranks, which is at least two
/// unless `max_world` is above four.
Program draw_program(std::uint64_t seed, std::int64_t index, std::int32_t max_world = 4);

}  // namespace lockstep::programs
