#include "lockstep/tensor/pool.h"

#include <algorithm>
#include <bit>
#include <new>

#include "lockstep/base/check.h"

namespace lockstep {

namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kSmallestShift = 6;  // Class 0 holds 64 bytes.
constexpr std::size_t kFirstSlab = std::size_t{64} << 10U;
constexpr std::size_t kLargestSlab = std::size_t{32} << 20U;

constexpr std::size_t round_up(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

void* system_block(std::size_t bytes) {
  return ::operator new (bytes, std::align_val_t{kAlignment});
}

}  // namespace

Pool::~Pool() {
  for (void* slab : slabs_) ::operator delete (slab, std::align_val_t{kAlignment});
}

// Four classes a power of two: 64, (80, 96, 112,) 128, 160, 192, ... Sizes are rounded to multiples
// of 64 first, so the classes between that would break alignment are never asked for.
std::size_t Pool::class_of(std::size_t bytes) {
  const std::size_t rounded = round_up(bytes);
  if (rounded <= kAlignment) return 0;
  const auto power = static_cast<std::size_t>(std::bit_width(rounded - 1)) - 1;
  const std::size_t quarter = std::size_t{1} << (power - 2);
  const std::size_t quarters = (rounded - (std::size_t{1} << power) + quarter - 1) / quarter;
  return (power - kSmallestShift) * 4 + quarters;
}

std::size_t Pool::class_bytes(std::size_t index) {
  const std::size_t power = kSmallestShift + index / 4;
  return (std::size_t{1} << power) + (index % 4) * (std::size_t{1} << (power - 2));
}

void* Pool::allocate(std::size_t bytes) {
  LOCKSTEP_CHECK(bytes > 0, "an empty block has no address");
  const std::size_t index = class_of(bytes);
  LOCKSTEP_CHECK(index < kClasses, "a block larger than any machine's memory");
  const std::size_t size = class_bytes(index);
  bytes_in_use_ += static_cast<std::int64_t>(size);
  bytes_peak_ = std::max(bytes_peak_, bytes_in_use_);
  FreeBlock* const block = free_[index];
  if (block == nullptr) return carve(size);
  free_[index] = block->next;
  return block;
}

void Pool::release(void* block, std::size_t bytes) {
  const std::size_t index = class_of(bytes);
  bytes_in_use_ -= static_cast<std::int64_t>(class_bytes(index));
  free_[index] = ::new (block) FreeBlock{free_[index]};
}

void* Pool::carve(std::size_t bytes) {
  const std::size_t slab_bytes =
      std::clamp(kFirstSlab << std::min<std::size_t>(slabs_.size(), 16), kFirstSlab, kLargestSlab);
  if (bytes > slab_bytes / 4) {
    slabs_.push_back(system_block(bytes + shift_bytes_));
    ++n_system_;
    return static_cast<std::byte*>(slabs_.back()) + shift_bytes_;
  }
  if (static_cast<std::size_t>(slab_end_ - slab_next_) < bytes) {
    slabs_.push_back(system_block(slab_bytes + shift_bytes_));
    ++n_system_;
    slab_next_ = static_cast<std::byte*>(slabs_.back()) + shift_bytes_;
    slab_end_ = slab_next_ + slab_bytes;
  }
  void* const block = slab_next_;
  slab_next_ += bytes;
  return block;
}

void Pool::shift_addresses(std::size_t bytes) {
  LOCKSTEP_CHECK(bytes % kAlignment == 0, "blocks stay aligned to 64 bytes");
  shift_bytes_ += bytes;
  free_.fill(nullptr);
  slab_next_ = nullptr;
  slab_end_ = nullptr;
}

}  // namespace lockstep
