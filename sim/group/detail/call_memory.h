// The buffers of one posted operation.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
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

  std::span<Memory> inputs() const { return inputs_; }

  std::span<Memory> outputs() const { return outputs_; }

  /// All inputs, one after another.
  std::vector<std::byte> input_bytes() const;
  /// Puts these bytes in the place of the inputs' own.
  void contribute(std::vector<std::byte> bytes);
  /// Gives back what lies in the pool.
  void release(Pool& pool);

 private:
  std::array<Memory, 2> own_;
  Memory* list_ = nullptr;  // Longer lists, in the pool.
  std::span<Memory> inputs_;
  std::span<Memory> outputs_;
  std::unique_ptr<std::vector<std::byte>> contribution_;  // Instead of the inputs' memory.
};

}  // namespace lockstep::sim
