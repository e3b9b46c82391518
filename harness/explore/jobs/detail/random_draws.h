// Drawing small things from a seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::detail {

/// A stream of small numbers. Source: splitmix64 (Steele, Lea, Flood, OOPSLA 2014).
class RandomDraws {
 public:
  /// Streams of neighbouring seeds and indices have nothing in common.
  RandomDraws(std::uint64_t seed, std::uint64_t index) : state_(mixed(seed + kStep) + index) {
    next();
  }

  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(n));
  }

  std::int64_t between(std::int64_t first, std::int64_t last) {
    return first + below(last - first + 1);
  }

  bool chance(std::int64_t percent) { return below(100) < percent; }

  template <typename T>
  T one_of(std::initializer_list<T> choices) {
    return choices.begin()[below(static_cast<std::int64_t>(choices.size()))];
  }

 private:
  static constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15U;

  static std::uint64_t mixed(std::uint64_t z) {
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31U);
  }

  std::uint64_t next() {
    state_ += kStep;
    return mixed(state_);
  }

  std::uint64_t state_;
};

}  // namespace lockstep::detail
