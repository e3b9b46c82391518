#include "lockstep/gpu/cuda/memory_pool.h"

#include <new>

#include <cuda_runtime_api.h>

#include "lockstep/base/check.h"
#include "lockstep/gpu/cuda/check.h"
#include "lockstep/tensor/pool.h"

namespace lockstep::cuda {

namespace {

constexpr std::size_t kSlabBytes = std::size_t{32} << 20U;
constexpr std::size_t kAlignment = 256;  // What cudaMalloc gives, and what vector loads want.

std::size_t rounded(std::size_t n_bytes) {
  const std::size_t bytes = detail::size_class_bytes(detail::size_class_of(n_bytes));
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

MemoryPool::~MemoryPool() {
  for (const auto& [slab, bytes] : slabs_) {
    if (kind_ == MemoryKind::kManaged) {
      // A destructor cannot report errors; a broken device fails the next call.
      static_cast<void>(cudaFree(slab));
    } else {
      ::operator delete (slab, std::align_val_t{kAlignment});
    }
  }
}

void MemoryPool::refuse_beyond_limit(std::size_t n_bytes) {
  if (!most_ && kind_ == MemoryKind::kManaged) {
    std::size_t n_free = 0;
    std::size_t n_in_all = 0;
    check(cudaMemGetInfo(&n_free, &n_in_all), "cudaMemGetInfo");
    most_ = n_free;
  }
  if (!most_ || n_taken_ + n_bytes <= *most_) return;
  constexpr std::size_t kMiB = std::size_t{1} << 20U;
  throw DeviceError("tensors on the device",
                    "they need " + std::to_string((n_taken_ + n_bytes) / kMiB) + " MiB, and " +
                        std::to_string(*most_ / kMiB) + " MiB were free",
                    CallSite::here());
}

void* MemoryPool::add_slab(std::size_t n_bytes) {
  refuse_beyond_limit(n_bytes);
  void* slab = nullptr;
  if (kind_ == MemoryKind::kManaged) {
    check(cudaMallocManaged(&slab, n_bytes), "cudaMallocManaged");
  } else {
    slab = ::operator new (n_bytes, std::align_val_t{kAlignment});
  }
  slabs_.emplace(static_cast<std::byte*>(slab), n_bytes);
  n_taken_ += n_bytes;
  return slab;
}

void* MemoryPool::allocate(std::size_t n_bytes) {
  LOCKSTEP_CHECK(n_bytes > 0, "an empty block has no address");
  const std::size_t index = detail::size_class_of(n_bytes);
  if (index >= free_.size()) free_.resize(index + 1);
  std::vector<void*>& blocks = free_[index];
  if (!blocks.empty()) {
    void* const block = blocks.back();
    blocks.pop_back();
    return block;
  }
  const std::size_t bytes = rounded(n_bytes);
  if (bytes > kSlabBytes / 4) return add_slab(bytes);
  if (static_cast<std::size_t>(end_ - next_) < bytes) {
    next_ = static_cast<std::byte*>(add_slab(kSlabBytes));
    end_ = next_ + kSlabBytes;
  }
  void* const block = next_;
  next_ += bytes;
  return block;
}

void MemoryPool::release(void* block, std::size_t n_bytes) {
  const std::size_t index = detail::size_class_of(n_bytes);
  LOCKSTEP_CHECK(index < free_.size(), "a block goes back to the pool it came from");
  free_[index].push_back(block);
}

bool MemoryPool::owns(const void* data, std::size_t n_bytes) const {
  auto* const first =
      const_cast<std::byte*>(static_cast<const std::byte*>(data));  // As the key is.
  auto after = slabs_.upper_bound(first);
  if (after == slabs_.begin()) return false;
  const auto& [slab, bytes] = *--after;
  return first + n_bytes <= slab + bytes;
}

}  // namespace lockstep::cuda
