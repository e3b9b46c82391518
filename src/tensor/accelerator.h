// The seam to a device that keeps and computes a rank's tensors.
#pragma once

#include <cstddef>

namespace lockstep {

class Kernels;

/// A device besides the processor. Tensors of a runtime that has one keep their elements in the
/// device's memory, which host code can touch as well; everything else stays in the host's pool.
///
/// Its kernels may return before their work has ended. Work runs in the order in which it was
/// queued, so memory that is released may be handed out again at once; host code that looks at
/// elements calls settle() first, which Tensor::raw() and all that is built on it do.
///
/// Requires: used by one thread at a time.
class Accelerator {
 public:
  Accelerator() = default;
  virtual ~Accelerator() = default;
  Accelerator(const Accelerator&) = delete;
  Accelerator& operator=(const Accelerator&) = delete;
  Accelerator(Accelerator&&) = delete;
  Accelerator& operator=(Accelerator&&) = delete;

  virtual Kernels& kernels() = 0;

  /// Requires: n_bytes > 0; release takes the same number.
  /// Returns: memory aligned to 64 bytes, contents unspecified.
  virtual void* allocate(std::size_t n_bytes) = 0;
  virtual void release(void* data, std::size_t n_bytes) = 0;

  /// Waits until everything queued has ended. What went wrong in it is thrown here.
  virtual void settle() = 0;
};

}  // namespace lockstep
