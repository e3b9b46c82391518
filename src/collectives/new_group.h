// Groups the way c10d makes them: ranks of the world, sorted.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "lockstep/comm/process_group.h"

namespace lockstep {

/// Whether a new group numbers its members by rank or by the order of the list.
enum class GroupNumbering : std::uint8_t { kSorted, kAsListed };

/// A group of some ranks of `world`, collective over all of them: every rank calls it with the same
/// list, in the same order of calls; those outside get null.
///
/// Errors: an empty list, a rank twice or one outside = ContractViolation. Ranks that pass different lists
///     get groups of their own, as from PyTorch, which the law collectives-match names.
/// Source: torch.distributed.new_group, which sorts.
std::unique_ptr<ProcessGroup> new_group(ProcessGroup& world,
                                        std::span<const std::int32_t> ranks,
                                        GroupNumbering numbering = GroupNumbering::kSorted,
                                        CallSite site = CallSite::here());

/// The world in blocks of `group_size` consecutive ranks; returns this rank's block. Every rank
/// takes part in making all of them.
///
/// Errors: c10d's texts for a size that does not divide the world, as ContractViolation.
/// Source: torch.distributed.new_subgroups.
std::unique_ptr<ProcessGroup> new_subgroups(ProcessGroup& world,
                                            std::int32_t group_size,
                                            CallSite site = CallSite::here());

/// The place of a rank of the world in `group`.
/// Errors: "Global rank r is not part of group g" as ContractViolation, as get_group_rank has it.
std::int32_t group_rank_of(const ProcessGroup& group, Rank world_rank);

}  // namespace lockstep
