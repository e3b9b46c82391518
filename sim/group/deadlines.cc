// Works with a limit on how long they may wait.
#include <algorithm>
#include <utility>

#include "lockstep/sim/group/detail/group_registry.h"
#include "lockstep/sim/group/detail/sim_process_group.h"
#include "lockstep/sim/group/detail/verdict_words.h"

namespace lockstep::sim {

// Numbers, not pointers, wait in the timer: the work may be gone when it fires.
void GroupRegistry::set_deadline(SimWork& work, Duration timeout) {
  work.deadline = ++n_deadlines_;
  deadlines_.emplace(work.deadline, &work);
  world_->at(world_->now() + timeout, [this, number = work.deadline] { on_deadline(number); });
}

void GroupRegistry::forget_deadline(SimWork& work) { deadlines_.erase(work.deadline); }

// A rank that can still arrive is late; one that waits elsewhere or has ended is missing.
std::string GroupRegistry::missing_text(const SimWork& work) const {
  constexpr std::size_t kMaxNamed = 4;
  std::vector<std::pair<std::string, std::vector<Rank>>> states;
  for (const std::int32_t rank : missing_for(work)) {
    const std::string state = state_of(rank);
    auto same = std::find_if(
        states.begin(), states.end(), [&](const auto& known) { return known.first == state; });
    if (same == states.end()) {
      if (states.size() == kMaxNamed) continue;
      same = states.insert(states.end(), {state, {}});
    }
    same->second.push_back(Rank{rank});
  }
  std::string text;
  for (const auto& [state, ranks] : states) {
    const bool late = state_in_graph(ranks.front()) == WaitForNode::State::kRunning;
    text += (late ? "; late: " : "; missing: ") + name_ranks(ranks) + ", which " + state;
  }
  return text;
}

// What could complete at this very moment does: false.
bool GroupRegistry::time_out(SimWork& work, const std::string& text) {
  const CollectiveOp op = work.signature().op;
  const bool message = op == CollectiveOp::kSend || op == CollectiveOp::kRecv;
  MatchSlot* slot = message ? nullptr : find_slot(work.group().state(), work.seq());
  if (message ? has_arrived(work) : slot->ready) return false;
  const std::string* detail = keep(text + missing_text(work));
  if (message) {
    fail_message(work, CommStatus::kTimedOut, detail);
    return true;
  }
  const bool all_called = slot->under_way();
  fail(*slot, CommStatus::kTimedOut, detail);
  if (all_called) close(*slot);
  return true;
}

void GroupRegistry::on_deadline(std::uint64_t number) {
  const auto found = deadlines_.find(number);
  if (found == deadlines_.end()) return;
  SimWork& work = *found->second;
  time_out(work, "the deadline of rank " + std::to_string(to_int(work.rank())) + " passed");
}

// All have the same time, so they end in the order in which they were posted.
void GroupRegistry::watch(SimWork& work) {
  if (options_.watchdog.ns == 0) return;
  work.watch = ++n_watched_;
  watched_.emplace(work.watch, &work);
  watches_.emplace_back(world_->now() + options_.watchdog, work.watch);
  arm_watchdog();
}

void GroupRegistry::forget_watch(SimWork& work) { watched_.erase(work.watch); }

// A daemon: a watchdog keeps no world alive, so that the verdict comes before it.
void GroupRegistry::arm_watchdog() {
  while (!watches_.empty() && !watched_.contains(watches_.front().second)) watches_.pop_front();
  if (watchdog_armed_ || watches_.empty()) return;
  watchdog_armed_ = true;
  world_->at(
      watches_.front().first, [this] { on_watchdog(); }, true);
}

void GroupRegistry::on_watchdog() {
  watchdog_armed_ = false;
  while (!watches_.empty() && watches_.front().first <= world_->now()) {
    const auto found = watched_.find(watches_.front().second);
    watches_.pop_front();
    if (found == watched_.end()) continue;
    SimWork& work = *found->second;
    const std::string text = "rank " + std::to_string(to_int(work.rank())) + ": " +
                             describe_call(work) + " has not completed in " +
                             std::to_string(options_.watchdog.ns) + " ns" + missing_text(work);
    const std::string why =
        "the watchdog of rank " + std::to_string(to_int(work.rank())) + " gave up";
    if (time_out(work, why)) timeouts_ += text + "\n";
  }
  arm_watchdog();
}

}  // namespace lockstep::sim
