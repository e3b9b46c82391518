// Collective calls of a few ranks, written by hand.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "lockstep/trace/event.h"

#include "tests/support/event_stream.h"

namespace lockstep::testing {

/// Calls of a few ranks; each rank numbers its own.
struct Calls {
  explicit Calls(std::int32_t n_ranks)
      : stream(n_ranks), next(static_cast<std::size_t>(n_ranks), 0) {}

  CollectiveEvent make(CollectiveOp op, std::int32_t line, std::string_view file = "train.py") {
    CollectiveEvent event;
    event.signature.op = op;
    event.signature.count = 4;
    if (line > 0) event.signature.site = stream.site(file, line);
    return event;
  }

  void post(std::int32_t rank, CollectiveEvent event, bool completes = true) {
    event.seq = next[static_cast<std::size_t>(rank)]++;
    stream.add(rank, event);
    event.phase = CollectivePhase::kCompleted;
    event.status = CallStatus::kOk;
    if (completes) stream.add(rank, event);
  }

  void end(std::int32_t rank, EndOutcome outcome = EndOutcome::kOk) {
    stream.add(rank, EndEvent{.outcome = outcome});
  }

  void end_all() {
    for (std::int32_t rank = 0; rank < stream.n_ranks(); ++rank) end(rank);
  }

  EventStream stream;
  std::vector<std::int64_t> next;
};

}  // namespace lockstep::testing
