// The parts of a scheduler without the scheduler: no fiber, no switch, ranks by their states alone.
#pragma once

#include <deque>
#include <string_view>

#include "lockstep/sim/fiber/detail/ends.h"
#include "lockstep/sim/fiber/detail/progress.h"
#include "lockstep/sim/fiber/detail/standstill.h"
#include "lockstep/sim/fiber/detail/timeline.h"
#include "lockstep/sim/fiber/detail/turns.h"

#include "tests/sim/support/fifo_strategy.h"

namespace lockstep::sim::testing {

/// A world in which every rank is blocked.
struct Parts {
  explicit Parts(const WorldOptions& options) : Parts(options, fifo) {}

  Parts(const WorldOptions& options, Strategy& strategy) {
    turns.start(strategy, options.n_ranks);
    timeline.start();
    ends.start(options);
    standstill.start();
  }

  RankControl& rank(std::int32_t number) { return turns.slot(Rank{number}).control(); }

  void block(std::int32_t number, std::string_view what) {
    rank(number).state = RankState::kBlocked;
    rank(number).reason = &reasons.emplace_back(WaitReason{.what = what});
  }

  /// `end` of a rank that ran until `time`.
  void finish(std::int32_t number, RankOutcome outcome, std::int64_t time = 0) {
    RankEnd end;
    end.outcome = outcome;
    end.time = VirtualTime{time};
    if (outcome == RankOutcome::kThrew) end.detail = "canary";
    ends.finish(turns.slot(Rank{number}), std::move(end));
  }

  FifoStrategy fifo;
  std::deque<WaitReason> reasons;  // In the place of ranks' frames.
  Turns turns;
  Progress progress;
  Timeline timeline{turns};
  Ends ends{turns, progress};
  Standstill standstill{turns, timeline, ends, progress};
};

}  // namespace lockstep::sim::testing
