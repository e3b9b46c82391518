// Broadcasting many tensors in a few large messages.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/autograd/variable.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/reducer/bucket_plan.h"

namespace lockstep {

/// Overwrites variables by those of a root rank, coalesced by dtype into flat messages, at most two
/// of them in flight.
///
/// Requires: the same variables, in the same order, on every rank.
/// Errors: CommError when a broadcast fails.
/// Source: c10d comm.cpp, broadcast_coalesced; a bucket of one tensor is sent from its own memory.
class CoalescedBroadcast {
 public:
  static constexpr std::int64_t kCapBytes = 250LL * 1024 * 1024;

  explicit CoalescedBroadcast(std::vector<NamedVariable> variables,
                              std::int64_t cap_bytes = kCapBytes);

  bool empty() const { return variables_.empty(); }

  std::span<const NamedVariable> variables() const { return variables_; }

  /// Reads the variables' tensors again at each call. `options.layout` is filled in.
  void run(ProcessGroup& group, std::int32_t root, const OpOptions& options);

 private:
  struct Flight {
    Work work;
    Tensor flat;  // Undefined: the bucket's only tensor itself is in flight.
    std::size_t bucket = 0;
  };

  Flight start(ProcessGroup& group, std::int32_t root, OpOptions options, std::size_t bucket) const;
  void finish(Flight& flight) const;

  std::vector<NamedVariable> variables_;
  BucketPlan plan_;
  std::vector<std::uint64_t> layouts_;  // By bucket.
};

}  // namespace lockstep
