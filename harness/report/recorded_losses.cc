#include "lockstep/harness/report/recorded_losses.h"

#include <algorithm>
#include <limits>
#include <map>

namespace lockstep {

namespace {

std::int32_t last_attempt(const MemoryTrace& trace) {
  std::int32_t last = 0;
  for (std::int32_t rank = 0; rank < trace.n_ranks(); ++rank) {
    for (const Event& event : trace.events(Rank{rank})) last = std::max(last, event.at.attempt);
  }
  return last;
}

/// The loss that a step of the first wrapper trained on, or null.
const LossEvent* trained_loss(const Event& event, std::int32_t attempt) {
  const auto* loss = std::get_if<LossEvent>(&event.body);
  const bool counts = loss != nullptr && loss->grad && event.at.attempt == attempt;
  return counts && event.at.wrapper <= 0 ? loss : nullptr;
}

}  // namespace

RecordedLosses recorded_losses(const MemoryTrace& trace) {
  const std::int32_t attempt = last_attempt(trace);
  const auto n_ranks = static_cast<std::size_t>(trace.n_ranks());
  std::vector<std::map<std::int64_t, double>> by_step(n_ranks);
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  for (std::size_t rank = 0; rank < n_ranks; ++rank) {
    for (const Event& event : trace.events(Rank{static_cast<std::int32_t>(rank)})) {
      const LossEvent* const loss = trained_loss(event, attempt);
      if (loss == nullptr) continue;
      by_step[rank][event.at.opt] = loss->value;
      first = std::min<std::int64_t>(first, event.at.opt);
    }
  }
  RecordedLosses losses;
  if (first == std::numeric_limits<std::int64_t>::max()) return losses;
  losses.first_step = first;
  losses.by_rank.resize(n_ranks);
  for (std::size_t rank = 0; rank < n_ranks; ++rank) {
    // A rank that skips a step has none of it: the curve ends there.
    for (const auto& [step, value] : by_step[rank]) {
      if (step - first != std::ssize(losses.by_rank[rank])) break;
      losses.by_rank[rank].push_back(value);
    }
  }
  return losses;
}

}  // namespace lockstep
