// How far the events of two ranks say the same.
#pragma once

#include <cstdint>

#include "lockstep/trace/event.h"

namespace lockstep {

enum class Similarity : std::uint8_t {
  kEqual,      ///< In every field, bit for bit.
  kSameShape,  ///< The same tensors of the same sizes; digests, sketches and measures differ.
  kSameKind,   ///< Other values, of one kind.
  kUnrelated,  ///< Events of two kinds, points, phases or layouts.
};

/// Numbers are compared by their bits: -0 is not +0, a NaN equals itself. Call sites are part of
/// it.
/// Requires: names of both events are of one table.
Similarity similarity_of(const EventBody& left, const EventBody& right);

}  // namespace lockstep
