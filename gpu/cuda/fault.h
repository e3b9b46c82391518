// What a kernel cannot throw, because it runs on a device.
#pragma once

#include <cstdint>

namespace lockstep::cuda {

/// What a functor found wrong; the next caller that waits gets the exception.
enum class Fault : std::uint32_t { kNone, kLabel, kRow, kPosition };

}  // namespace lockstep::cuda
