// Memory of one world's tensors, nodes and works: size classes with last-in-first-out free lists.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <new>
#include <utility>
#include <vector>

#include "lockstep/memory/system_block.h"

namespace lockstep {

namespace detail {

inline constexpr std::size_t kBlockAlignment = 64;
inline constexpr std::size_t kSmallestShift = 6;  // Class 0 holds 64 bytes.

// Four classes a power of two: 64, (80, 96, 112,) 128, 160, 192, ... Sizes are rounded to multiples
// of 64 first, so the classes between that would break alignment are never asked for.
constexpr std::size_t size_class_of(std::size_t bytes) {
  const std::size_t rounded = (bytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
  if (rounded <= kBlockAlignment) return 0;
  const auto power = static_cast<std::size_t>(std::bit_width(rounded - 1)) - 1;
  const std::size_t quarter = std::size_t{1} << (power - 2);
  const std::size_t quarters = (rounded - (std::size_t{1} << power) + quarter - 1) / quarter;
  return (power - kSmallestShift) * 4 + quarters;
}

constexpr std::size_t size_class_bytes(std::size_t index) {
  const std::size_t power = kSmallestShift + index / 4;
  return (std::size_t{1} << power) + (index % 4) * (std::size_t{1} << (power - 2));
}

/// Classes of blocks of up to 16 units of 64 bytes, the tensors and nodes of small models: a
/// look-up where a dozen instructions would show in the time of a step.
struct SmallClasses {
  static constexpr std::size_t kMaxUnits = 16;
  std::array<std::uint16_t, kMaxUnits + 1> index{};
  std::array<std::uint16_t, kMaxUnits + 1> bytes{};
};

constexpr SmallClasses make_small_classes() {
  SmallClasses table;
  for (std::size_t units = 1; units <= SmallClasses::kMaxUnits; ++units) {
    const std::size_t index = size_class_of(units * kBlockAlignment);
    table.index[units] = static_cast<std::uint16_t>(index);
    table.bytes[units] = static_cast<std::uint16_t>(size_class_bytes(index));
  }
  return table;
}

inline constexpr SmallClasses kSmallClasses = make_small_classes();

}  // namespace detail

/// Hands out 64-byte aligned blocks and takes them back, without locks.
///
/// One pool serves all ranks of a world (they share a thread): the block a rank just freed is the
/// one the next rank gets, still in cache. After the first step of a training job every allocation
/// is served from a free list; `system_allocations()` lets a test prove it.
///
/// Lists that live as long as something of a rank does come from it, too (std::pmr::vector): a wrapper
/// and an optimizer make dozens, and a world that runs again finds their memory warm.
///
/// Requires: used by one thread at a time; a list's elements need no more than 64-byte alignment.
/// Deterministic: addresses never influence results; the order of reuse depends only on the calls.
class Pool final : public std::pmr::memory_resource {
 public:
  Pool() = default;
  ~Pool() override = default;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  Pool(Pool&&) = delete;
  Pool& operator=(Pool&&) = delete;

  /// Requires: bytes > 0. Returns memory aligned to 64 bytes, contents unspecified.
  void* allocate(std::size_t bytes) {
    const std::size_t units = units_of(bytes);
    if (units - 1 < detail::SmallClasses::kMaxUnits) {  // Zero wraps round.
      FreeBlock*& head = free_[detail::kSmallClasses.index[units]];
      if (head != nullptr) {
        account(detail::kSmallClasses.bytes[units]);
        return std::exchange(head, head->next);
      }
    }
    return allocate_slowly(bytes);
  }

  /// Requires: `block` came from allocate(bytes) with the same `bytes`.
  void release(void* block, std::size_t bytes) {
    const std::size_t units = units_of(bytes);
    const bool small = units <= detail::SmallClasses::kMaxUnits;
    const std::size_t index =
        small ? detail::kSmallClasses.index[units] : detail::size_class_of(bytes);
    bytes_in_use_ -= static_cast<std::int64_t>(small ? detail::kSmallClasses.bytes[units]
                                                     : detail::size_class_bytes(index));
    free_[index] = ::new (block) FreeBlock{free_[index]};
  }

  std::int64_t system_allocations() const { return n_system_; }  ///< Requests to the system so far.

  std::int64_t bytes_in_use() const { return bytes_in_use_; }  ///< Rounded to size classes.

  /// A block of `bytes`, rounded likewise.
  static constexpr std::int64_t rounded(std::size_t bytes) {
    return static_cast<std::int64_t>(detail::size_class_bytes(detail::size_class_of(bytes)));
  }

  std::int64_t bytes_peak() const { return bytes_peak_; }

  /// Moves later blocks by `bytes` (a multiple of 64): a repeated run uses other addresses, which
  /// reveals results that depend on them. Blocks freed before are not handed out again.
  void shift_addresses(std::size_t bytes);

 private:
  struct FreeBlock {
    FreeBlock* next;
  };

  static constexpr std::size_t kClasses = 176;  ///< Four a power of two, from 64 bytes up.

  static std::size_t units_of(std::size_t bytes) {
    return (bytes + detail::kBlockAlignment - 1) / detail::kBlockAlignment;
  }

  void account(std::size_t bytes) {
    bytes_in_use_ += static_cast<std::int64_t>(bytes);
    if (bytes_in_use_ > bytes_peak_) bytes_peak_ = bytes_in_use_;
  }

  void* do_allocate(std::size_t bytes, std::size_t alignment) override;

  void do_deallocate(void* block, std::size_t bytes, std::size_t /*alignment*/) override {
    release(block, bytes);
  }

  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  void* allocate_slowly(std::size_t bytes);
  void* carve(std::size_t bytes);
  /// Returns: where the `bytes` that can be used begin.
  std::byte* add_slab(std::size_t bytes);

  std::array<FreeBlock*, kClasses> free_{};
  std::vector<SystemBlock> slabs_;
  std::byte* slab_next_ = nullptr;
  std::byte* slab_end_ = nullptr;
  std::size_t shift_bytes_ = 0;
  std::int64_t n_system_ = 0;
  std::int64_t bytes_in_use_ = 0;
  std::int64_t bytes_peak_ = 0;
};

}  // namespace lockstep
