#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "lockstep/tensor/digest.h"

namespace lockstep {
namespace {

// D(whole) = D(head) + D(tail taken at its offset): what lets buckets, views and shards compose.
RC_GTEST_PROP(DigestProperty, SlicesAddUp, (const std::vector<std::uint32_t>& bits)) {
  const auto n = static_cast<std::int64_t>(bits.size());
  const auto cut = *rc::gen::inRange<std::int64_t>(0, n + 1);
  const auto base = *rc::gen::arbitrary<std::uint64_t>();

  const std::uint64_t head = sm64(bits.data(), cut, DType::kF32, base);
  const std::uint64_t tail =
      sm64(bits.data() + cut, n - cut, DType::kF32, base + static_cast<std::uint64_t>(cut));

  RC_ASSERT(sm64(bits.data(), n, DType::kF32, base) == head + tail);
}

RC_GTEST_PROP(DigestProperty,
              ATailTakenAtTheWrongOffsetIsNoticed,
              (const std::vector<std::uint32_t>& bits)) {
  RC_PRE(bits.size() > 1U);
  const auto n = static_cast<std::int64_t>(bits.size());

  const std::uint64_t tail_at_zero = sm64(bits.data() + 1, n - 1, DType::kF32, 0);

  RC_ASSERT(sm64(bits.data(), n, DType::kF32) != sm64(bits.data(), 1, DType::kF32) + tail_at_zero);
}

RC_GTEST_PROP(DigestProperty, AnyFlippedBitIsNoticed, (std::vector<std::uint64_t> bits)) {
  RC_PRE(!bits.empty());
  const auto n = static_cast<std::int64_t>(bits.size());
  const auto at = *rc::gen::inRange<std::size_t>(0, bits.size());
  const auto bit = *rc::gen::inRange(0U, 64U);
  const std::uint64_t before = sm64(bits.data(), n, DType::kI64);

  bits[at] ^= std::uint64_t{1} << bit;

  RC_ASSERT(sm64(bits.data(), n, DType::kI64) != before);
}

}  // namespace
}  // namespace lockstep
