// What arrives is what was sent: a connection that compares, after every operation.
#pragma once

#include <memory>

#include "lockstep/comm/reduction_order.h"
#include "lockstep/real/group/connection.h"

namespace lockstep::peers {

/// How the library reduces, so that its results can be computed again.
struct ArrivalCheck {
  ReductionOrder order;  ///< Its bits are exactly those of this order.
  /// Of the arithmetic that the library uses.
  std::unique_ptr<Kernels> (*make_kernels)() = nullptr;
};

/// `connection`, and a second one between the same members over which they compare what each of
/// them contributed with what each of them got. Groups made of it are compared as well.
///
/// Operations that only copy: digests of every piece, as its sender had it and as its receiver has
/// it. Reductions: every rank gets one part of all contributions, in slices, computes it again in
/// the library's order and compares digests with what every rank has. All NaNs are one number
/// there: which one comes out is not part of an order. Bits are compared, no tolerance. A message
/// carries its digest with it.
///
/// A difference ends the operation with kMismatch and the same words on all members: the ranks, the
/// call, the element and both values. The group stays usable. Memory then holds what arrived.
///
/// Requires: called by all members, with host memory in all operations; `connection` reduces in
///     `check.order`. A received message is in its memory once it was waited for.
/// Errors: those of Connection::split.
Result<std::shared_ptr<Connection>> check_arrivals(std::shared_ptr<Connection> connection,
                                                   const Membership& member,
                                                   const ArrivalCheck& check);

}  // namespace lockstep::peers
