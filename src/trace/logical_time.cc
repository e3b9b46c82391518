#include "lockstep/trace/detail/logical_time.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace lockstep::detail {

namespace {

constexpr std::int64_t kTick = 1000;

/// A call as all its members see it: attempt, group, sequence number, and for messages sender,
/// receiver and tag.
using CallKey =
    std::tuple<std::int32_t, std::int32_t, std::int64_t, std::int32_t, std::int32_t, std::int32_t>;

CallKey key_of(const Event& event, const CollectiveEvent& call) {
  const Signature& signature = call.signature;
  std::int32_t source = -1;
  std::int32_t target = -1;
  if (signature.op == CollectiveOp::kSend) {
    source = to_int(event.rank);
    target = signature.peer;
  } else if (signature.op == CollectiveOp::kRecv) {
    source = signature.peer;
    target = to_int(event.rank);
  }
  return {event.at.attempt, call.group, call.seq, source, target, source < 0 ? 0 : signature.tag};
}

/// The posts of one call: how many are still to come, and when the last one came.
struct Posts {
  std::int32_t n_open = 0;
  std::int64_t last = 0;
};

class Clock {
 public:
  explicit Clock(const MemoryTrace& trace) : trace_(trace) {
    for (std::int32_t r = 0; r < trace.n_ranks(); ++r) {
      times_.emplace_back(trace.events(Rank{r}).size(), 0);
      for (const Event& event : trace.events(Rank{r})) {
        const auto* call = std::get_if<CollectiveEvent>(&event.body);
        if (call != nullptr && call->phase == CollectivePhase::kPosted) {
          ++posts_[key_of(event, *call)].n_open;
        }
      }
    }
    next_.assign(times_.size(), 0);
  }

  std::vector<std::vector<std::int64_t>> run() {
    for (bool open = true; open;) {
      open = false;
      bool moved = false;
      for (std::size_t r = 0; r < times_.size(); ++r) {
        while (next_[r] < times_[r].size() && may_happen(r)) {
          happen(r);
          moved = true;
        }
        open = open || next_[r] < times_[r].size();
      }
      if (open && !moved) force();
    }
    return std::move(times_);
  }

 private:
  const Event& event(std::size_t r) const {
    return trace_.events(Rank{static_cast<std::int32_t>(r)})[next_[r]];
  }

  /// The completed call that the rank's next event is the end of, or null.
  const Posts* awaited(std::size_t r) const {
    const auto* call = std::get_if<CollectiveEvent>(&event(r).body);
    if (call == nullptr || call->phase != CollectivePhase::kCompleted) return nullptr;
    const auto posts = posts_.find(key_of(event(r), *call));
    return posts == posts_.end() ? nullptr : &posts->second;
  }

  bool may_happen(std::size_t r) const {
    const Posts* posts = awaited(r);
    return posts == nullptr || posts->n_open == 0;
  }

  void happen(std::size_t r) {
    std::int64_t time = next_[r] == 0 ? 0 : times_[r][next_[r] - 1] + kTick;
    if (const Posts* posts = awaited(r)) time = std::max(time, posts->last + kTick);
    const auto* call = std::get_if<CollectiveEvent>(&event(r).body);
    if (call != nullptr && call->phase == CollectivePhase::kPosted) {
      Posts& posts = posts_[key_of(event(r), *call)];
      --posts.n_open;
      posts.last = std::max(posts.last, time);
    }
    times_[r][next_[r]++] = time;
  }

  /// Traces of ranks that paired different calls may wait for each other in a circle.
  void force() {
    for (std::size_t r = 0; r < times_.size(); ++r) {
      if (next_[r] < times_[r].size()) return happen(r);
    }
  }

  const MemoryTrace& trace_;
  std::map<CallKey, Posts> posts_;
  std::vector<std::vector<std::int64_t>> times_;
  std::vector<std::size_t> next_;
};

}  // namespace

bool is_timed(const MemoryTrace& trace) {
  for (std::int32_t r = 0; r < trace.n_ranks(); ++r) {
    for (const Event& event : trace.events(Rank{r})) {
      if (event.time.ns != 0) return true;
    }
  }
  return false;
}

std::vector<std::vector<std::int64_t>> drawing_times(const MemoryTrace& trace) {
  if (!is_timed(trace)) return Clock(trace).run();
  std::vector<std::vector<std::int64_t>> times(static_cast<std::size_t>(trace.n_ranks()));
  for (std::int32_t r = 0; r < trace.n_ranks(); ++r) {
    std::vector<std::int64_t>& of_rank = times[static_cast<std::size_t>(r)];
    of_rank.reserve(trace.events(Rank{r}).size());
    for (const Event& event : trace.events(Rank{r})) of_rank.push_back(event.time.ns);
  }
  return times;
}

}  // namespace lockstep::detail
