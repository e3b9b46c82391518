// A group that compares what its members are about to do before they do it.
#pragma once

#include <memory>

#include "lockstep/comm/process_group.h"

namespace lockstep {

/// Wraps `group`: before each collective all members meet, exchange what they are about to run and
/// compare. Sends and recvs pass unchecked. What TORCH_DISTRIBUTED_DEBUG=DETAIL does, on any
/// backend, and more: reduce operation, root, factor, splits and layout are compared too, and call
/// sites are shown. Each member says who it is, so a transport that exchanges blocks of what it
/// gathers is found at the first collective.
///
/// Collective over `group`: every member wraps it. Costs per collective: a monitored barrier and an
/// AG i64[12] in a separate group.
///
/// Units: `timeout` is virtual time in the simulator; how long members may differ in arriving.
/// Errors: CommError(kMismatch) thrown by the operation on every member, before it is posted. Where
///     PyTorch sees the difference (operation, size, dtype), what() begins with PyTorch 1.13's
///     text; members that do not come are named by MonitoredBarrierError.
/// Source: c10d ProcessGroupWrapper. Departs from it where shapes of different kinds meet: PyTorch
///     then names a wrong operation, decoded from a length.
std::unique_ptr<ProcessGroup> make_checked_group(std::unique_ptr<ProcessGroup> group,
                                                 Duration timeout,
                                                 CallSite site = CallSite::here());

}  // namespace lockstep
