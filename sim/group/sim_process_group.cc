#include "lockstep/sim/group/detail/sim_process_group.h"

#include <algorithm>
#include <fmt/core.h>

#include "lockstep/base/check.h"
#include "lockstep/base/text.h"
#include "lockstep/trace/recorder.h"

namespace lockstep::sim {

SimProcessGroup::SimProcessGroup(GroupRegistry& registry,
                                 GroupState& state,
                                 RankHandle& handle,
                                 Runtime& runtime,
                                 std::int32_t member)
    : registry_(&registry), state_(&state), handle_(&handle), runtime_(&runtime), member_(member) {
  SimProcessGroup*& place = state.handles[static_cast<std::size_t>(member)];
  LOCKSTEP_CHECK(
      place == nullptr,
      fmt::format(
          "group rank {} of group {} already has a handle: a rank can have only one at a time",
          member,
          state.id));
  place = this;
}

SimProcessGroup::~SimProcessGroup() { registry_->leave(*this); }

Rank SimProcessGroup::world_rank(std::int32_t group_rank) const {
  LOCKSTEP_CHECK(group_rank >= 0 && group_rank < size(),
                 fmt::format("no rank {} in group {}: it has {} ranks", group_rank, id(), size()));
  return static_cast<Rank>(state_->members[static_cast<std::size_t>(group_rank)]);
}

std::unique_ptr<ProcessGroup> SimProcessGroup::split(std::span<const std::int32_t> group_ranks,
                                                     CallSite /*site*/) {
  handle_->point({PointKind::kPost, split_object(*state_, n_splits_)});
  std::vector<std::int32_t> members;
  members.reserve(group_ranks.size());
  std::int32_t place = -1;
  for (const std::int32_t group_rank : group_ranks) {
    if (group_rank == member_) place = static_cast<std::int32_t>(members.size());
    members.push_back(to_int(world_rank(group_rank)));
  }
  std::vector<std::int32_t> sorted = members;
  std::sort(sorted.begin(), sorted.end());
  LOCKSTEP_CHECK(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end(),
                 fmt::format("a new group of ranks {} lists a rank twice: members must be distinct",
                             join(members)));
  GroupState& state = registry_->groups().split(*state_, n_splits_++, std::move(members));
  if (place < 0) return nullptr;
  if (Recorder* recorder = runtime_->recorder()) {
    recorder->record(GroupEvent{.group = state.id, .members = state.members});
  }
  return std::make_unique<SimProcessGroup>(*registry_, state, *handle_, *runtime_, place);
}

// Tensors of several ranks lie in one process. One that a rank got from another would be read when
// its owner has changed or freed it.
void SimProcessGroup::check_owner(const CollectiveCall& call) const {
  const auto check = [&](std::span<const Memory> buffers) {
    for (const Memory& memory : buffers) {
      LOCKSTEP_CHECK(
          memory.storage == nullptr || &memory.storage->runtime() == runtime_,
          fmt::format(
              "{} on rank {} was given another rank's tensor: each rank must pass its own tensors",
              name_of(call.signature.op),
              to_int(handle_->rank())));
    }
  };
  check(call.inputs);
  if (call.outputs.data() != call.inputs.data()) check(call.outputs);
}

Work SimProcessGroup::post(const CollectiveCall& call) {
  check_owner(call);
  const Signature& signature = call.signature;
  const bool message = signature.op == CollectiveOp::kSend || signature.op == CollectiveOp::kRecv;
  handle_->point(
      {PointKind::kPost,
       message ? channel_object(*state_, signature, member_) : slot_object(*state_, next_seq_)});
  // A recv from any rank gets its number, and its place in the trace, with its sender.
  const bool open = signature.op == CollectiveOp::kRecv && signature.peer < 0;
  std::int64_t seq = 0;
  if (!open) seq = message ? Mailbox::next_number(*state_, signature, member_) : next_seq_++;
  if (!open) record_posted(call, seq);
  MatchSlot* const slot = message ? nullptr : &registry_->matcher().slot_at(*state_, seq);
  SimWork* work =
      SimWork::make(*this, call, seq, slot != nullptr ? slot->signature : state_->message);
  Work handle{Ref<WorkState>(work)};
  if (call.timeout.ns > 0) {
    registry_->deadlines().set(*work, call.timeout);
  } else {
    registry_->watchdog().watch(*work);
  }
  if (slot == nullptr) {
    registry_->mailbox().arrive(*state_, *work);
  } else {
    registry_->matcher().arrive(*slot, *work);
  }
  // An addition of this very call rounded in exact mode: that is the error, not the status.
  if (work->done() && work->status() == CommStatus::kAborted) handle_->point({});
  return handle;
}

void SimProcessGroup::record_sender(const SimWork& work) {
  if (runtime_->recorder() == nullptr) return;
  record_posted({work.signature(), work.inputs(), work.outputs(), work.wrapper()}, work.seq());
}

void SimProcessGroup::record(const SimWork& work) {
  if (runtime_->recorder() == nullptr) return;
  record_completed(
      {work.signature(), work.inputs(), work.outputs(), work.wrapper()}, work.seq(), work.status());
}

void SimProcessGroup::abandon(std::int32_t wrapper) {
  const auto next_of_it = [wrapper](SimWork* work) {
    while (work != nullptr && work->wrapper() != wrapper) work = work->next_pending;
    return work;
  };
  while (SimWork* work = next_of_it(first_pending_)) registry_->give_up(*work);
}

void SimProcessGroup::add_pending(SimWork& work) {
  work.previous_pending = last_pending_;
  (last_pending_ != nullptr ? last_pending_->next_pending : first_pending_) = &work;
  last_pending_ = &work;
}

void SimProcessGroup::remove_pending(SimWork& work) {
  SimWork* before = work.previous_pending;
  SimWork* after = work.next_pending;
  (before != nullptr ? before->next_pending : first_pending_) = after;
  (after != nullptr ? after->previous_pending : last_pending_) = before;
  work.previous_pending = work.next_pending = nullptr;
}

}  // namespace lockstep::sim
