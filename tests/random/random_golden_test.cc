// Bit for bit against a real torch.Generator; the files say which version.
#include <bit>
#include <cstdlib>
#include <cstring>

#include <gtest/gtest.h>

#include "lockstep/random/generator.h"
#include "lockstep/random/normal.h"
#include "lockstep/random/permutation.h"
#include "lockstep/random/uniform.h"

#include "tests/golden/golden_file.h"

namespace lockstep {
namespace {

// Seeds from 2^63 on are written unsigned, negative ones signed: the same 64 bits.
std::uint64_t seed_of(const std::string& text) {
  return text.starts_with("-") ? static_cast<std::uint64_t>(parse_int(text).value())
                               : std::strtoull(text.c_str(), nullptr, 10);
}

std::string hex32(std::uint32_t word) { return hex64(word).substr(8); }

template <typename T>
std::string uniform_words(const golden::Case& one, std::size_t count, UniformRounding rounding) {
  Generator generator(seed_of(one.arguments.at(0)));
  const UniformRange range{.from = std::strtod(one.arguments.at(1).c_str(), nullptr),
                           .to = std::strtod(one.arguments.at(2).c_str(), nullptr)};
  std::vector<T> values(count);
  uniform(generator, values, range, rounding);
  std::vector<std::string> words;
  for (const T value : values) {
    if constexpr (sizeof(T) == 4) {
      words.push_back(hex32(std::bit_cast<std::uint32_t>(value)));
    } else {
      words.push_back(hex64(std::bit_cast<std::uint64_t>(value)));
    }
  }
  return join(words, " ");
}

// The values of all fills of a line; of more than 64 the first and last 32.
template <typename T>
std::string normal_words(const golden::Case& one) {
  Generator generator(seed_of(one.arguments.at(0)));
  const NormalShape shape{.mean = std::strtod(one.arguments.at(1).c_str(), nullptr),
                          .std = std::strtod(one.arguments.at(2).c_str(), nullptr)};
  std::vector<T> values;
  for (std::size_t i = 3; i < one.arguments.size(); ++i) {
    std::vector<T> part(static_cast<std::size_t>(one.integer(i)));
    normal(generator, part, shape);
    values.insert(values.end(), part.begin(), part.end());
  }
  std::vector<std::string> words;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values.size() > 64 && i >= 32 && i < values.size() - 32) continue;
    if constexpr (sizeof(T) == 4) {
      words.push_back(hex32(std::bit_cast<std::uint32_t>(values[i])));
    } else {
      words.push_back(hex64(std::bit_cast<std::uint64_t>(values[i])));
    }
  }
  return join(words, " ");
}

struct Agreement {
  std::size_t values = 0;
  std::size_t lines = 0;
  std::size_t equal_lines = 0;
};

Agreement compare_uniform(const std::string& file, UniformRounding rounding) {
  Agreement agreement;
  for (const golden::Case& one : golden::read(file)) {
    if (one.kind != "float" && one.kind != "double") continue;
    const std::size_t width = one.kind == "float" ? 9 : 17;
    const std::size_t count = (one.values.size() + 1) / width;
    const std::string ours = one.kind == "float" ? uniform_words<float>(one, count, rounding)
                                                 : uniform_words<double>(one, count, rounding);
    agreement.values += count;
    agreement.lines += 1;
    agreement.equal_lines += ours == one.values ? 1U : 0U;
  }
  return agreement;
}

TEST(RandomGoldenTest, RawDrawsEqualTorch) {
  std::size_t cases = 0;
  for (const golden::Case& one : golden::read("random.txt")) {
    if (one.kind != "raw") continue;
    Generator generator(seed_of(one.arguments.at(0)));
    for (std::int64_t i = 0; i < one.integer(1); ++i) generator.random();
    std::vector<std::string> words;
    for (int i = 0; i < 10; ++i) words.push_back(hex32(generator.random()));
    EXPECT_EQ(join(words, " "), one.values) << one.text();
    ++cases;
  }
  EXPECT_EQ(cases, 30U);
}

std::string state_text(const Generator& generator) {
  const auto bytes = generator.state();
  const auto word = [&](std::size_t at) {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data() + at, sizeof(value));
    return value;
  };
  std::uint64_t mixed = 0;
  for (std::size_t j = 0; j < 624; ++j) mixed = mixed * 31 + word(24 + 8 * j);
  const std::uint64_t counts = word(8);
  return hex64(word(0)) + " " + std::to_string(counts & 0xffffffffU) + " " +
         std::to_string(counts >> 32U) + " " + std::to_string(word(16)) + " " + hex64(mixed) + " " +
         hex64(word(5024)) + " " + std::to_string(word(5040) & 0xffffffffU);
}

TEST(RandomGoldenTest, StatesEqualTorchWordForWord) {
  std::vector<golden::Case> states;
  for (const golden::Case& one : golden::read("random.txt")) {
    if (one.kind == "state") states.push_back(one);
  }
  ASSERT_EQ(states.size(), 4U);

  Generator generator(static_cast<std::uint64_t>(-5));
  EXPECT_EQ(state_text(generator), states[0].values);
  for (int i = 0; i < 8; ++i) generator.random();
  generator.cache_normal(std::bit_cast<double>(0x3ff25b296bc8239aULL));
  EXPECT_EQ(state_text(generator), states[1].values);
  std::vector<std::uint32_t> rest(616);
  generator.fill(rest);
  EXPECT_EQ(state_text(generator), states[2].values);
  generator.random();
  EXPECT_EQ(state_text(generator), states[3].values);
}

TEST(RandomGoldenTest, PermutationsEqualTorch) {
  std::size_t cases = 0;
  for (const golden::Case& one : golden::read("random.txt")) {
    if (one.kind != "randperm") continue;
    Generator generator(seed_of(one.arguments.at(0)));
    EXPECT_EQ(golden::listed(randperm(generator, one.integer(1))), one.values) << one.text();
    ++cases;
  }
  EXPECT_EQ(cases, 96U);
}

TEST(RandomGoldenTest, NormalFillsEqualTorchAndShareTheKeptHalfPair) {
  std::size_t cases = 0;
  for (const golden::Case& one : golden::read("random.txt")) {
    if (!one.kind.starts_with("normal_")) continue;
    const bool wide = one.kind == "normal_double";
    EXPECT_EQ(wide ? normal_words<double>(one) : normal_words<float>(one), one.values)
        << one.text();
    ++cases;
  }
  EXPECT_EQ(cases, 42U);
}

TEST(RandomGoldenTest, FusedUniformDrawsEqualTorch) {
  const Agreement agreement = compare_uniform("random.txt", UniformRounding::kFused);
  EXPECT_EQ(agreement.lines, 60U);
  EXPECT_EQ(agreement.equal_lines, agreement.lines);
  EXPECT_GE(agreement.values, 5000U);
}

TEST(RandomGoldenTest, TwiceRoundedUniformDrawsEqualTorchWithDefaultCapability) {
  const Agreement agreement = compare_uniform("random_default.txt", UniformRounding::kTwice);
  EXPECT_EQ(agreement.lines, 60U);
  EXPECT_EQ(agreement.equal_lines, agreement.lines);
}

TEST(RandomGoldenTest, TheWrongRoundingIsNoticed) {
  const Agreement agreement = compare_uniform("random.txt", UniformRounding::kTwice);
  EXPECT_LT(agreement.equal_lines, agreement.lines / 2);
}

}  // namespace
}  // namespace lockstep
