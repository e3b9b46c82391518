// The sizes of a tensor, as a small value without a heap.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "lockstep/base/check.h"

namespace lockstep {

/// Up to four sizes, outermost first. `{}` is a scalar with one element.
///
/// Four is what images (N, C, H, W) and attention (B, H, T, D) need; a fixed bound keeps tensors
/// flat. The bound of the elements keeps every number derived from a shape (bytes, strides, the end
/// of a slice) far from overflow, and is more than any machine holds.
class Shape {
 public:
  static constexpr std::size_t kMaxDims = 4;
  static constexpr std::int64_t kMaxElems = std::int64_t{1} << 50;

  Shape() = default;

  /// Whether these can be the sizes of a tensor: at most kMaxDims, none negative, and at most
  /// kMaxElems elements, where a size of 0 counts as 1. Sizes from outside are asked first.
  static constexpr bool fits(std::span<const std::int64_t> sizes) {
    if (sizes.size() > kMaxDims) return false;
    std::int64_t most = 1;
    for (const std::int64_t size : sizes) {
      if (size < 0 || __builtin_mul_overflow(most, size == 0 ? 1 : size, &most)) return false;
      if (most > kMaxElems) return false;
    }
    return true;
  }

  /// Requires: fits(sizes).
  Shape(std::initializer_list<std::int64_t> sizes)
      : Shape(std::span(sizes.begin(), sizes.size())) {}

  explicit Shape(std::span<const std::int64_t> sizes) {
    LOCKSTEP_CHECK(fits(sizes), complaint_about(sizes));
    for (const std::int64_t size : sizes) sizes_[n_dims_++] = size;
  }

  std::size_t n_dims() const { return n_dims_; }

  std::int64_t operator[](std::size_t dim) const { return sizes_[dim]; }

  std::span<const std::int64_t> sizes() const { return {sizes_.data(), n_dims_}; }

  std::int64_t n_elems() const {
    std::int64_t n = 1;
    for (std::size_t i = 0; i < n_dims_; ++i) n *= sizes_[i];
    return n;
  }

  std::string text() const;  ///< "[2, 3]".

  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  static std::string complaint_about(std::span<const std::int64_t> sizes);

  std::array<std::int64_t, kMaxDims> sizes_{};
  std::size_t n_dims_ = 0;
};

}  // namespace lockstep
