// Whether an operation's answer is what a golden file has: bits, or within a limit per element.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "tests/golden/golden_bits.h"

namespace lockstep::golden {

inline std::vector<std::string> parts_of(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  std::size_t from = 0;
  for (std::size_t at = 0; (at = text.find(separator, from)) != std::string::npos;) {
    parts.push_back(text.substr(from, at - from));
    from = at + separator.size();
  }
  parts.push_back(text.substr(from));
  return parts;
}

inline bool within(const Tensor& got, const Tensor& expected, const Tensor& limits) {
  for (std::int64_t i = 0; i < got.n_elems(); ++i) {
    if (!(std::fabs(got.at(i) - expected.at(i)) <= limits.at(i))) return false;
  }
  return true;
}

/// One tensor of an answer: "WORDS", or "WORDS ~ WORDS of the f64 limits".
inline bool part_fits(const Tensor& got, const std::string& expected) {
  const std::vector<std::string> sides = parts_of(expected, " ~ ");
  if (sides.size() == 1) return join(bits_of(got), " ") == sides[0];
  if (words_of(sides[0]).size() != static_cast<std::size_t>(got.n_elems())) return false;
  Runtime& runtime = got.runtime();
  return within(got,
                WordReader(sides[0]).take(runtime, got.shape(), got.dtype()),
                WordReader(sides[1]).take(runtime, got.shape(), DType::kF64));
}

/// The number of the first tensor that differs, or -1.
inline int first_misfit(const std::vector<Tensor>& got, const std::string& expected) {
  const std::vector<std::string> parts = parts_of(expected, " | ");
  if (parts.size() != got.size()) return 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!part_fits(got[i], parts[i])) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace lockstep::golden
