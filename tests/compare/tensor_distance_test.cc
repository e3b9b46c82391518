// Elements that differ, how far and where: values written out by hand.
#include "lockstep/compare/tensor_distance.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

template <typename Number>
StoredTensor stored(ElementType type, const std::vector<Number>& values) {
  StoredTensor tensor{"t", type, {static_cast<std::int64_t>(values.size())}, {}};
  tensor.bytes.resize(values.size() * sizeof(Number));
  std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

TensorDistance of_floats(const std::vector<float>& left, const std::vector<float>& right) {
  return distance_between(stored(ElementType::kF32, left), stored(ElementType::kF32, right));
}

TEST(TensorDistanceTest, CountsElementsAndFindsTheLargestDistanceOfEachKind) {
  // 1 + 2^-23 is the next float after 1: one ulp, far less than 0.5, which is 2^18 ulps at 1024.
  const float next = std::nextafter(1.0F, 2.0F);
  const float tiny = std::bit_cast<float>(0x00100000U);  // The 2^20th float from 0.
  const TensorDistance found = of_floats({1, 1024, 7, 0}, {next, 1024.5F, 7, tiny});

  EXPECT_EQ(found.n_elements, 4);
  EXPECT_EQ(found.n_different, 3);
  EXPECT_EQ(found.first, 0);
  EXPECT_EQ(found.largest, 0.5);
  EXPECT_EQ(found.largest_at, 1);
  EXPECT_EQ(found.ulps, 1U << 20U);
  EXPECT_EQ(found.ulps_at, 3);
}

TEST(TensorDistanceTest, EqualTensorsHaveNone) {
  const TensorDistance found = of_floats({1, 2}, {1, 2});
  EXPECT_EQ(found.n_different, 0);
  EXPECT_EQ(found.first, -1);
  EXPECT_FALSE(found.largest.has_value());
}

TEST(TensorDistanceTest, TheSmallestNumbersOfEitherSignAreTwoApart) {
  const float least = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(of_floats({least}, {-least}).ulps, 2U);
}

TEST(TensorDistanceTest, EachTypeCountsItsOwnNumbers) {
  // 0x3f80 is 1 in bf16, 0x3c00 in f16; the next number adds 1 to the bits.
  using Words = std::vector<std::uint16_t>;
  const auto bf16 = distance_between(stored(ElementType::kBF16, Words{0x3f80}),
                                     stored(ElementType::kBF16, Words{0x3f83}));
  EXPECT_EQ(bf16.ulps, 3U);
  EXPECT_EQ(bf16.largest, 3.0 / 128);
  const auto f16 = distance_between(stored(ElementType::kF16, Words{0x3c00}),
                                    stored(ElementType::kF16, Words{0x3c02}));
  EXPECT_EQ(f16.ulps, 2U);
  EXPECT_EQ(f16.largest, 2.0 / 1024);
  using Doubles = std::vector<double>;
  const auto f64 = distance_between(stored(ElementType::kF64, Doubles{1.0}),
                                    stored(ElementType::kF64, Doubles{1.0 + 0x1p-52}));
  EXPECT_EQ(f64.ulps, 1U);
}

TEST(TensorDistanceTest, ANaNDiffersAndHasNoDistance) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const TensorDistance found = of_floats({nan, 1}, {0, 2});
  EXPECT_EQ(found.n_different, 2);
  EXPECT_EQ(found.n_beside_nan, 1);
  EXPECT_EQ(found.largest_at, 1);
  EXPECT_EQ(
      text_of(found, {}),
      "2 of 2 elements differ, by 1 at most, 8388608 ulps of float32, at [1], 1 of them with a "
      "NaN on a side");
}

TEST(TensorDistanceTest, IntegersAreOnlyCounted) {
  using Ints = std::vector<std::int64_t>;
  const auto found = distance_between(stored(ElementType::kI64, Ints{1, 2, 3}),
                                      stored(ElementType::kI64, Ints{1, 9, 3}));
  EXPECT_EQ(found.n_different, 1);
  EXPECT_EQ(found.first, 1);
  EXPECT_FALSE(found.ulps.has_value());
  EXPECT_EQ(text_of(found, {}), "1 of 3 elements differ");
}

TEST(TensorDistanceTest, TextNamesPlacesByTheShape) {
  const TensorDistance one_place = of_floats({0, 0, 0, 0, 0, 5}, {0, 0, 0, 0, 0, 5.25F});
  // Floats between 4 and 8 are 2^-21 apart.
  EXPECT_EQ(text_of(one_place, std::vector<std::int64_t>{2, 3}),
            "1 of 6 elements differ, by 0.25 at most, 524288 ulps of float32, at [1, 2]");
  const float next = std::nextafter(1.0F, 2.0F);
  const float half = std::nextafter(std::nextafter(0.5F, 1.0F), 1.0F);
  const TensorDistance two_places = of_floats({1024, 0.5F}, {1024.0F + 0x1p-13F, half});
  EXPECT_EQ(
      text_of(two_places, {}),
      "2 of 2 elements differ, by 0.0001220703125 at most at [0], by 2 ulps of float32 at most "
      "at [1]");
  EXPECT_EQ(text_of(of_floats({1}, {next}), {}),
            "1 of 1 element differs, by 1.1920928955078125e-07, 1 ulp of float32");
}

TEST(TensorDistanceTest, ZerosOfBothSignsDifferInABitAndByNothing) {
  const TensorDistance found = of_floats({0.0F}, {-0.0F});
  EXPECT_EQ(found.n_different, 1);
  EXPECT_EQ(found.ulps, 0U);
  EXPECT_EQ(text_of(found, {}), "1 of 1 element differs, in the sign of a zero");
}

TEST(TensorDistanceTest, RecordedValuesAreNumbersOfTheirTensorsType) {
  const double third = 1.0F / 3.0F;
  const double next = std::nextafter(1.0F / 3.0F, 1.0F);
  const std::vector<double> left = {1.0, third};
  const std::vector<double> right = {1.0, next};
  EXPECT_EQ(distance_between(left, right, FloatFormat::of(DType::kF32)).ulps, 1U);
  EXPECT_EQ(distance_between(left, right, FloatFormat::of(DType::kF64)).ulps, 1U << 29U);
  EXPECT_FALSE(distance_between(left, right, std::nullopt).ulps.has_value());
}

}  // namespace
}  // namespace lockstep
