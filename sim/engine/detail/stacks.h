// Memory for fiber stacks: address space is reserved in bulk, pages come when touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::sim {

/// Stacks of one size, numbered from 0, each with a guard page below: all of them where the kernel
/// knows pages that only guard (Linux 6.13), else as many as it allows.
///
/// Reserving costs nothing until touched, so a million stacks are a matter of address space. Huge
/// pages are refused: one would make 32 stacks resident at once.
class Stacks {
 public:
  Stacks(std::size_t bytes, std::int32_t n_guarded);
  ~Stacks();
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;
  Stacks(Stacks&&) = delete;
  Stacks& operator=(Stacks&&) = delete;

  /// Makes stack `size()` available.
  void add();

  std::int32_t size() const { return n_stacks_; }

  std::byte* bottom(std::int32_t index) const {
    const auto i = static_cast<std::size_t>(index);
    return chunks_[i / kStacksPerChunk] + (i % kStacksPerChunk) * pitch_;
  }

  std::byte* top(std::int32_t index) const { return bottom(index) + pitch_; }

  std::size_t bytes() const { return pitch_; }

  bool is_guarded(std::int32_t index) const { return index < n_guarded_; }

  /// The stack that has `address` in its guard page, or -1.
  std::int32_t guarded_by(const void* address) const;
  /// Whether something wrote to the end of a stack without a guard page: fresh pages hold zeros.
  bool is_overrun(std::int32_t index) const;

 private:
  static constexpr std::size_t kStacksPerChunk = 1024;

  std::size_t pitch_;
  std::int32_t n_guarded_;
  std::int32_t n_stacks_ = 0;
  std::vector<std::byte*> chunks_;
};

inline constexpr std::size_t kStackPage = 4096;

}  // namespace lockstep::sim
