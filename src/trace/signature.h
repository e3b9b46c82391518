// What the members of a group must agree on when they call a collective.
#pragma once

#include <cstdint>

#include "lockstep/base/call_site.h"
#include "lockstep/tensor/dtype.h"
#include "lockstep/tensor/in_flight.h"
#include "lockstep/tensor/kernels.h"

namespace lockstep {

/// What must agree between the members of a group at one sequence number. `site` is evidence only.
struct Signature {
  CollectiveOp op = CollectiveOp::kBarrier;
  ReduceOp reduce = ReduceOp::kSum;
  DType dtype = DType::kF32;
  Device device = Device::kCpu;
  bool async = false;      ///< Evidence, not compared.
  std::int32_t root = -1;  ///< Group rank; -1 = the operation has none.
  std::int32_t peer = -1;  ///< send/recv: group rank of the other side.
  std::int32_t tag = 0;
  std::int64_t count = 0;  ///< Elements of this rank's (input) buffer.
  double premul = 1.0;
  std::uint64_t splits = 0;  ///< Digest of uneven split sizes, 0 = even.
  /// Digest of what the elements mean (bucket -> parameter names), 0 = raw.
  std::uint64_t layout = 0;
  CallSite site = {};
};

}  // namespace lockstep
