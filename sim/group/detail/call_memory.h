// The buffers of one posted operation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/comm/process_group.h"
#include "lockstep/tensor/runtime.h"

namespace lockstep::sim {

/// A call's lists are the caller's; these are the operation's own. Most operations have one buffer on
/// each side: longer lists lie in the pool.
///
/// Requires: the pool outlives it; release() before its end.
class CallMemory {
 public:
  CallMemory(const CollectiveCall& call, Pool& pool);
  CallMemory(const CallMemory&) = delete;
  CallMemory& operator=(const CallMemory&) = delete;
  CallMemory(CallMemory&&) = delete;
  CallMemory& operator=(CallMemory&&) = delete;
  ~CallMemory() = default;

  std::span<Memory> inputs() const { return {list_, n_inputs_}; }

  std::span<Memory> outputs() const { return {list_ + n_inputs_, n_outputs_}; }

  /// All inputs, one after another.
  std::vector<std::byte> input_bytes() const;
  /// Puts these bytes in the place of the inputs' own. Requires: as many, and they outlive it.
  void contribute(std::span<std::byte> bytes) const;
  /// Gives back what lies in the pool.
  void release(Pool& pool);

 private:
  Memory* list_ = nullptr;  // Inputs, then outputs: in own_, or in the pool.
  std::uint32_t n_inputs_;
  std::uint32_t n_outputs_;
  std::array<Memory, 2> own_;
};

}  // namespace lockstep::sim
