// Two traces of one job that differ: do they part in a reduction, and is that rounding?
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/harness/rounding/explain_results.h"
#include "lockstep/harness/rounding/growth.h"
#include "lockstep/trace/memory_trace.h"

namespace lockstep {

class JsonText;

/// What can be said of one reduction, in words and as far as its values were recorded.
struct ReductionExplanation {
  Position at = {};
  std::vector<std::int32_t> ranks = {};  ///< Of its group; empty: all.
  std::string which;                     ///< "both traces", "the first trace", "the second trace".
  ResultKind kind = ResultKind::kMean;
  std::int32_t n_contributions = 0;
  std::optional<TensorExplanation> values = {};  ///< Absent: some values were not recorded.
  RoundingVerdict verdict = RoundingVerdict::kNotJudged;
  std::string tensor;
  std::string note = {};  ///< Why it is not judged; or what sketches show.
};

/// Where the traces part.
enum class Parting : std::uint8_t {
  kNowhere,        ///< No reduction has another result.
  kReduction,      ///< A reduction's result differs, whose contributions are equal.
  kContributions,  ///< What ranks gave to the first reduction that differs is not equal.
};
template <>
inline constexpr EnumNames<3> kEnumNames<Parting> = {"nowhere", "reduction", "contributions"};

struct TracesExplanation {
  RoundingVerdict verdict = RoundingVerdict::kEqual;
  std::string first_difference = {};  ///< As `lockstep diff` says it, one line; empty: none.
  Parting parting = Parting::kNowhere;
  std::optional<ReductionExplanation> first = {};  ///< The first reduction that differs.
  /// Those of either trace that no order gives, or only another way of computing: at most kMostListed.
  std::vector<ReductionExplanation> suspects = {};
  std::int64_t n_suspects = 0;
  std::int64_t n_reductions = 0;  ///< Of both traces.
  std::int64_t n_judged = 0;      ///< Of these, by their values.
  std::int64_t n_valueless = 0;   ///< Of these, whose values were not recorded.
  /// Of the parameters, where both recorded them after each step.
  std::optional<Growth> growth = {};

  static constexpr std::size_t kMostListed = 10;
};

/// Judges every reduction of both traces by what its own trace says was added; and the first one whose
/// result differs, beside its contributions, if these are equal. `combination` absent: the mean over
/// the group, and where that is impossible the sum: a hand-written loop may divide elsewhere.
///
/// Without values only sketches are there: sums of +-x_i over a tensor's elements. The sketch of a result can
/// be no further from those of its contributions than all its elements' radii together; further is
/// impossible, nearer says nothing.
/// Deterministic: a function of the traces alone.
TracesExplanation explain_traces(const MemoryTrace& left,
                                 const MemoryTrace& right,
                                 const std::optional<Combination>& combination);

std::string traces_text(const TracesExplanation& explanation);

/// One object (docs/explain_diff.md).
void write_traces(JsonText& out, const TracesExplanation& explanation);

}  // namespace lockstep
