#include "lockstep/laws/detail/stragglers.h"

#include <algorithm>
#include <string>

#include "lockstep/base/text.h"

namespace lockstep::laws {

void Stragglers::on_posted(const Event& event, const CollectiveEvent& call, std::int32_t n_ranks) {
  if (call.group != 0 || n_ranks < 2) return;
  if (event.at.attempt != attempt_) *this = {};
  attempt_ = event.at.attempt;
  const std::int64_t now = event.time.ns;
  end_ns_ = std::max(end_ns_, now);
  Call& at = open_[call.seq];
  if (now > at.last) {
    at.before = at.last;
    at.last = now;
    at.last_rank = to_int(event.rank);
  } else {
    at.before = std::max(at.before, now);
  }
  if (++at.n_arrived == n_ranks) {
    const std::int64_t waited = at.before < 0 ? 0 : at.last - at.before;
    Lateness& late = late_[at.last_rank];
    if (waited > 0) {
      ++n_calls_;
      ++late.n_last;
      late.waited_ns += waited;
    }
    open_.erase(call.seq);
  }
  if (open_.size() > kMostOpen) open_.erase(open_.begin());
}

std::optional<Advice> Stragglers::advice() const {
  constexpr std::int64_t kFewest = 4;
  for (const auto& [rank, late] : late_) {
    if (late.n_last < kFewest || 4 * late.n_last < 3 * n_calls_) continue;
    if (10 * late.waited_ns < end_ns_) continue;
    return Advice{"A-straggler",
                  "rank " + std::to_string(rank) + " comes last to " + std::to_string(late.n_last) +
                      " of " + std::to_string(n_calls_) + " calls that anybody waits in, " +
                      exact(static_cast<double>(late.waited_ns) / 1e6) +
                      " ms in all behind the next one: the others wait that long for it"};
  }
  return std::nullopt;
}

}  // namespace lockstep::laws
