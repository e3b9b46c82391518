#include "lockstep/random/permutation.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <fmt/core.h>
#include <utility>

#include "lockstep/base/check.h"

namespace lockstep {
namespace {

// Steps whose targets are known before the first of them is carried out. Long enough to hide a
// cache miss by other work, short enough for the targets to stay in the first cache level.
constexpr std::size_t kBlock = 128;

using Block = std::array<std::uint32_t, kBlock>;

// draws[j] mod (first_divisor - j), in double arithmetic so that it vectorises. Exact: operands are
// below 2^32, so a quotient that is not an integer is at least 2^-32 (relative) away from one, and
// the division rounds by 2^-53. Quotients fit 31 bits because divisors are at least 2.
void remainders(Block& draws, std::uint32_t first_divisor) {
  for (std::size_t j = 0; j < kBlock; ++j) {
    const auto divisor = first_divisor - static_cast<std::uint32_t>(j);
    // AVX2 converts signed integers only; both operands move by 2^31 and back.
    const auto x = static_cast<double>(static_cast<std::int32_t>(draws[j] ^ 0x80000000U)) + 0x1p31;
    const auto y = static_cast<double>(static_cast<std::int32_t>(divisor ^ 0x80000000U)) + 0x1p31;
    const auto quotient = static_cast<std::uint32_t>(static_cast<std::int32_t>(x / y));
    draws[j] -= quotient * divisor;
  }
}

// The numbers being shuffled, as 32-bit words in the upper half of the caller's 64-bit array: half
// the memory traffic of shuffling 64-bit words, and no second array.
class Words {
 public:
  explicit Words(std::span<std::int64_t> out)
      : bytes_(reinterpret_cast<std::byte*>(out.data()) + 4 * out.size()) {
  }  // NOLINT(cppcoreguidelines-pro-type-reinterpret-cast)

  std::uint32_t get(std::size_t i) const {
    std::uint32_t word = 0;
    std::memcpy(&word, bytes_ + 4 * i, 4);
    return word;
  }

  void set(std::size_t i, std::uint32_t word) { std::memcpy(bytes_ + 4 * i, &word, 4); }

  void swap(std::size_t i, std::size_t k) {
    const std::uint32_t word = get(i);
    set(i, get(k));
    set(k, word);
  }

  void expect(std::size_t i) const { __builtin_prefetch(bytes_ + 4 * i, 1); }

 private:
  std::byte* bytes_;
};

}  // namespace

void shuffle_upwards(Generator& generator, std::span<std::int64_t> out) {
  const std::size_t n = out.size();
  LOCKSTEP_CHECK(
      n < (std::size_t{1} << 32U),
      fmt::format("the upward shuffle draws 32-bit numbers, too few for {} elements", n));
  if (n == 0) return;
  Words words(out);
  for (std::size_t i = 0; i < n; ++i) words.set(i, static_cast<std::uint32_t>(i));

  // While block `now` is carried out, the cache lines of block `later` are already on their way.
  const std::size_t swaps = n - 1;
  const std::size_t in_blocks = swaps / kBlock * kBlock;
  std::array<Block, 2> blocks{};
  const auto draw = [&](Block& block, std::size_t first) {
    generator.fill(block);
    remainders(block, static_cast<std::uint32_t>(n - first));
  };
  if (in_blocks > 0) draw(blocks[0], 0);
  for (std::size_t first = 0; first < in_blocks; first += kBlock) {
    const Block& now = blocks[first / kBlock % 2];
    Block& later = blocks[1 - first / kBlock % 2];
    const bool more = first + kBlock < in_blocks;
    if (more) draw(later, first + kBlock);
    for (std::size_t j = 0; j < kBlock; ++j) {
      if (more) words.expect(first + kBlock + j + later[j]);
      words.swap(first + j, first + j + now[j]);
    }
  }
  for (std::size_t i = in_blocks; i < swaps; ++i) {
    words.swap(i, i + generator.random() % static_cast<std::uint32_t>(n - i));
  }

  // Widening in place: entry i is written at byte 8i, entries from i on are still to be read at
  // bytes 4n + 4i and above, and 8i < 4n + 4i.
  for (std::size_t i = 0; i < n; ++i) out[i] = words.get(i);
}

void shuffle_inside_out(Generator& generator, std::span<std::int64_t> out) {
  constexpr std::size_t kAhead = 32;
  std::array<std::uint64_t, kAhead> places{};
  for (std::size_t first = 0; first < out.size(); first += kAhead) {
    const std::size_t n = std::min(kAhead, out.size() - first);
    for (std::size_t j = 0; j < n; ++j) {
      places[j] = generator.random64() % (first + j + 1);
      __builtin_prefetch(out.data() + places[j], 1);
    }
    for (std::size_t j = 0; j < n; ++j) {
      const std::size_t i = first + j;
      out[i] = static_cast<std::int64_t>(i);
      out[i] = out[places[j]];
      out[places[j]] = static_cast<std::int64_t>(i);
    }
  }
}

void randperm(Generator& generator, std::span<std::int64_t> out) {
  if (static_cast<std::int64_t>(out.size()) < kLargePermutation) {
    shuffle_upwards(generator, out);
  } else {
    shuffle_inside_out(generator, out);
  }
}

std::vector<std::int64_t> randperm(Generator& generator, std::int64_t n) {
  LOCKSTEP_CHECK(n >= 0, fmt::format("a permutation of {} elements: a size is never negative", n));
  std::vector<std::int64_t> out(static_cast<std::size_t>(n));
  randperm(generator, out);
  return out;
}

}  // namespace lockstep
