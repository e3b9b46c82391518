// How two runs of one job drift apart, step by step: as rounding grows, or in a jump.
//
// A difference d of the parameters becomes J d in a step, J being the job's own, plus what the step rounds. So
// what rounding began grows by a factor that belongs to the job: the logarithms of the factors scatter around
// their mean. Three things are derived from that, and no tolerance is picked:
//
//   - storing the parameters of a step rounds by u at most, in each run: 2 ulp of distance are always
//     there, and a beginning within them needs no other reason
//   - a factor is (after + 2) / (before + 2): those 2 ulp are not growth, nor is a rise by less a jump
//   - a jump is a factor that the others do not expect: the largest of m, held against the other m - 1 by
//     Student's t (externally studentized, times m for having been chosen). Reported is the chance of one
//     like it or larger if all factors are of one normal distribution of logarithms; a jump is called one
//     below 1 in 1,000. That is evidence, no proof: an optimizer that divides by small moments jumps by itself
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/enum_names.h"
#include "lockstep/formats/float_format.h"
#include "lockstep/trace/memory_trace.h"

namespace lockstep {

class JsonText;

/// The parameters of both runs after one step.
struct SeriesStep {
  std::int64_t step = 0;
  std::int64_t n_elements = 0;
  std::int64_t n_different = 0;
  std::uint64_t ulps = 0;   ///< The most of any element; the largest number beside a NaN.
  std::string tensor = {};  ///< Of that element.
  std::int64_t element = -1;
  /// |a - b| over |a|, both in the Euclidean norm over all elements, in unit roundoffs of each tensor's type.
  double distance = 0.0;
};

/// Collects one step's distance, tensor by tensor.
class StepDistance {
 public:
  explicit StepDistance(std::int64_t step) { found_.step = step; }

  /// The next element of a tensor.
  void add(
      std::string_view tensor, const FloatFormat& format, std::int64_t element, double a, double b);
  SeriesStep take();

 private:
  SeriesStep found_;
  double difference_ = 0.0;  ///< Sums of squares.
  double size_ = 0.0;
};

enum class GrowthVerdict : std::uint8_t {
  kEqual,
  kGrowth,      ///< It begins within what storing rounds and grows as it began.
  kLargeStart,  ///< It begins beyond that: whether rounding can, only contributions say.
  kJump,
};
template <>
inline constexpr EnumNames<4> kEnumNames<GrowthVerdict> = {
    "equal", "growth", "large-start", "jump"};

struct Jump {
  std::int64_t step = 0;
  double factor = 1.0;  ///< Of that step.
  double others = 1.0;  ///< The geometric mean of the others.
  double chance = 1.0;  ///< Of one like it among as many, if all were alike.
};

struct Growth {
  std::vector<SeriesStep> steps;
  GrowthVerdict verdict = GrowthVerdict::kEqual;
  std::optional<std::size_t> begins = {};  ///< The first of `steps` that differs.
  /// A step, fitted to all steps that differ; absent: one alone.
  std::optional<double> factor = {};
  std::optional<Jump> largest = {};  ///< The largest factor; absent: fewer than four, or no rise.
};

/// Requires: steps in order.
Growth growth_of(std::vector<SeriesStep> steps);

/// The parameters of rank 0 after each step, where both traces recorded their values.
std::vector<SeriesStep> steps_of_traces(const MemoryTrace& left, const MemoryTrace& right);

/// "growth from rounding: step 1 2 ulp, 3.1 x a step" and a line per step.
std::string growth_text(const Growth& growth);

/// One object (docs/explain_diff.md).
void write_growth(JsonText& out, const Growth& growth);

}  // namespace lockstep
