// Masks and integers, bit for bit against a real PyTorch (tests/golden/layers_init.txt).
#include "lockstep/random/discrete.h"

#include <bit>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/check.h"

#include "tests/golden/golden_file.h"

namespace lockstep {
namespace {

template <typename T>
std::vector<std::int64_t> words_of(const std::vector<T>& values) {
  std::vector<std::int64_t> words;
  for (const T value : values) {
    if constexpr (sizeof(T) == 4) {
      words.push_back(std::bit_cast<std::int32_t>(value));
    } else {
      words.push_back(std::bit_cast<std::int64_t>(value));
    }
  }
  return words;
}

constexpr std::size_t kDraws = 50;  // A line's, tests/golden/make_layers.py.

template <typename T>
std::vector<std::int64_t> mask(Generator generator, double p) {
  std::vector<T> values(kDraws);
  bernoulli(generator, values, p);
  return words_of(values);
}

std::vector<std::int64_t> integers(Generator generator, IntegerRange range) {
  std::vector<std::int64_t> values(kDraws);
  randint(generator, values, range);
  return values;
}

template <typename T>
std::vector<std::int64_t> all_integers(Generator generator) {
  std::vector<T> values(kDraws);
  random_integers(generator, values);
  return words_of(values);
}

std::vector<std::int64_t> draw(const std::string& name, const Generator& generator) {
  if (name == "bernoulli_f32_0.1") return mask<float>(generator, 0.1);
  if (name == "bernoulli_f64_0.5") return mask<double>(generator, 0.5);
  if (name == "randint_0_10") return integers(generator, {.from = 0, .to = 10});
  if (name == "randint_-7_3000000000") return integers(generator, {.from = -7, .to = 3000000000});
  if (name == "randint_-5_1099511627776") {
    return integers(generator, {.from = -5, .to = std::int64_t{1} << 40});
  }
  if (name == "random_i64") return all_integers<std::int64_t>(generator);
  if (name == "random_f32") return all_integers<float>(generator);
  if (name == "random_f64") return all_integers<double>(generator);
  return {};
}

TEST(DiscreteTest, EveryDrawEqualsTorch) {
  std::size_t n_cases = 0;
  for (const golden::Case& one : golden::read("layers_init.txt")) {
    if (one.kind != "draw") continue;
    const Generator generator(static_cast<std::uint64_t>(one.integer(1)));
    EXPECT_EQ(golden::listed(draw(one.arguments[0], generator)), one.values) << one.text();
    ++n_cases;
  }
  EXPECT_EQ(n_cases, 16U);
}

TEST(DiscreteTest, AnotherProbabilityRangeOrSeedIsNoticed) {
  EXPECT_NE(mask<float>(Generator(42), 0.1), mask<float>(Generator(42), 0.2));
  EXPECT_NE(mask<float>(Generator(42), 0.1), mask<float>(Generator(43), 0.1));
  EXPECT_NE(integers(Generator(42), {.to = 10}), integers(Generator(42), {.to = 11}));
}

TEST(DiscreteTest, AMaskTakesTwoDrawsPerElementWhateverItsType) {
  Generator expected(3);
  for (std::size_t i = 0; i < 2 * kDraws; ++i) expected.random();
  const std::uint32_t next = expected.random();
  Generator narrow(3);
  Generator wide(3);
  std::vector<float> floats(kDraws);
  std::vector<double> doubles(kDraws);

  bernoulli(narrow, floats, 0.5);
  bernoulli(wide, doubles, 0.5);

  EXPECT_EQ(narrow.random(), next);
  EXPECT_EQ(wide.random(), next);
}

TEST(DiscreteTest, CertainMasksAreConstant) {
  Generator generator(1);
  std::vector<float> values(kDraws);

  bernoulli(generator, values, 0.0);
  EXPECT_EQ(values, std::vector<float>(kDraws, 0.0F));
  bernoulli(generator, values, 1.0);
  EXPECT_EQ(values, std::vector<float>(kDraws, 1.0F));
}

TEST(DiscreteTest, EmptyRangesAndImpossibleProbabilitiesAreRefused) {
  Generator generator(1);
  std::vector<float> values(1);
  std::vector<std::int64_t> whole(1);

  EXPECT_THROW(bernoulli(generator, values, 1.5), ContractViolation);
  EXPECT_THROW(randint(generator, whole, {.from = 3, .to = 3}), ContractViolation);
}

}  // namespace
}  // namespace lockstep
