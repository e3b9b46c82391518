// The stream of random bits for every draw of a run: the Mersenne Twister of PyTorch's CPU
// generator.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

namespace lockstep {

/// A stream of 32-bit draws, bit-equal to a `torch.Generator` on the CPU with the same seed.
///
/// A value: a copy continues from the same place on its own. 2.5 KiB, so a world of 100,000 ranks
/// can afford one each.
///
/// Deterministic: the draws depend on the low 32 bits of the seed and nothing else.
/// Source: Matsumoto and Nishimura, "Mersenne Twister", ACM TOMACS 8(1), 1998 (MT19937); PyTorch
///     1.13, ATen/core/MT19937RNGEngine.h.
class Generator {
 public:
  static constexpr std::uint64_t kDefaultSeed = 67280421310721ULL;  ///< PyTorch's own default.

  explicit Generator(std::uint64_t seed = kDefaultSeed) { manual_seed(seed); }

  /// Starts the stream of `seed` and forgets cached normal samples. Negative seeds arrive here as
  /// their value modulo 2^64, as in PyTorch.
  void manual_seed(std::uint64_t seed);

  /// All 64 bits of the last seed, also those the stream ignores.
  std::uint64_t initial_seed() const { return seed_; }

  /// The next 32-bit draw.
  std::uint32_t random() {
    if (--left_ == 0) twist();
    return tempered(state_[next_++]);
  }

  /// Two draws; the first is the high word.
  std::uint64_t random64() {
    const std::uint64_t high = random();
    return (high << 32U) | random();
  }

  /// Writes the next out.size() draws: the same stream as random(), several times faster.
  void fill(std::span<std::uint32_t> out);

  /// The second half of a Box-Muller pair, kept for the next scalar normal draw. Part of the state.
  std::optional<double> take_cached_normal() { return std::exchange(cached_normal_, std::nullopt); }

  /// Keeps the second half, in the place of one that is kept already.
  void cache_normal(double sample) { cached_normal_ = sample; }

  static constexpr std::size_t kStateBytes = 5056;

  /// The state in the byte layout of `torch.Generator.get_state()`, unused bytes zero.
  std::array<std::uint8_t, kStateBytes> state() const;

  /// Continues from a state written by state() or by PyTorch.
  ///
  /// Returns: false, with nothing changed, when the bytes are not such a state.
  bool set_state(std::span<const std::uint8_t> bytes);

 private:
  static constexpr std::uint32_t kWords = 624;

  static std::uint32_t tempered(std::uint32_t y) {
    y ^= y >> 11U;
    y ^= (y << 7U) & 0x9d2c5680U;
    y ^= (y << 15U) & 0xefc60000U;
    return y ^ (y >> 18U);
  }

  void twist();

  std::uint64_t seed_ = 0;
  std::uint32_t left_ = 1;  ///< Draws until the next twist, plus one.
  std::uint32_t next_ = 0;  ///< Word that the next draw reads.
  std::array<std::uint32_t, kWords> state_{};
  std::optional<double> cached_normal_;
};

}  // namespace lockstep
