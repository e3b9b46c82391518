// Memory that the device and the host can both touch, recycled in size classes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace lockstep::cuda {

/// Where slabs come from: managed memory of the current device, or the host's heap where there is
/// none.
enum class MemoryKind : std::uint8_t { kManaged, kHost };

/// Blocks of 256-byte alignment, last in, first out in each size class.
///
/// Unlike Pool it keeps its lists outside the memory, never in it: a released block may still be
/// read by work that is queued, and the host's writing into it would be a race.
///
/// Requires: used by one thread at a time; blocks are handed out again only to work queued later.
class MemoryPool {
 public:
  /// `most`: bytes that it takes in all; without it what the device has free at the first allocation, as
  /// managed memory beyond the device's own is given, moves in and out of it, and may hang it.
  explicit MemoryPool(MemoryKind kind, std::optional<std::size_t> most = std::nullopt)
      : kind_(kind), most_(most) {}

  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;
  MemoryPool(MemoryPool&&) = delete;
  MemoryPool& operator=(MemoryPool&&) = delete;

  /// Requires: n_bytes > 0. Errors: DeviceError where the device has no more, with both numbers.
  void* allocate(std::size_t n_bytes);
  /// Requires: `block` came from allocate(n_bytes).
  void release(void* block, std::size_t n_bytes);

  /// Whether a block of `n_bytes` from `data` on is this pool's memory.
  bool owns(const void* data, std::size_t n_bytes) const;

  std::int64_t system_allocations() const { return static_cast<std::int64_t>(slabs_.size()); }

 private:
  void* add_slab(std::size_t n_bytes);
  void refuse_beyond_limit(std::size_t n_bytes);

  MemoryKind kind_;
  std::optional<std::size_t> most_;
  std::size_t n_taken_ = 0;
  std::map<std::byte*, std::size_t> slabs_;  ///< By address.
  std::vector<std::vector<void*>> free_;     ///< By size class.
  std::byte* next_ = nullptr;
  std::byte* end_ = nullptr;
};

}  // namespace lockstep::cuda
