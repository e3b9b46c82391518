#include "lockstep/gpu/nccl/detail/staging.h"

#include "lockstep/base/check.h"

namespace lockstep::nccl {

namespace {

constexpr std::size_t kPiece = 256;      // NCCL is fastest on such boundaries.
constexpr std::size_t kSmallest = 4096;  // Also a barrier, which has no buffers, finds room.

std::size_t round_up_to_piece(std::size_t n_bytes) {
  return (n_bytes + kPiece - 1) / kPiece * kPiece;
}

}  // namespace

Staging::~Staging() {
  if (block_ != nullptr) (void)api_->release(block_);
}

peers::Completion Staging::begin(std::span<const Memory> inputs, std::span<const Memory> outputs) {
  std::size_t needed = kSmallest;
  for (const Memory& memory : inputs) needed += round_up_to_piece(bytes_of(memory));
  for (const Memory& memory : outputs) needed += round_up_to_piece(bytes_of(memory));
  n_taken_ = 0;
  if (needed <= n_bytes_) return {};
  if (block_ != nullptr) (void)api_->release(block_);
  block_ = nullptr;
  n_bytes_ = 0;
  const CudaStatus status = api_->allocate(block_, needed);
  if (status != CudaStatus::kSuccess) {
    return {CommStatus::kAborted, "cudaMalloc: " + api_->cuda_text(status)};
  }
  n_bytes_ = needed;
  return {};
}

std::byte* Staging::take(std::size_t n_bytes) {
  LOCKSTEP_CHECK(n_taken_ + n_bytes <= n_bytes_, "what an operation stages was announced");
  std::byte* piece = static_cast<std::byte*>(block_) + n_taken_;
  n_taken_ += round_up_to_piece(n_bytes);
  return piece;
}

}  // namespace lockstep::nccl
