// What went wrong in a run, in few enough words to recognise it in a smaller run.
#pragma once

#include <optional>
#include <string>

#include "lockstep/laws/report.h"

namespace lockstep::explore {

/// The kind of a run's failure. Two runs fail the same way when all fields are equal; ranks, steps,
/// tensors and numbers are not part of it.
///
/// A run that finishes, or hangs, fails by the first of its findings: the one of the earliest
/// attempt and step (findings without a step concern the data or the start, and come first), in the
/// contract's order. Of a hang the step does not count: calls that differ come before the ranks
/// that wait. Later findings are consequences more often than not.
struct Failure {
  RunOutcome outcome = RunOutcome::kFindings;
  std::string law;             ///< Of the first finding; empty when no law fired, and for errors.
  Cause cause = Cause::kNone;  ///< What the finding names as its likely cause.
  std::string field;           ///< Which field of a signature or state differs, or empty.
  std::string event;           ///< Where in a step.
  /// The call's, or empty: also for places in a scenario file, which shrinking moves.
  std::string site;
  std::string error;  ///< kError: its text, each number replaced by '#'.

  friend bool operator==(const Failure&, const Failure&) = default;
};

/// Nothing when the report is what a correct job shows: no finding, no hang, no error.
std::optional<Failure> failure_of(const Report& report);

/// The finding that failure_of goes by; null when there is none.
const Finding* first_finding(const Report& report);

/// "law replicas-equal (cause lr-per-rank)", "a hang: law progress", "an error: ...".
std::string describe(const Failure& failure);

/// The report's own words for it: the finding's sentence, or the error.
std::string sentence_of(const Report& report);

}  // namespace lockstep::explore
