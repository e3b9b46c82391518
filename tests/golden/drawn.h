// Answers the lines of make_draws.py that only need lockstep/random.
#pragma once

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "lockstep/random/discrete.h"
#include "lockstep/random/multinomial.h"
#include "lockstep/random/normal.h"
#include "lockstep/random/permutation.h"
#include "lockstep/random/uniform.h"

#include "tests/golden/golden_file.h"

namespace lockstep::golden {

inline std::uint64_t seed_of(const Case& one) {
  const std::string& text = one.arguments.at(1);
  return text.starts_with("-") ? static_cast<std::uint64_t>(parse_int(text).value())
                               : std::strtoull(text.c_str(), nullptr, 10);
}

inline double real(const Case& one, std::size_t i) {
  return std::strtod(one.arguments.at(i).c_str(), nullptr);
}

/// Bits as make_draws.py writes them: of more than 24 their count, a digest and both ends.
template <typename T>
std::string bit_text(std::span<const T> values) {
  std::vector<std::string> words;
  std::vector<std::int64_t> bits;
  for (const T value : values) {
    if constexpr (sizeof(T) == 4) {
      const auto word = std::bit_cast<std::uint32_t>(value);
      bits.push_back(word);
      words.push_back(hex64(word).substr(8));
    } else {
      bits.push_back(std::bit_cast<std::int64_t>(value));
      words.push_back(hex64(std::bit_cast<std::uint64_t>(value)));
    }
  }
  if (words.size() <= 24) return join(words, " ");
  std::vector<std::string> shown = {"#", std::to_string(bits.size()), hex64(digest(bits))};
  shown.insert(shown.end(), words.begin(), words.begin() + 3);
  shown.insert(shown.end(), words.end() - 3, words.end());
  return join(shown, " ");
}

template <typename T>
void fill_floats(const Case& one, Generator& generator, std::span<T> out) {
  if (one.kind == "uniform") uniform(generator, out, {real(one, 4), real(one, 5)});
  if (one.kind == "normal") normal(generator, out, {real(one, 4), real(one, 5)});
  if (one.kind == "bernoulli") bernoulli(generator, out, real(one, 4));
  if (one.kind == "exponential") exponential(generator, out, real(one, 4));
  if (one.kind == "random") random_integers(generator, out);
}

inline void fill_integers(const Case& one, Generator& generator, std::span<std::int64_t> out) {
  if (one.kind == "random") return random_integers(generator, out);
  randint(generator,
          out,
          {static_cast<std::int64_t>(real(one, 4)), static_cast<std::int64_t>(real(one, 5))});
}

// Two fills of one generator, one after the other.
template <typename T, typename Fill>
std::string two_fills(const Case& one, Fill&& fill) {
  Generator generator(seed_of(one));
  const auto first = static_cast<std::size_t>(one.integer(2));
  std::vector<T> values(first + static_cast<std::size_t>(one.integer(3)));
  const std::span<T> all(values);
  fill(one, generator, all.first(first));
  fill(one, generator, all.subspan(first));
  return bit_text(std::span<const T>(values));
}

/// Elements that a line draws; 0 for lines of other rooms.
inline std::size_t n_drawn(const Case& one) {
  if (one.kind == "randperm" || one.kind == "multinomial") {
    return static_cast<std::size_t>(one.integer(2));
  }
  if (one.kind.find('_') != std::string::npos) return 0;
  return static_cast<std::size_t>(one.integer(2) + one.integer(3));
}

/// What a line of a distribution, permutation or weighted draw must answer; else empty.
inline std::string drawn(const Case& one) {
  if (n_drawn(one) == 0) return "";
  const std::string& type = one.arguments.at(0);
  Generator generator(seed_of(one));
  if (one.kind == "randperm") {
    const std::vector<std::int64_t> order = randperm(generator, one.integer(2));
    return bit_text(std::span<const std::int64_t>(order));
  }
  if (one.kind == "multinomial") {
    std::vector<double> weights;
    for (std::size_t i = 4; i < one.arguments.size(); ++i) weights.push_back(real(one, i));
    const auto places =
        multinomial(generator, weights, {.count = one.integer(2), .replacement = one.flag(3)});
    return places.ok() ? bit_text(std::span<const std::int64_t>(places.value()))
                       : places.error().message;
  }
  if (type == "i64") return two_fills<std::int64_t>(one, fill_integers);
  return type == "f32" ? two_fills<float>(one, fill_floats<float>)
                       : two_fills<double>(one, fill_floats<double>);
}

}  // namespace lockstep::golden
