// What one gradient should hold, given its contributions: the arithmetic of accumulated-once.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "lockstep/tensor/dtype.h"
#include "lockstep/tensor/sketch.h"

namespace lockstep::laws {

/// A sum of tensors, by their sketches: linear, so that a sum is known by its terms.
struct SketchSum {
  Sketch sum = {};  ///< `l1` of the terms, not of their sum.
  std::int32_t n_terms = 0;
  std::uint64_t digest = 0;  ///< Of the only term.

  void clear() { *this = {}; }

  void set(const Sketch& sketch, std::uint64_t own) {
    sum = sketch;
    n_terms = 1;
    digest = own;
  }

  void add(const Sketch& sketch, std::uint64_t own);
  void add(const SketchSum& other);
  void scale(double factor);
};

/// A tensor as it was found.
struct Found {
  const Sketch* sketch = nullptr;
  std::uint64_t digest = 0;
  std::int64_t n_elems = 0;
  DType dtype = DType::kF32;
};

/// Whether `found` is the sum: the same bits where there is one term only, else each projection
/// within k u L + 4 n 2^-53 L, with k additions, the type's unit roundoff u, L the sum of |values|
/// of all terms and n elements. Adding floating-point numbers never underflows. `exact`: no bound.
bool is_sum(const Found& found, const SketchSum& expected, bool exact);

/// How a gradient came to be something else.
enum class Miscount : std::uint8_t {
  kNotCleared,  ///< The gradient of the step before is still in it.
  kTwice,       ///< A contribution was added twice.
  kLost,        ///< A contribution is missing.
};

/// A gradient between two steps: what was there, and what each backward added.
struct Accumulation {
  SketchSum base;            ///< What was there before this window, or its last reduction.
  bool base_is_old = false;  ///< It was used by an earlier step and never cleared.
  bool known = true;         ///< False: the program changed it in a way that no event shows.
  SketchSum added;           ///< Contributions since then.
  SketchSum last;            ///< The last one of these.
  SketchSum before_last;     ///< The others.

  void contribute(const Sketch& sketch, std::uint64_t digest);
  /// It is this now: just before or just after a reduction.
  void become(const Sketch& sketch, std::uint64_t digest);
  void step();
  /// A step has used it like this, whatever the program has made of it since its reduction.
  void be_left_as(const Sketch& sketch, std::uint64_t digest);
  void clear();
  void scale(double factor);

  struct Rules {
    bool exact = false;  ///< No bound.
    /// Whenever it was cleared is known; otherwise contributions may have been forgotten on purpose.
    bool strict = false;
    /// The reduction takes it from the backward's hands. Otherwise the program may have changed it
    /// in between, by a factor that looks like a contribution more or less.
    bool immediate = true;
  };

  /// Nothing when `found` is what was there and each contribution, once, or something that no
  /// miscount explains: that is the program's own doing.
  std::optional<Miscount> check(const Found& found, const Rules& rules) const;

  /// Whether `found` is the sum of what is known of it, or nothing can be said.
  bool explains(const Found& found) const;

  /// Whether `found` is what was there before the last contribution, divided by `scale`, and that contribution: a loss
  /// scaler's factor was taken off too early.
  bool is_unscaled_early(const Found& found, double scale) const;

 private:
  /// `is`: whether a sum is what was found; `starts`: what may have been there before.
  template <typename Is>
  std::optional<Miscount> miscounted_from(const std::array<SketchSum, 2>& starts,
                                          const Is& is) const;
};

}  // namespace lockstep::laws
