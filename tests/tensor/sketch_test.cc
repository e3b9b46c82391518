#include "lockstep/tensor/sketch.h"

#include <array>
#include <bit>
#include <cmath>
#include <sstream>

#include <gtest/gtest.h>

#include "lockstep/base/text.h"
#include "lockstep/tensor/digest.h"

#include "tests/golden/golden_file.h"
#include "tests/support/test_runtime.h"

namespace lockstep {
namespace {

using testing::TestRuntime;

std::vector<double> doubles(const std::string& words) {
  std::vector<double> values;
  std::istringstream stream(words);
  for (std::string word; stream >> word;) {
    values.push_back(std::bit_cast<double>(parse_hex64(word).value()));
  }
  return values;
}

TEST(SketchTest, AgreesWithPlainPythonBitForBit) {
  const std::vector<golden::Case> lines = golden::read("sketches.txt");
  ASSERT_EQ(lines.size(), 16U);

  for (std::size_t i = 0; i < lines.size(); i += 2) {
    const std::vector<double> values = doubles(lines[i].values);
    const std::vector<double> expected = doubles(lines[i + 1].values);

    const Sketch sketch =
        sketch_of(values.data(), static_cast<std::int64_t>(values.size()), DType::kF64);

    EXPECT_EQ(sketch.l1, expected[0]);
    for (std::size_t j = 0; j < 4; ++j) EXPECT_EQ(sketch.sums[j], expected[j + 1]) << values.size();
  }
}

TEST(SketchTest, IsLinearWhereNothingRounds) {
  TestRuntime test;
  const Tensor a = Tensor::of(test.runtime, {3}, DType::kF32, std::vector<double>{1, -2, 4});
  const Tensor b = Tensor::of(test.runtime, {3}, DType::kF32, std::vector<double>{3, 6, -8});
  const Tensor mean = Tensor::of(test.runtime, {3}, DType::kF32, std::vector<double>{2, 2, -2});

  const Sketch of_a = test.kernels->sketch(a);
  const Sketch of_b = test.kernels->sketch(b);
  const Sketch of_mean = test.kernels->sketch(mean);

  for (std::size_t j = 0; j < 4; ++j) {
    EXPECT_EQ(of_mean.sums[j], (of_a.sums[j] + of_b.sums[j]) / 2);
  }
}

TEST(SketchTest, NoticesAMeanThatLostARank) {
  const std::array<float, 2> lost = {1, 1};
  const std::array<float, 2> whole = {2, 2};

  EXPECT_NE(sketch_of(lost.data(), 2, DType::kF32), sketch_of(whole.data(), 2, DType::kF32));
}

TEST(SketchTest, WidensSixteenBitFloats) {
  TestRuntime test;
  const std::vector<double> values = {1, -2, 0.5, 96, 3};
  const Tensor half = Tensor::of(test.runtime, {5}, DType::kF16, values);
  const Tensor brain = Tensor::of(test.runtime, {5}, DType::kBF16, values);

  EXPECT_EQ(test.kernels->sketch(half), sketch_of(values.data(), 5, DType::kF64));
  EXPECT_EQ(test.kernels->sketch(brain), sketch_of(values.data(), 5, DType::kF64));
}

TEST(SketchTest, IntegersHaveNone) {
  const std::array<std::int32_t, 1> one = {1};

  EXPECT_THROW(sketch_of(one.data(), 1, DType::kI32), ContractViolation);
}

/// The definition, element by element.
template <typename T>
Sketch plain_sketch(const std::vector<T>& values) {
  std::array<std::array<double, Sketch::kLanes>, 5> lanes{};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto x = static_cast<double>(values[i]);
    const std::uint64_t signs = mix64((i + 1) * kGolden64);
    lanes[4][i % Sketch::kLanes] += std::abs(x);
    for (std::size_t j = 0; j < 4; ++j) {
      lanes[j][i % Sketch::kLanes] += ((signs >> j) & 1U) != 0 ? -x : x;
    }
  }
  Sketch sketch;
  for (const double lane : lanes[4]) sketch.l1 += lane;
  for (std::size_t j = 0; j < 4; ++j) {
    for (const double lane : lanes[j]) sketch.sums[j] += lane;
  }
  return sketch;
}

template <typename T>
std::vector<T> some_values(std::size_t n) {
  std::vector<T> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<T>(i % 97) * T(0.37) - T(11);
  return values;
}

TEST(SketchTest, IsItsDefinitionWithAndWithoutATableOfSigns) {
  SketchSigns signs;
  for (const std::int64_t n :
       {0, 1, 7, 8, 9, 15, 16, 17, 1023, 1024, 1025, 5000, 2048, 2049, 3000, 9001}) {
    const auto floats = some_values<float>(static_cast<std::size_t>(n));
    const auto doubles_too = some_values<double>(static_cast<std::size_t>(n));
    const Sketch of_floats = plain_sketch(floats);
    EXPECT_EQ(sketch_of(floats.data(), n, DType::kF32), of_floats) << n;
    EXPECT_EQ(sketch_of(floats.data(), n, DType::kF32, &signs), of_floats) << n;
    EXPECT_EQ(sketch_of(doubles_too.data(), n, DType::kF64, &signs), plain_sketch(doubles_too))
        << n;
  }
}

TEST(SketchTest, TheTableOfSignsEnds) {
  constexpr std::size_t kN = SketchSigns::kMost + 2051;
  const auto values = some_values<float>(kN);
  SketchSigns signs;
  EXPECT_EQ(sketch_of(values.data(), std::ssize(values), DType::kF32, &signs),
            plain_sketch(values));
  EXPECT_EQ(signs.of_first(kN).size() * SketchSigns::kPerWord, SketchSigns::kMost);
}

TEST(FingerprintTest, IsTheDigestAndTheSketchWhateverTheSize) {
  for (const std::int64_t n : {0, 1, 7, 8, 9, 1023, 1024, 1025, 2048, 2049, 5000}) {
    std::vector<float> values(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(i % 97) * 0.37F - 11.0F;
    }

    const TensorFingerprint print = fingerprint_of(values.data(), n, DType::kF32);

    EXPECT_EQ(print.digest, sm64(values.data(), n, DType::kF32)) << n;
    EXPECT_EQ(print.sketch, sketch_of(values.data(), n, DType::kF32)) << n;
  }
}

}  // namespace
}  // namespace lockstep
