// Seconds that were measured several times, and how they are printed.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/text.h"

namespace lockstep::bench {

using Clock = std::chrono::steady_clock;
using Samples = std::vector<double>;
using Fields = std::vector<std::pair<std::string, std::string>>;

template <typename F>
double seconds(const F& work) {
  const auto begin = Clock::now();
  work();
  const std::chrono::duration<double> span = Clock::now() - begin;
  return span.count();
}

/// An object of JSON; the values are JSON already.
inline std::string object(const Fields& fields) {
  std::string text = "{";
  for (const auto& [name, value] : fields) {
    text += text.size() > 1 ? ", \"" : "\"";
    text += name + "\": ";
    text += value;
  }
  return text + "}";
}

inline std::string list(const std::vector<std::string>& values) { return "[" + join(values) + "]"; }

inline std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", value);
  return text;
}

inline std::string summary(Samples samples) {
  std::sort(samples.begin(), samples.end());
  return object(
      {{"best", number(samples.front())}, {"median", number(samples[samples.size() / 2])}});
}

}  // namespace lockstep::bench
