// Schedules of learning rates that were planned for the steps of a single process, or end before the run.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/finding.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// How long each wrapper's schedule is, and how many steps there were: of rank 0, since all ranks of a loop
/// have the same schedule.
///
///     data set of 48, batches of 6, 3 epochs     24 steps by a single process     total_steps = 24
///     the same divided among 2 ranks             12 steps per rank                the schedule ends at its half
///
/// A pass over the data is rounded to whole batches: of w ranks with n batches each, a single process has
/// between w n - (w - 1) and w n + (w - 1).
class ScheduleLengths {
 public:
  void on_options(const Event& event,
                  const OptimizerEvent& options,
                  RankRange who,
                  const NameTable& names);
  void on_step(const Event& event, const StepEvent& step, RankRange who);
  void on_epoch(RankRange who);

  /// "A-schedule-ends-early" for wrappers whose schedule is planned for as many steps as there were, and made several with each.
  std::vector<Advice> early() const;

  /// "A-schedule-too-long" for wrappers whose schedule moved with each step and is as many times longer
  /// than the run as there are ranks.
  std::vector<Advice> advice(const Wrappers& wrappers, std::int32_t n_ranks) const;

 private:
  struct Schedule {
    std::int64_t total = 0;    ///< Steps that it was planned for, 0 = not known,
    std::int64_t made = 0;     ///< and that it had made before a step,
    std::int64_t before = 0;   ///< to which these had come.
    std::int64_t n_steps = 0;  ///< In the end.
    std::int64_t stride = 0;   ///< Steps that it made with each of the optimizer's, until it ended,
    std::int64_t n_strides = 0;
    bool uneven = false;  ///< or not always as many.
  };

  static void advance(Schedule& schedule, std::int64_t made, std::int64_t before);

  std::map<WrapperKey, Schedule> schedules_;
  std::int64_t n_passes_ = 0;
};

}  // namespace lockstep::laws
