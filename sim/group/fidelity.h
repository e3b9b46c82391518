// How closely a group plays what real libraries do.
#pragma once

#include <cstdint>

#include "lockstep/base/enum_names.h"

namespace lockstep::sim {

/// What happens when members of a group issue different operations at one sequence number.
enum class Pairing : std::uint8_t {
  kStrict,    ///< Any signature mismatch fails on every member at once (CommStatus::kMismatch).
  kNcclLike,  ///< Pairs by sequence number only: may hang or finish with garbage.
  kGlooLike,  ///< Checks sizes: a different byte count fails, anything else pairs.
};

/// How much of an operation is played.
enum class Fidelity : std::uint8_t {
  kRendezvous,  ///< The last member to arrive computes for all.
  kMessage,     ///< Every hop of the order's algorithm is an event (sim/net/flight.h says which
                ///< operations have one; the others meet).
};

}  // namespace lockstep::sim

namespace lockstep {

template <>
inline constexpr EnumNames<3> kEnumNames<sim::Pairing> = {"strict", "nccl_like", "gloo_like"};

template <>
inline constexpr EnumNames<2> kEnumNames<sim::Fidelity> = {"rendezvous", "message"};

}  // namespace lockstep
