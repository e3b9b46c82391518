// What traces say of a distance, with values, with sketches and with digests alone.
#include "lockstep/compare/recorded_distance.h"

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/compare/first_difference.h"

#include "tests/support/event_stream.h"

namespace lockstep {
namespace {

using testing::EventStream;

/// What one rank's trace says of the gradient of `w`.
struct Recorded {
  std::uint64_t digest = 1;
  std::vector<Sketch> sketches = {};
  std::vector<double> values = {};
  std::int64_t n_elems = 2;
};

EventStream trace_of(const Recorded& recorded) {
  EventStream stream(1);
  const std::array<std::uint64_t, 1> digests = {recorded.digest};
  const std::array<std::int64_t, 1> sizes = {recorded.n_elems};
  stream.at(0) = {.wrapper = 0, .sync = 3, .opt = 3};
  stream.add(0,
             GradEvent{.point = GradPoint::kPost,
                       .layout = stream.layout({"w"}),
                       .digests = digests,
                       .sketches = recorded.sketches,
                       .n_elems = sizes,
                       .dtype = DType::kF32});
  if (!recorded.values.empty()) {
    stream.add(
        0,
        ValueEvent{
            .tensor = stream.name("w"), .point = ValuePoint::kGradPost, .values = recorded.values});
  }
  return stream;
}

MemoryTrace stored(const Recorded& recorded) {
  EventStream stream = trace_of(recorded);
  MemoryTrace copy(stream.trace().shared_names());
  stream.play(copy);
  return copy;
}

std::string between(const Recorded& left, const Recorded& right) {
  const MemoryTrace a = stored(left);
  const MemoryTrace b = stored(right);
  const auto found = cli::first_difference(a, b, cli::Timing::kIgnored);
  if (!found || !found->distance) return "";
  return found->distance->text;
}

TEST(RecordedDistanceTest, ValuesOfBothRunsGiveElementsAndUlps) {
  const double next = std::nextafter(2.0F, 3.0F);
  EXPECT_EQ(
      between({.digest = 1, .values = {1.0, 2.0}}, {.digest = 2, .values = {1.0, next}}),
      "[1] is 2 against 2.000000238418579; 1 of 2 elements differ, by 2.384185791015625e-07 at "
      "most, 1 ulp of float32, at [1]");
}

TEST(RecordedDistanceTest, DigestsAloneSayThatTheyDoNotKnow) {
  EXPECT_EQ(between({.digest = 1}, {.digest = 2}),
            "digests do not show which elements differ, and by how many ulps: record both runs "
            "with --values");
}

// A run recorded with values and one without are compared by their digests.
TEST(RecordedDistanceTest, ValuesOfOneRunAloneAreNoDifference) {
  EXPECT_EQ(between({.digest = 1, .values = {1.0, 2.0}}, {.digest = 1}), "");
  const std::string text = between({.digest = 1, .values = {1.0, 2.0}}, {.digest = 2});
  EXPECT_NE(text.find("record both runs"), std::string::npos) << text;
}

// (1, 2) against (1, 5): the sums of +-x differ by 3 where element 1 counts, whichever its sign.
TEST(RecordedDistanceTest, SketchesBoundTheSumOfDifferencesFromBelow) {
  const std::vector<float> a = {1.0F, 2.0F};
  const std::vector<float> b = {1.0F, 5.0F};
  const MemoryTrace left = stored({1, {sketch_of(a.data(), 2, DType::kF32)}});
  const MemoryTrace right = stored({2, {sketch_of(b.data(), 2, DType::kF32)}});
  const RecordedDistance found = recorded_distance({&left, Rank{0}, 0}, {&right, Rank{0}, 0}, "w");
  ASSERT_TRUE(found.least_sum.has_value());
  // Two terms: 2 * 2^-52 of the sums 3 and 6 of absolute values are taken off for rounding.
  EXPECT_EQ(*found.least_sum, 3.0 - 2 * 0x1p-52 * 9.0);
  EXPECT_FALSE(found.values.has_value());
}

// The bound holds for values that are far apart in size, where the sums themselves round.
TEST(RecordedDistanceTest, ASketchNeverClaimsMoreThanThereIs) {
  const std::vector<double> a = {1e16, 1.0, -1e16, 3.0};
  const std::vector<double> b = {1e16, 1.5, -1e16, 3.0};
  const MemoryTrace left =
      stored({.digest = 1, .sketches = {sketch_of(a.data(), 4, DType::kF64)}, .n_elems = 4});
  const MemoryTrace right =
      stored({.digest = 2, .sketches = {sketch_of(b.data(), 4, DType::kF64)}, .n_elems = 4});
  const RecordedDistance found = recorded_distance({&left, Rank{0}, 0}, {&right, Rank{0}, 0}, "w");
  EXPECT_LE(found.least_sum.value_or(0.0), 0.5);
}

TEST(RecordedDistanceTest, AWrittenOutNaNHidesItsBits) {
  const double nan = std::nan("");
  EXPECT_EQ(between({.digest = 1, .values = {nan, 1.0}}, {.digest = 2, .values = {nan, 1.0}}),
            "no recorded value differs: the bits of a NaN do, which values do not keep");
}

}  // namespace
}  // namespace lockstep
