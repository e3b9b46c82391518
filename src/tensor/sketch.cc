#include "lockstep/tensor/sketch.h"

#include <bit>
#include <cmath>

#include "lockstep/base/check.h"
#include "lockstep/tensor/detail/dispatch.h"
#include "lockstep/tensor/digest.h"

namespace lockstep {

namespace {

constexpr std::size_t kLanes = Sketch::kLanes;

/// Eight partial sums for the magnitudes and for each projection.
struct Partial {
  std::array<std::array<double, kLanes>, 5> sums{};

  double total(std::size_t which) const {
    double sum = 0.0;
    for (const double lane : sums[which]) sum += lane;
    return sum;
  }
};

double flipped(double value, std::uint64_t sign_bit) {
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(value) ^ (sign_bit << 63U));
}

/// Adds up to eight consecutive elements, the first of them with the key `key`.
template <typename T>
void take(Partial& partial, const T* x, std::uint64_t key, std::size_t n) {
  std::array<double, kLanes> value{};
  std::array<std::uint64_t, kLanes> signs{};
  for (std::size_t lane = 0; lane < n; ++lane) {
    value[lane] = static_cast<double>(detail::load(x[lane]));
    signs[lane] = mix64(key + lane * kGolden64);
  }
  for (std::size_t lane = 0; lane < n; ++lane) partial.sums[0][lane] += std::fabs(value[lane]);
  for (std::size_t j = 0; j < 4; ++j) {
    for (std::size_t lane = 0; lane < n; ++lane) {
      partial.sums[j + 1][lane] += flipped(value[lane], signs[lane] >> j);
    }
  }
}

template <typename T>
Sketch sketch_of(const T* x, std::int64_t n_elems) {
  Partial partial;
  std::uint64_t key = kGolden64;
  auto rest = static_cast<std::size_t>(n_elems);
  for (; rest >= kLanes; rest -= kLanes, x += kLanes, key += kLanes * kGolden64) {
    take(partial, x, key, kLanes);
  }
  take(partial, x, key, rest);
  return {.l1 = partial.total(0),
          .sums = {partial.total(1), partial.total(2), partial.total(3), partial.total(4)}};
}

}  // namespace

Sketch sketch_of(const void* data, std::int64_t n_elems, DType dtype) {
  LOCKSTEP_CHECK(is_floating(dtype), "only floating-point tensors have a sketch");
  return detail::for_any(dtype, [&](auto tag) {
    return sketch_of(static_cast<const decltype(tag)*>(data), n_elems);
  });
}

}  // namespace lockstep
