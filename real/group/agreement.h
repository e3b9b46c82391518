// What ranks tell each other before a collective, so that a mismatch is an answer and not a hang.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/comm/process_group.h"

namespace lockstep::peers {

/// This rank's signature as bytes of one length on all ranks: every field, the call site as text
/// and, for all_to_all, how much it sends to and expects from each rank.
std::vector<std::byte> encode_signature(const Signature& signature,
                                        std::span<const Memory> inputs,
                                        std::span<const Memory> outputs,
                                        std::size_t n_ranks);

/// The first disagreement between the declarations of all ranks (rank after rank in `all`) in
/// words, or empty. `world_ranks` names them.
std::string find_mismatch(std::span<const std::byte> all,
                          std::span<const std::int32_t> world_ranks);

}  // namespace lockstep::peers
