// One mistake with the C++ API, written as a program of a stranger, and what it must end with.
#pragma once

#include <cstdint>
#include <iostream>
#include <lockstep/lockstep.h>
#include <span>

namespace lockstep::misuse {

/// How a misused program ends: never in silence, and by a signal only where it followed a null pointer.
struct Misuse {
  const char* name;   ///< What is done wrong, as a test is named.
  const char* words;  ///< A regular expression: the place and the values that the error names.
  int (*act)();       ///< The body of its main(); what it throws is printed, and the code is 1.
  bool by_signal = false;
};

/// For the names of failed tests.
// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest's name.
inline void PrintTo(const Misuse& misuse, std::ostream* out) { *out << misuse.name; }

/// The code of a program that prints what a run has found.
template <typename R>
int tell(const RunResult<R>& run) {
  std::cerr << run << '\n';
  return run.ok() ? 0 : 1;
}

/// Worlds of one and two ranks that run `body`.
template <typename Body>
int on_one(Body body) {
  return tell(run_ranks({.ranks = 1}, body));
}

template <typename Body>
int on_two(Body body) {
  return tell(run_ranks({.ranks = 2}, body));
}

std::span<const Misuse> with_ranks();
std::span<const Misuse> with_tensors();
std::span<const Misuse> with_collectives();
std::span<const Misuse> with_training();
std::span<const Misuse> with_data();
std::span<const Misuse> with_options();

}  // namespace lockstep::misuse
