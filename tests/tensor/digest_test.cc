#include "lockstep/tensor/digest.h"

#include <cstring>
#include <numeric>
#include <sstream>

#include <gtest/gtest.h>

#include "lockstep/base/text.h"

#include "tests/golden/golden_file.h"
#include "tests/support/test_runtime.h"

namespace lockstep {
namespace {

using testing::TestRuntime;

std::uint64_t digest_of(DType dtype, const std::vector<double>& values, std::uint64_t base = 0) {
  TestRuntime test;
  const Shape shape{static_cast<std::int64_t>(values.size())};
  return test.kernels->digest(Tensor::of(test.runtime, shape, dtype, values), base);
}

// The same words come out of PyTorch and of plain C++ loops.
TEST(DigestTest, F32TensorsHaveTheirKnownDigests) {
  EXPECT_EQ(digest_of(DType::kF32, {}), 0U);
  EXPECT_EQ(digest_of(DType::kF32, {0}), 0xe220a8397b1dcdafU);
  EXPECT_EQ(digest_of(DType::kF32, {0, 0, 0}), 0x575da3bc9ce078f2U);
  EXPECT_EQ(digest_of(DType::kF32, {1}), 0xfd695a1b70dc1235U);
  EXPECT_EQ(digest_of(DType::kF32, {-0.0}), 0x25493cc63225736cU);
  EXPECT_EQ(digest_of(DType::kF32, {1, 2, 3}), 0x06eeadf07b8738b2U);
  EXPECT_EQ(digest_of(DType::kF32, {2, 1, 3}), 0x8eb85419fbd048d9U);
  EXPECT_EQ(digest_of(DType::kF32, {1, 2, 3}, 5), 0x8335bc1684693220U);
}

TEST(DigestTest, TensorsOfOtherTypesHaveTheirKnownDigests) {
  EXPECT_EQ(digest_of(DType::kF64, {1, 2, 3}), 0xc12e61feb0bf9e3aU);
  EXPECT_EQ(digest_of(DType::kF64, {1, 2}), 0x463f281b672605eaU);
  EXPECT_EQ(digest_of(DType::kF64, {-1, -2}), 0x293c354bea285970U);
  EXPECT_EQ(digest_of(DType::kF16, {1, -2}), 0x2ed75ead652a3db7U);
  EXPECT_EQ(digest_of(DType::kBF16, {1, -2}), 0x01a5084b2bad189aU);
  EXPECT_EQ(digest_of(DType::kI64, {-1, 0, 1}), 0x4be5b2d0b850e772U);
  EXPECT_EQ(digest_of(DType::kI32, {-1, 0, 1}), 0xdabd7cfc4cdd3d12U);
  EXPECT_EQ(digest_of(DType::kU8, {255, 0, 1}), 0x9a9891cae313fb06U);
  EXPECT_EQ(digest_of(DType::kI8, {-1, 0, 1}), 0x9a9891cae313fb06U);
  EXPECT_EQ(digest_of(DType::kBool, {1, 0, 1}), 0xf8166f4625ee1813U);
}

TEST(DigestTest, AComplexNumberIsAPairOfFloats) {
  EXPECT_EQ(digest_of(DType::kF32, {1, 2}), 0x38dc5791b0c77860U);
}

TEST(DigestTest, LongerTensorsHaveTheirKnownDigests) {
  std::vector<double> values(1000003);
  std::iota(values.begin(), values.end(), 0.0);
  const std::vector<double> transposed = {0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11};

  EXPECT_EQ(digest_of(DType::kF32, values), 0x82b7e51caa23bbc2U);
  values.resize(12);
  EXPECT_EQ(digest_of(DType::kF32, values), 0xfa4549f2c8801b63U);
  EXPECT_EQ(digest_of(DType::kF32, transposed), 0x085b3cee79010a3eU);
}

TEST(DigestTest, AgreesWithPlainIntegersOnRandomBits) {
  for (const golden::Case& line : golden::read("digests.txt")) {
    const auto size = static_cast<std::size_t>(line.integer(0));
    const auto base = static_cast<std::uint64_t>(line.integer(1));
    std::string bytes;
    std::istringstream words(line.values);
    for (std::string word; words >> word;) {
      const std::uint64_t bits = parse_hex64(word).value();
      bytes.append(reinterpret_cast<const char*>(&bits), size);  // Little endian, as all we run on.
    }
    const auto n = static_cast<std::int64_t>(bytes.size() / size);
    const DType dtype = size == 1   ? DType::kU8
                        : size == 2 ? DType::kF16
                        : size == 4 ? DType::kI32
                                    : DType::kI64;

    EXPECT_EQ(sm64(bytes.data(), n, dtype, base), parse_hex64(line.arguments[2])) << line.text();
  }
}

TEST(DigestTest, TakesNanAsItIs) {
  const std::uint32_t quiet = 0x7FC00000U;
  const std::uint32_t payload = 0xFFC00123U;

  EXPECT_EQ(sm64(&quiet, 1, DType::kF32), 0x597709b67ebb1c02U);
  EXPECT_NE(sm64(&payload, 1, DType::kF32), sm64(&quiet, 1, DType::kF32));
}

TEST(DigestTest, TheCanonicalFormHasOneZeroAndOneNan) {
  const std::array<std::uint32_t, 3> strange = {0x80000000U, 0xFFC00123U, 0x7F800001U};
  const std::array<std::uint32_t, 3> settled = {0, 0x7FC00000U, 0x7FC00000U};
  const std::array<std::uint16_t, 2> half = {0x8000, 0xFE01};
  const std::array<std::uint16_t, 2> settled_half = {0, 0x7E00};
  const std::array<std::uint64_t, 2> infinite = {0xFFF0000000000000U, 0x7FF0000000000000U};

  EXPECT_EQ(sm64_canonical(strange.data(), 3, DType::kF32), sm64(settled.data(), 3, DType::kF32));
  EXPECT_EQ(sm64_canonical(half.data(), 2, DType::kF16), sm64(settled_half.data(), 2, DType::kF16));
  EXPECT_EQ(sm64_canonical(infinite.data(), 2, DType::kF64), sm64(infinite.data(), 2, DType::kF64));
  EXPECT_EQ(sm64_canonical(strange.data(), 3, DType::kI32), sm64(strange.data(), 3, DType::kI32));
}

// By hand: two rows of eleven bytes are two words each, the second filled up with five zeros.
TEST(DigestTest, ARowIsMixedWordByWord) {
  const std::string_view bytes = "abcdefghijkABCDEFGHIJK";
  std::array<std::uint64_t, 2> rows{};
  digest_rows(bytes.data(), 11, rows);
  EXPECT_EQ(rows[0], mix64(mix64(11 ^ 0x6867666564636261) ^ 0x6B6A69));
  EXPECT_EQ(rows[1], mix64(mix64(11 ^ 0x4847464544434241) ^ 0x4B4A49));
}

TEST(DigestTest, RowsOfZerosDifferByTheirLength) {
  const std::array<std::uint64_t, 2> zeros{};
  std::array<std::uint64_t, 1> one{};
  std::array<std::uint64_t, 1> two{};
  digest_rows(zeros.data(), 8, one);
  digest_rows(zeros.data(), 16, two);
  EXPECT_NE(one, two);
}

}  // namespace
}  // namespace lockstep
