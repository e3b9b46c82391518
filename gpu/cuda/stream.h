// A CUDA stream as a value.
#pragma once

#include <cuda_runtime_api.h>

namespace lockstep::cuda {

/// An ordered queue of device work. Owned, movable; destroying it does not wait for its work.
class Stream {
 public:
  /// A stream of the current device that does not synchronise with the default stream.
  /// Errors: DeviceError.
  Stream();
  ~Stream();
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  cudaStream_t handle() const { return handle_; }

  /// Waits until everything queued so far is done; errors of that work surface here.
  void synchronize() const;

 private:
  cudaStream_t handle_ = nullptr;
};

}  // namespace lockstep::cuda
