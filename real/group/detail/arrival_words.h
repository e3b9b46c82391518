// A difference between what was sent and what arrived, in words.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/comm/process_group.h"
#include "lockstep/real/group/connection.h"

namespace lockstep::peers {

/// One element that is not what it should be.
struct AlteredElement {
  std::int32_t sender = 0;    ///< Rank in the group.
  std::int32_t receiver = 0;  ///< Rank in the group.
  bool reduced = false;       ///< Computed from all contributions; the sender says nothing.
  std::int64_t element = 0;
  std::uint64_t sent = 0;  ///< Bits, zero-extended.
  std::uint64_t got = 0;
};

/// "broadcast 3 of group 0 (train.cc:12)".
std::string call_words(const Operation& operation, const Membership& member);

std::string altered_words(const AlteredElement& altered,
                          DType dtype,
                          const Operation& operation,
                          const Membership& member);

/// "rank 3": by its number in the world.
std::string rank_words(std::int32_t group_rank, const Membership& member);

}  // namespace lockstep::peers
