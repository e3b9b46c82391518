// Device memory as a value.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

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

/// Device memory for `n_elems` values of T.
template <typename T>
class DeviceBuffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit DeviceBuffer(std::size_t n_elems) : bytes_(n_elems * sizeof(T)), n_elems_(n_elems) {}

  T* data() const { return static_cast<T*>(bytes_.data()); }

  std::size_t size() const { return n_elems_; }

  void write(std::span<const T> host, const Stream& stream) const {
    bytes_.write(std::as_bytes(host), stream);
  }

  void read(std::span<T> host, const Stream& stream) const {
    bytes_.read(std::as_writable_bytes(host), stream);
  }

 private:
  DeviceBytes bytes_;
  std::size_t n_elems_;
};

}  // namespace lockstep::cuda
