#include "lockstep/gpu/cuda/stream.h"

#include <utility>

#include "lockstep/gpu/cuda/check.h"

namespace lockstep::cuda {

Stream::Stream() {
  check(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
}

Stream::~Stream() {
  // A destructor cannot report errors; a broken device fails the next call.
  if (handle_ != nullptr) static_cast<void>(cudaStreamDestroy(handle_));
}

Stream::Stream(Stream&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}

Stream& Stream::operator=(Stream&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

void Stream::synchronize() const { check(cudaStreamSynchronize(handle_), "cudaStreamSynchronize"); }

}  // namespace lockstep::cuda
