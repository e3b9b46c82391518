// Works that may wait only so long.
#include "lockstep/base/text.h"
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

// What could complete at this very moment does.
void Hub::on_deadline(std::uint64_t number) {
  const auto found = deadlines_.find(number);
  if (found == deadlines_.end()) return;
  SimWork& work = *found->second;
  const CollectiveOp op = work.signature().op;
  const bool message = op == CollectiveOp::kSend || op == CollectiveOp::kRecv;
  MatchSlot* slot = message ? nullptr : find_slot(work.group().state(), work.seq());
  if (message ? work.partner != nullptr : slot->ready) return;
  const std::vector<std::int32_t> missing = missing_for(work);
  std::string text = "the deadline of rank " + std::to_string(to_int(work.rank())) + " passed";
  if (!missing.empty()) {
    text += "; missing: rank " + join(std::span<const std::int32_t>(missing));
  }
  const std::string* detail = keep(std::move(text));
  if (message) return fail_message(work, CommStatus::kTimedOut, detail);
  fail(*slot, CommStatus::kTimedOut, detail);
}

}  // namespace lockstep::sim
