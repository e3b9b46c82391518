// The stream of random choices.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::sim {

/// SplitMix64 (Steele, Lea, Flood 2014): one addition of state, so a seed is the whole state.
class SplitMix {
 public:
  explicit SplitMix(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += kIncrement;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31U);
  }

  /// What below(n) returns after `ahead` other numbers.
  std::size_t peek_below(std::size_t n, std::size_t ahead) const {
    SplitMix later(state_ + ahead * kIncrement);
    return later.below(n);
  }

  /// One of 0 .. n-1. Multiply-shift instead of a remainder: its bias is below 2^-32 for any n that
  /// fits memory.
  std::size_t below(std::size_t n) {
    const std::uint64_t word = next() >> 32U;
    return static_cast<std::size_t>((word * n) >> 32U);
  }

 private:
  static constexpr std::uint64_t kIncrement = 0x9e3779b97f4a7c15U;

  std::uint64_t state_;
};

}  // namespace lockstep::sim
