// Collectives of values whose size only their owner knows: sizes travel first, then bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/comm/process_group.h"

namespace lockstep {

/// An object is its bytes: how a value becomes bytes is the caller's business.
///
/// On every rank objects := objects of group rank `root`.
/// Collectives: B i64[number of objects], B u8[all bytes].
/// Requires: the same number of objects on every rank.
/// Errors: CommError.
/// Source: torch.distributed.broadcast_object_list.
void broadcast_object_list(ProcessGroup& group,
                           std::vector<std::string>& objects,
                           std::int32_t root,
                           const OpOptions& options = {.site = CallSite::here()});

/// Returns: the object of every rank, by group rank.
/// Collectives: AG i64[1], AG u8[the longest].
/// Errors: CommError.
/// Source: torch.distributed.all_gather_object, which pads to the longest too.
std::vector<std::string> all_gather_object(ProcessGroup& group,
                                           const std::string& object,
                                           const OpOptions& options = {.site = CallSite::here()});

}  // namespace lockstep
