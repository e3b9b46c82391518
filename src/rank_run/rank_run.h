// One run of one rank's program, on every backend: what it records, which exception is which end.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "lockstep/base/end_reason.h"
#include "lockstep/comm/rank_context.h"
#include "lockstep/trace/recorder.h"

namespace lockstep {

/// What a run keeps of its ranks beyond what its laws ask for.
struct Keeping {
  bool trace = true;    ///< All events, in memory or in files: gradients, states, calls, samples.
  bool values = false;  ///< Gradients and parameters, as numbers.
  std::int64_t step_value_bytes = 0;  ///< Rank 0's step values, up to this many bytes.
  std::int32_t coverage = 1;          ///< As RecordOptions::coverage.
};

/// What the recorder of `rank` computes: `required` by the laws (LawSet::required), and what is kept.
RecordOptions record_options(const RecordOptions& required, const Keeping& keeping, Rank rank);

/// Whose failure ended a rank's program.
enum class FailureOrigin : std::uint8_t {
  kNone,     ///< It finished, or was ended from outside.
  kOfGroup,  ///< A CommError: how ranks learn that another has failed.
  kOwn,      ///< Any other exception.
};

/// Runs a rank's program and records how it ends, as the rank's last event.
///
/// | what leaves the program  | EndEvent                                | failure    |
/// |--------------------------|-----------------------------------------|------------|
/// | nothing                  | kOk                                     | kNone      |
/// | RankKilled               | kStuck if none can continue, or kKilled | kNone      |
/// | CommError                | kException, its text                    | kOfGroup   |
/// | InexactOperation         | kException, its step and text           | kOwn       |
/// | another std::exception   | kException, its text                    | kOwn       |
/// | anything else            | kStuck if none can continue, or kException | kOwn    |
///
/// The end is recorded when the object goes, so that what ends with the program (works that were
/// dropped, the group) is recorded before it if it is declared after the object. A run whose
/// program never began has an end, too.
class RankRun {
 public:
  /// `recorder`: null without recording. `failure`: kNone, then set as soon as the program has ended;
  /// it may outlive this object. `stuck`: whether none of the ranks can continue; null where no code
  /// can tell.
  ///
  /// Requires: all three outlive this object.
  RankRun(Recorder* recorder, FailureOrigin& failure, const bool* stuck = nullptr)
      : recorder_(recorder), failure_(&failure), stuck_(stuck) {}

  RankRun(const RankRun&) = delete;
  RankRun& operator=(const RankRun&) = delete;
  RankRun(RankRun&&) = delete;
  RankRun& operator=(RankRun&&) = delete;
  ~RankRun();

  /// Records where the rank runs, then calls `body`. Call it at most once.
  ///
  /// Errors: what leaves `body` leaves this, too, and exceptions that are not a std::exception (a
  ///     property-test library's, RankKilled) untouched; an InexactOperation says its step first.
  void play(const std::function<void(RankContext&)>& body, RankContext& context);

 private:
  void note(EndOutcome outcome, std::string detail, EndReason reason = EndReason::kNone);

  bool is_stuck() const { return stuck_ != nullptr && *stuck_; }

  EndOutcome outcome_or(EndOutcome otherwise) const;

  Recorder* recorder_;
  FailureOrigin* failure_;
  const bool* stuck_;
  EndOutcome outcome_ = EndOutcome::kNone;  // kNone: the program has not ended by itself.
  std::string detail_;
  EndReason reason_ = EndReason::kNone;
};

}  // namespace lockstep
