// Collectives inside a loss: differentiable, so that gradients cross the ranks as values did.
#pragma once

#include "lockstep/autograd/variable.h"
#include "lockstep/comm/process_group.h"

namespace lockstep {

/// The sum (or mean) of `x` over the ranks of `group`, on each of them. Its backward sums (or
/// averages) the gradients that arrive on all ranks, so the mean over ranks of what wrappers reduce
/// is the gradient of the mean over ranks of the losses.
///
/// Collective over `group`, forward and backward: every rank that calls it differentiates it, or none
/// does. `x` keeps its values.
/// Shapes: as x.
/// Requires: the same shape on every rank; `group` outlives the graph.
/// Errors: ContractViolation for other operations than kSum and kAvg: they have no such backward.
/// Source: torch.distributed.nn.functional.all_reduce.
[[nodiscard]] Variable all_reduce(const Variable& x,
                                  ProcessGroup& group,
                                  ReduceOp op = ReduceOp::kSum,
                                  CallSite site = CallSite::here());

/// The rows of all ranks, one after the other: (B, ...) -> (N * B, ...). Its backward gives each rank
/// the sum of the gradients that all ranks have for its rows.
///
/// Requires: the same shape on every rank, with a dimension; else as all_reduce.
/// Source: torch.distributed.nn.functional.all_gather, whose backward is a reduce_scatter.
[[nodiscard]] Variable all_gather(const Variable& x,
                                  ProcessGroup& group,
                                  CallSite site = CallSite::here());

}  // namespace lockstep
