#include "lockstep/tensor/pool.h"

#include <algorithm>
#include <fmt/core.h>

#include "lockstep/base/check.h"
#include "lockstep/memory/memory_left.h"

namespace lockstep {

namespace {

constexpr std::size_t kFirstSlab = std::size_t{64} << 10U;
constexpr std::size_t kLargestSlab = std::size_t{32} << 20U;

}  // namespace

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

void* Pool::do_allocate(std::size_t bytes, std::size_t alignment) {
  LOCKSTEP_CHECK(
      alignment <= detail::kBlockAlignment,
      fmt::format(
          "the pool aligns blocks to {} bytes, not to {}", detail::kBlockAlignment, alignment));
  return allocate(bytes);
}

void* Pool::carve(std::size_t bytes) {
  const std::size_t slab_bytes =
      std::clamp(kFirstSlab << std::min<std::size_t>(slabs_.size(), 16), kFirstSlab, kLargestSlab);
  if (bytes > slab_bytes / 4) return add_slab(bytes);
  if (static_cast<std::size_t>(slab_end_ - slab_next_) < bytes) {
    slab_next_ = add_slab(slab_bytes);
    slab_end_ = slab_next_ + slab_bytes;
  }
  void* const block = slab_next_;
  slab_next_ += bytes;
  return block;
}

std::byte* Pool::add_slab(std::size_t bytes) {
  const std::size_t with_shift = bytes + shift_bytes_;
  if (with_shift >= kLargestSlab) require_memory(with_shift);
  slabs_.push_back(make_system_block(with_shift));
  ++n_system_;
  return slabs_.back().get() + shift_bytes_;
}

void Pool::shift_addresses(std::size_t bytes) {
  LOCKSTEP_CHECK(bytes % detail::kBlockAlignment == 0, "blocks stay aligned to 64 bytes");
  shift_bytes_ += bytes;
  free_.fill(nullptr);
  slab_next_ = nullptr;
  slab_end_ = nullptr;
}

}  // namespace lockstep
