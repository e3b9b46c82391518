// Device memory as a value.
#pragma once

#include <cstddef>
#include <span>

#include "lockstep/gpu/cuda/stream.h"

namespace lockstep::cuda {

/// A block of device memory. Owned, movable, 256-byte aligned.
class DeviceBytes {
 public:
  /// Contents unspecified; 0 bytes allocate nothing. Errors: DeviceError.
  explicit DeviceBytes(std::size_t n_bytes);
  ~DeviceBytes();
  DeviceBytes(DeviceBytes&& other) noexcept;
  DeviceBytes& operator=(DeviceBytes&& other) noexcept;
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;

  void* data() const { return data_; }

  std::size_t size() const { return n_bytes_; }

  /// Queue a copy on `stream`. Requires: sizes agree; host memory stays alive until it is done.
  void write(std::span<const std::byte> host, const Stream& stream) const;
  void read(std::span<std::byte> host, const Stream& stream) const;

 private:
  void* data_ = nullptr;
  std::size_t n_bytes_ = 0;
};

}  // namespace lockstep::cuda
