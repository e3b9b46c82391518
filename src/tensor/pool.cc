#include "lockstep/tensor/pool.h"

#include <algorithm>
#include <fmt/core.h>
#include <new>
#include <sys/mman.h>

#include "lockstep/base/check.h"
#include "lockstep/memory/memory_left.h"

namespace lockstep {

namespace {

constexpr std::size_t kFirstSlab = std::size_t{64} << 10U;
constexpr std::size_t kLargestSlab = std::size_t{32} << 20U;

constexpr std::size_t kHugePage = std::size_t{2} << 20U;

std::align_val_t alignment_of(std::size_t bytes) {
  return std::align_val_t{bytes >= kHugePage ? kHugePage : detail::kBlockAlignment};
}

// The tensors of thousands of ranks lie on more small pages than any TLB has entries for. Slabs grow,
// so small worlds never have one that is large enough.
void* system_block(std::size_t bytes) {
  if (bytes >= kLargestSlab) require_memory(bytes);
  void* const block = ::operator new(bytes, alignment_of(bytes));
  if (bytes >= kHugePage) madvise(block, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
  return block;
}

}  // namespace

Pool::~Pool() {
  for (const Slab& slab : slabs_) ::operator delete(slab.begin, alignment_of(slab.bytes));
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
    return add_slab(bytes);
  }
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
  slabs_.push_back({.begin = system_block(with_shift), .bytes = with_shift});
  ++n_system_;
  return static_cast<std::byte*>(slabs_.back().begin) + shift_bytes_;
}

void Pool::shift_addresses(std::size_t bytes) {
  LOCKSTEP_CHECK(bytes % detail::kBlockAlignment == 0, "blocks stay aligned to 64 bytes");
  shift_bytes_ += bytes;
  free_.fill(nullptr);
  slab_next_ = nullptr;
  slab_end_ = nullptr;
}

}  // namespace lockstep
