// Device memory through which an operation's buffers go.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "lockstep/comm/process_group.h"
#include "lockstep/gpu/nccl/api.h"
#include "lockstep/real/group/task.h"

namespace lockstep::nccl {

inline std::size_t bytes_of(const Memory& memory) {
  return static_cast<std::size_t>(memory.count * size_of(memory.dtype));
}

/// One block that grows and is handed out piece by piece, from its start for every operation. It is
/// enlarged only between operations: an allocation may wait for whatever spins on the device.
class Staging {
 public:
  explicit Staging(std::shared_ptr<Api> api) : api_(std::move(api)) {}

  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  Staging(Staging&&) = delete;
  Staging& operator=(Staging&&) = delete;

  /// Room for pieces of these buffers. Requires: nothing uses the pieces handed out before.
  peers::Completion begin(std::span<const Memory> inputs, std::span<const Memory> outputs);
  /// Room for the next `n_bytes`. Requires: begin() counted them.
  std::byte* take(std::size_t n_bytes);

 private:
  std::shared_ptr<Api> api_;
  void* block_ = nullptr;
  std::size_t n_bytes_ = 0;
  std::size_t n_taken_ = 0;
};

}  // namespace lockstep::nccl
