// What the elements of a flat buffer mean, as one number.
#pragma once

#include <cstdint>
#include <string_view>

#include "lockstep/tensor/digest.h"

namespace lockstep {

/// Folds (name, offset) pairs in order. Two buffers with equal digests hold the same tensors at the
/// same places, so a collective that adds another tensor's elements has an unequal signature.
///
/// Deterministic: depends on the text of the names alone. Never 0, which means "raw".
class LayoutDigest {
 public:
  void add(std::string_view name, std::int64_t offset) {
    for (const char c : name) fold(static_cast<unsigned char>(c));
    fold(0x100U + static_cast<std::uint64_t>(offset));
  }

  std::uint64_t value() const { return digest_ | 1U; }

 private:
  void fold(std::uint64_t word) { digest_ = mix64(digest_ + kGolden64 + word); }

  std::uint64_t digest_ = 0;
};

}  // namespace lockstep
