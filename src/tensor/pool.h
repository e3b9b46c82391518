// Memory of one world's tensors, nodes and works: size classes with last-in-first-out free lists.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep {

/// Hands out 64-byte aligned blocks and takes them back, without locks.
///
/// One pool serves all ranks of a world (they share a thread): the block a rank just freed is the
/// one the next rank gets, still in cache. After the first step of a training job every allocation
/// is served from a free list; `system_allocations()` lets a test prove it.
///
/// Requires:      used by one thread at a time.
/// Deterministic: addresses never influence results; the order of reuse depends only on the calls.
class Pool {
 public:
  Pool() = default;
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  Pool(Pool&&) = delete;
  Pool& operator=(Pool&&) = delete;

  /// Requires: bytes > 0. Returns memory aligned to 64 bytes, contents unspecified.
  void* allocate(std::size_t bytes);
  /// Requires: `block` came from allocate(bytes) with the same `bytes`.
  void release(void* block, std::size_t bytes);

  std::int64_t system_allocations() const { return n_system_; }  ///< Requests to the system so far.

  std::int64_t bytes_in_use() const { return bytes_in_use_; }  ///< Rounded to size classes.

  std::int64_t bytes_peak() const { return bytes_peak_; }

  /// Moves later blocks by `bytes` (a multiple of 64): a repeated run uses other addresses, which
  /// reveals results that depend on them. Blocks freed before are not handed out again.
  void shift_addresses(std::size_t bytes);

 private:
  struct FreeBlock {
    FreeBlock* next;
  };

  static constexpr std::size_t kClasses = 176;  ///< Four a power of two, from 64 bytes up.

  static std::size_t class_of(std::size_t bytes);
  static std::size_t class_bytes(std::size_t index);
  void* carve(std::size_t bytes);

  std::array<FreeBlock*, kClasses> free_{};
  std::vector<void*> slabs_;
  std::byte* slab_next_ = nullptr;
  std::byte* slab_end_ = nullptr;
  std::size_t shift_bytes_ = 0;
  std::int64_t n_system_ = 0;
  std::int64_t bytes_in_use_ = 0;
  std::int64_t bytes_peak_ = 0;
};

}  // namespace lockstep
