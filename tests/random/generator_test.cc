#include "lockstep/random/generator.h"

#include <array>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

// The paper's test seed; the ten-thousandth output is fixed by the C++ standard, [rand.predef].
TEST(GeneratorTest, TenThousandthDrawIsTheStandardsOwn) {
  Generator generator(5489);
  for (int i = 1; i < 10000; ++i) generator.random();
  EXPECT_EQ(generator.random(), 4123659995U);
}

TEST(GeneratorTest, EqualsTheStandardLibrarysTwisterOverSeveralBlocks) {
  std::mt19937 model(1234);
  Generator generator(1234);
  for (int i = 0; i < 3000; ++i) ASSERT_EQ(generator.random(), model()) << "draw " << i;
}

TEST(GeneratorTest, AStreamIsItsSeedsOwnWhicheverSeedsWereUsedBefore) {
  for (const std::uint32_t seed : {7U, 7U, 8U, 7U, 0U, 0U}) {
    std::mt19937 model(seed);
    Generator generator(seed);
    for (int i = 0; i < 700; ++i)
      ASSERT_EQ(generator.random(), model()) << "seed " << seed << ", draw " << i;
  }
}

TEST(GeneratorTest, SeedsEqualInTheLow32BitsGiveOneStream) {
  Generator low(42);
  Generator high((std::uint64_t{1} << 32U) + 42);
  EXPECT_EQ(low.random(), high.random());
  EXPECT_EQ(high.initial_seed(), (std::uint64_t{1} << 32U) + 42);
}

TEST(GeneratorTest, SeedsThatDifferInTheLow32BitsGiveOtherStreams) {
  EXPECT_NE(Generator(42).random(), Generator(43).random());
}

TEST(GeneratorTest, SixtyFourBitsAreTwoDrawsHighWordFirst) {
  Generator words(0);
  EXPECT_EQ(words.random64(), 0x8c7f0aac97c4aa2fULL);
}

TEST(GeneratorTest, FillContinuesTheStreamFromAnyPlace) {
  for (const std::size_t before : {0U, 1U, 623U, 624U, 625U}) {
    for (const std::size_t count : {0U, 1U, 623U, 624U, 625U, 1300U}) {
      std::mt19937 model(7);
      model.discard(before);
      Generator generator(7);
      for (std::size_t i = 0; i < before; ++i) generator.random();

      std::vector<std::uint32_t> words(count);
      generator.fill(words);

      for (const std::uint32_t word : words) ASSERT_EQ(word, model());
      ASSERT_EQ(generator.random(), model()) << before << " then " << count;
    }
  }
}

TEST(GeneratorTest, ASeedStartsOverAndForgetsTheCachedNormal) {
  Generator generator(3);
  const std::uint32_t first = generator.random();
  generator.cache_normal(1.5);
  generator.manual_seed(3);
  EXPECT_EQ(generator.random(), first);
  EXPECT_FALSE(generator.take_cached_normal().has_value());
}

TEST(GeneratorTest, ACachedNormalIsTakenOnce) {
  Generator generator(3);
  generator.cache_normal(1.5);
  EXPECT_EQ(generator.take_cached_normal(), 1.5);
  EXPECT_FALSE(generator.take_cached_normal().has_value());
}

TEST(GeneratorTest, AStateContinuesWhereItWasTaken) {
  for (const int before : {0, 1, 624, 1000}) {
    Generator original(11);
    for (int i = 0; i < before; ++i) original.random();
    original.cache_normal(-0.25);

    Generator copy(0);
    ASSERT_TRUE(copy.set_state(original.state()));

    EXPECT_EQ(copy.initial_seed(), 11U);
    EXPECT_EQ(copy.take_cached_normal(), -0.25);
    for (int i = 0; i < 700; ++i) ASSERT_EQ(copy.random(), original.random());
  }
}

TEST(GeneratorTest, DamagedStatesAreRefusedAndChangeNothing) {
  const auto good = Generator(11).state();
  auto wrong_position = good;
  wrong_position[16] = 9;
  auto unseeded = good;
  unseeded[12] = 0;
  auto left_behind = good;
  left_behind[8] = 0;

  Generator generator(5);
  EXPECT_FALSE(generator.set_state(std::span(good).first(100)));
  EXPECT_FALSE(generator.set_state(wrong_position));
  EXPECT_FALSE(generator.set_state(unseeded));
  EXPECT_FALSE(generator.set_state(left_behind));
  EXPECT_EQ(generator.random(), Generator(5).random());
}

}  // namespace
}  // namespace lockstep
