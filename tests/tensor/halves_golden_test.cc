// Conversions to and from 16-bit floats, bit for bit against a real PyTorch
// (tests/golden/halves.txt).
#include <bit>
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "lockstep/base/half.h"

#include "tests/golden/golden_bits.h"
#include "tests/support/test_runtime.h"

namespace lockstep {
namespace {

using testing::TestRuntime;

/// SplitMix64's i-th output from seed 0.
std::uint64_t mixed(std::uint64_t i) {
  std::uint64_t z = (i + 1) * 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31U);
}

struct Layout {
  unsigned width;
  unsigned fraction;
  std::uint64_t bias;
};

Layout layout_of(DType dtype) {
  return dtype == DType::kF32 ? Layout{32, 23, 127} : Layout{64, 52, 1023};
}

/// The inputs of make_halves.py: any bits for even i, else an exponent around f16's range.
std::uint64_t pattern(std::uint64_t i, const Layout& layout) {
  const std::uint64_t word = mixed(i) >> (64U - layout.width);
  if (i % 2 == 0) return word;
  const std::uint64_t exponent = layout.bias - 28 + mixed(i + (1ULL << 32U)) % 48;
  const std::uint64_t sign = word >> (layout.width - 1U) << (layout.width - 1U);
  return sign | exponent << layout.fraction | (word & ((1ULL << layout.fraction) - 1U));
}

Tensor from_words(Runtime& runtime, const std::vector<std::uint64_t>& words, DType dtype) {
  const Tensor tensor = Tensor::empty(runtime, {static_cast<std::int64_t>(words.size())}, dtype);
  const auto n_bytes = static_cast<std::size_t>(size_of(dtype));
  auto* bytes = static_cast<std::byte*>(tensor.raw());
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::memcpy(bytes + i * n_bytes, &words[i], n_bytes);  // Little-endian, as everywhere here.
  }
  return tensor;
}

std::vector<std::string> half_words(const Tensor& tensor) {
  std::vector<std::string> words;
  const auto* bits = static_cast<const std::uint16_t*>(tensor.raw());
  for (std::int64_t i = 0; i < tensor.n_elems(); ++i) words.push_back(hex64(bits[i]).substr(12));
  return words;
}

struct Conversion {
  std::vector<std::uint64_t> in;
  std::vector<std::string> out;
};

Conversion read_conversion(const golden::Case& one) {
  Conversion result;
  const Layout layout = layout_of(parse_enum<DType>(one.arguments[0]).value());
  for (const std::string& word : golden::words_of(one.values)) {
    const std::size_t cut = word.find('>');
    if (cut != std::string::npos) {
      result.in.push_back(parse_hex64(word.substr(0, cut)).value());
      result.out.push_back(word.substr(cut + 1));
    } else {
      result.in.push_back(pattern(result.in.size(), layout));
      result.out.push_back(word);
    }
  }
  return result;
}

TEST(HalvesGoldenTest, RoundingToSixteenBitsEqualsTorch) {
  TestRuntime test;
  std::size_t n_converted = 0;
  for (const golden::Case& one : golden::read("halves.txt")) {
    if (one.kind == "back") continue;
    const Conversion conversion = read_conversion(one);
    const Tensor in =
        from_words(test.runtime, conversion.in, parse_enum<DType>(one.arguments[0]).value());
    const std::vector<std::string> got =
        half_words(in.to(parse_enum<DType>(one.arguments[1]).value()));
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i], conversion.out[i]) << one.text() << " of " << hex64(conversion.in[i]);
    }
    n_converted += got.size();
  }
  EXPECT_GT(n_converted, 12000U);
}

TEST(HalvesGoldenTest, ReadingBackEveryPatternEqualsTorch) {
  TestRuntime test;
  int n_formats = 0;
  for (const golden::Case& one : golden::read("halves.txt")) {
    if (one.kind != "back") continue;
    std::vector<std::uint64_t> every;
    for (std::uint64_t word = 0; word < 65536; ++word) every.push_back(word);
    const Tensor wide = from_words(test.runtime, every, parse_enum<DType>(one.arguments[0]).value())
                            .to(DType::kF32);
    std::vector<std::int64_t> bits;
    for (const float value : wide.span<float>()) {
      if (!std::isnan(value)) bits.push_back(std::bit_cast<std::int32_t>(value));
    }
    EXPECT_EQ(golden::listed(bits), one.values) << one.text();
    ++n_formats;
  }
  EXPECT_EQ(n_formats, 2);
}

// Negative twins: other ways to drop bits are not what the file says.
TEST(HalvesGoldenTest, CuttingBitsOffOrRoundingTiesUpIsNoticed) {
  int n_cut = 0;
  int n_ties = 0;
  for (const golden::Case& one : golden::read("halves.txt")) {
    if (one.kind != "special" || one.arguments[0] != "f32" || one.arguments[1] != "bf16") continue;
    const Conversion conversion = read_conversion(one);
    for (std::size_t i = 0; i < conversion.in.size(); ++i) {
      const std::string cut = hex64(conversion.in[i] >> 16U).substr(12);
      const std::string up = hex64((conversion.in[i] + 0x8000U) >> 16U).substr(12);
      n_cut += cut != conversion.out[i] ? 1 : 0;
      n_ties += up != conversion.out[i] ? 1 : 0;
    }
  }
  EXPECT_GT(n_cut, 10);
  EXPECT_GT(n_ties, 3);
}

}  // namespace
}  // namespace lockstep
