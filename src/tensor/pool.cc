#include "lockstep/tensor/pool.h"

#include <algorithm>
#include <fmt/core.h>
#include <new>

#include "lockstep/base/check.h"
#include "lockstep/base/memory_left.h"

namespace lockstep {

namespace {

constexpr std::size_t kFirstSlab = std::size_t{64} << 10U;
constexpr std::size_t kLargestSlab = std::size_t{32} << 20U;

void* system_block(std::size_t bytes) {
  if (bytes >= kLargestSlab) require_memory(bytes);
  return ::operator new (bytes, std::align_val_t{detail::kBlockAlignment});
}

}  // namespace

Pool::~Pool() {
  for (void* slab : slabs_) ::operator delete (slab, std::align_val_t{detail::kBlockAlignment});
}

void* Pool::allocate_slowly(std::size_t bytes) {
  LOCKSTEP_CHECK(bytes > 0, "the pool hands out no empty blocks (an error of Lockstep)");
  const std::size_t index = detail::size_class_of(bytes);
  LOCKSTEP_CHECK(index < kClasses,
                 fmt::format("a block of {} bytes is larger than any machine's memory", bytes));
  const std::size_t size = detail::size_class_bytes(index);
  account(size);
  FreeBlock* const block = free_[index];
  if (block == nullptr) return carve(size);
  free_[index] = block->next;
  return block;
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
  LOCKSTEP_CHECK(bytes % detail::kBlockAlignment == 0, "blocks stay aligned to 64 bytes");
  shift_bytes_ += bytes;
  free_.fill(nullptr);
  slab_next_ = nullptr;
  slab_end_ = nullptr;
}

}  // namespace lockstep
