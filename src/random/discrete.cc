#include "lockstep/random/discrete.h"

#include <fmt/core.h>

#include "lockstep/base/check.h"

namespace lockstep {
namespace {

template <typename T>
void fill_mask(Generator& generator, std::span<T> out, double p) {
  LOCKSTEP_CHECK(p >= 0.0 && p <= 1.0,
                 fmt::format("a probability must be between 0 and 1, not {}", p));
  constexpr std::uint64_t kMask = (std::uint64_t{1} << 53U) - 1;
  for (T& value : out) {
    const double unit = static_cast<double>(generator.random64() & kMask) * 0x1p-53;
    value = unit < p ? T{1} : T{0};
  }
}

}  // namespace

void bernoulli(Generator& generator, std::span<float> out, double p) {
  fill_mask(generator, out, p);
}

void bernoulli(Generator& generator, std::span<double> out, double p) {
  fill_mask(generator, out, p);
}

void randint(Generator& generator, std::span<std::int64_t> out, IntegerRange range) {
  LOCKSTEP_CHECK(
      range.from < range.to,
      fmt::format("no integers to draw from {} to {}: the range is empty", range.from, range.to));
  // Unsigned, so that ranges wider than half of all integers wrap as they do in PyTorch.
  const auto from = static_cast<std::uint64_t>(range.from);
  const std::uint64_t n_integers = static_cast<std::uint64_t>(range.to) - from;
  const bool wide = n_integers >= std::uint64_t{1} << 32U;
  for (std::int64_t& value : out) {
    const std::uint64_t draw = wide ? generator.random64() : generator.random();
    value = static_cast<std::int64_t>(draw % n_integers + from);
  }
}

void random_integers(Generator& generator, std::span<std::int64_t> out) {
  for (std::int64_t& value : out) {
    value = static_cast<std::int64_t>(generator.random64() % (std::uint64_t{1} << 63U));
  }
}

void random_integers(Generator& generator, std::span<float> out) {
  for (float& value : out) {
    value = static_cast<float>(generator.random() % ((std::uint32_t{1} << 24U) + 1));
  }
}

void random_integers(Generator& generator, std::span<double> out) {
  for (double& value : out) {
    value = static_cast<double>(generator.random64() % ((std::uint64_t{1} << 53U) + 1));
  }
}

}  // namespace lockstep
