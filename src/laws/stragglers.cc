#include "lockstep/laws/detail/stragglers.h"

#include <algorithm>
#include <limits>
#include <string>

#include "lockstep/base/text.h"

namespace lockstep::laws {

void Stragglers::on_posted(const Event& event, const CollectiveEvent& call, std::int32_t n_ranks) {
  if (!looks_at(event, call, n_ranks)) return;
  Call& at = open_[call.seq];
  arrive(at, to_int(event.rank), event.time.ns);
  if (at.n_arrived == n_ranks) {
    close(at);
    open_.erase(call.seq);
  }
  if (open_.size() > kMaxOpen) open_.erase(open_.begin());
}

void Stragglers::on_all_posted(const CohortEvent& event, const CollectiveEvent& call) {
  if (!looks_at(*event.first, call, event.n_ranks())) return;
  Call at;
  for (std::int32_t rank = 0; rank < event.n_ranks(); ++rank) {
    arrive(at, rank, event.arrivals[static_cast<std::size_t>(rank)].time.ns);
  }
  close(at);
}

bool Stragglers::looks_at(const Event& event, const CollectiveEvent& call, std::int32_t n_ranks) {
  if (call.group != 0 || n_ranks < 2) return false;
  if (event.at.attempt != attempt_) *this = {};
  attempt_ = event.at.attempt;
  return true;
}

void Stragglers::arrive(Call& at, std::int32_t rank, std::int64_t now) {
  end_ns_ = std::max(end_ns_, now);
  ++at.n_arrived;
  if (now > at.last) {
    at.before = at.last;
    at.last = now;
    at.last_rank = rank;
  } else {
    at.before = std::max(at.before, now);
  }
}

void Stragglers::close(const Call& call) {
  const std::int64_t waited = call.before < 0 ? 0 : call.last - call.before;
  if (waited <= 0) return;
  ++n_calls_;
  Lateness& late = late_[call.last_rank];
  ++late.n_last;
  // A tenth of the longest run there is, so that neither the sum nor ten times it overflows.
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 10;
  late.waited_ns = std::min(kMost, late.waited_ns + std::min(kMost, waited));
}

std::optional<Advice> Stragglers::advice() const {
  // One of two ranks comes last four times in a row once in eight runs, by chance; eight times once
  // in 128.
  constexpr std::int64_t kFewest = 8;
  for (const auto& [rank, late] : late_) {
    if (late.n_last < kFewest || 4 * late.n_last < 3 * n_calls_) continue;
    if (10 * late.waited_ns < end_ns_) continue;
    return Advice{
        "A-straggler",
        "rank " + std::to_string(rank) + " is the last to arrive at " +
            std::to_string(late.n_last) + " of " + std::to_string(n_calls_) +
            " collectives of the world group, " + exact(static_cast<double>(late.waited_ns) / 1e6) +
            " ms in total after the second to last: the other ranks wait that long for it"};
  }
  return std::nullopt;
}

}  // namespace lockstep::laws
