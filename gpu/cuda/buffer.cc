#include "lockstep/gpu/cuda/buffer.h"

#include <utility>

#include "lockstep/base/check.h"
#include "lockstep/gpu/cuda/check.h"

namespace lockstep::cuda {

DeviceBytes::DeviceBytes(std::size_t n_bytes) : n_bytes_(n_bytes) {
  if (n_bytes > 0) check(cudaMalloc(&data_, n_bytes), "cudaMalloc");
}

DeviceBytes::~DeviceBytes() {
  // A destructor cannot report errors; a broken device fails the next call.
  if (data_ != nullptr) static_cast<void>(cudaFree(data_));
}

DeviceBytes::DeviceBytes(DeviceBytes&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), n_bytes_(std::exchange(other.n_bytes_, 0)) {}

DeviceBytes& DeviceBytes::operator=(DeviceBytes&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(n_bytes_, other.n_bytes_);
  return *this;
}

void DeviceBytes::write(std::span<const std::byte> host, const Stream& stream) const {
  LOCKSTEP_CHECK(host.size() == n_bytes_, "a buffer is written as a whole");
  if (n_bytes_ == 0) return;
  check(cudaMemcpyAsync(data_, host.data(), n_bytes_, cudaMemcpyHostToDevice, stream.handle()),
        "cudaMemcpyAsync to the device");
}

void DeviceBytes::read(std::span<std::byte> host, const Stream& stream) const {
  LOCKSTEP_CHECK(host.size() == n_bytes_, "a buffer is read as a whole");
  if (n_bytes_ == 0) return;
  check(cudaMemcpyAsync(host.data(), data_, n_bytes_, cudaMemcpyDeviceToHost, stream.handle()),
        "cudaMemcpyAsync to the host");
}

}  // namespace lockstep::cuda
