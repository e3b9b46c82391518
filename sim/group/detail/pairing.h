// What must agree between members, and what happens when it does not.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/comm/signature.h"
#include "lockstep/sim/group/detail/sim_work.h"
#include "lockstep/sim/group/sim_group.h"

namespace lockstep::sim {

/// all_to_all: whether some rank sends a different number of elements from what its receiver
/// expects.
std::optional<Difference> differing_splits(std::span<SimWork* const> works);

/// "op differs: rank 0 barrier (save.py:12), rank 1 all_reduce (train.py:40)".
std::string describe(const Difference& difference, const SimWork& left, const SimWork& right);

/// How a full slot continues under pairing by sequence number.
enum class PairingResult : std::uint8_t {
  kMatched,
  kGarbage,  ///< Completes, with what reductions of different sizes leave behind.
  kHang,     ///< Never completes.
};
PairingResult pair_by_sequence(std::span<SimWork* const> works);

}  // namespace lockstep::sim
