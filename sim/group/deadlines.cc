// Works that may wait only so long.
#include <algorithm>
#include <utility>

#include "lockstep/sim/group/detail/hub.h"
#include "lockstep/sim/group/detail/sim_process_group.h"

namespace lockstep::sim {

// Numbers, not pointers, wait in the timer: the work may be gone when it fires.
void Hub::set_deadline(SimWork& work, Duration timeout) {
  work.deadline = ++n_deadlines_;
  deadlines_.emplace(work.deadline, &work);
  world_->at(world_->now() + timeout, [this, number = work.deadline] { on_deadline(number); });
}

void Hub::forget_deadline(SimWork& work) { deadlines_.erase(work.deadline); }

// Who can still come is late; who waits elsewhere or has ended is missing.
std::string Hub::absence_from(const SimWork& work) const {
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

// What could complete at this very moment does.
void Hub::on_deadline(std::uint64_t number) {
  const auto found = deadlines_.find(number);
  if (found == deadlines_.end()) return;
  SimWork& work = *found->second;
  const CollectiveOp op = work.signature().op;
  const bool message = op == CollectiveOp::kSend || op == CollectiveOp::kRecv;
  MatchSlot* slot = message ? nullptr : find_slot(work.group().state(), work.seq());
  if (message ? work.partner != nullptr : slot->ready) return;
  const std::string* detail = keep("the deadline of rank " + std::to_string(to_int(work.rank())) +
                                   " passed" + absence_from(work));
  if (message) return fail_message(work, CommStatus::kTimedOut, detail);
  const bool all_called = slot->under_way();
  fail(*slot, CommStatus::kTimedOut, detail);
  if (all_called) close(*slot);
}

}  // namespace lockstep::sim
