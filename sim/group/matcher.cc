#include "lockstep/sim/group/detail/matcher.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "lockstep/base/check.h"
#include "lockstep/kernels/exact_observer.h"
#include "lockstep/sim/group/detail/group_registry.h"
#include "lockstep/sim/group/detail/message_network.h"
#include "lockstep/sim/group/detail/pairing.h"
#include "lockstep/sim/group/detail/sim_process_group.h"

namespace lockstep::sim {

namespace {

constexpr std::uint64_t kMaxSeq = std::uint64_t{1} << 29U;

ActionId transfer_id(const MatchSlot& slot) {
  // 31 bits of group and 29 of sequence number; a longer run wraps, long after the old one was
  // closed.
  const auto group = static_cast<std::uint64_t>(slot.group->key);
  return action_id(ActionKind::kTransfer,
                   (group << 29U) | (static_cast<std::uint64_t>(slot.seq) % kMaxSeq));
}

std::int64_t bytes_of(const Signature& signature) {
  return signature.count * size_of(signature.dtype);
}

}  // namespace

void MatchSlot::on_action(const Action& /*action*/) { matcher->transfer(*this); }

void MatchSlot::on_member_done(std::int32_t member) { matcher->on_member_done(*this, member); }

void MatchSlot::on_inexact(std::exception_ptr problem) {
  matcher->on_inexact(*this, std::move(problem));
}

MatchSlot* Meetings::find(const GroupState& group, std::int64_t seq) {
  if (seq < group.first_open || seq >= group.n_opened) return nullptr;
  return group.window[static_cast<std::size_t>(seq) & (group.window.size() - 1)];
}

MatchSlot& Meetings::at(Matcher& matcher, GroupState& group, std::int64_t seq) {
  if (MatchSlot* slot = find(group, seq)) return *slot;
  MatchSlot& slot = open(group, seq);
  slot.matcher = &matcher;
  return slot;
}

MatchSlot& Meetings::open(GroupState& group, std::int64_t seq) {
  LOCKSTEP_CHECK(seq == group.n_opened, "members reach sequence numbers one after another");
  while (seq - group.first_open >= static_cast<std::int64_t>(group.window.size())) {
    std::vector<MatchSlot*> wider(std::max<std::size_t>(8, group.window.size() * 2));
    for (std::int64_t s = group.first_open; s < group.n_opened; ++s) {
      wider[static_cast<std::size_t>(s) & (wider.size() - 1)] =
          group.window[static_cast<std::size_t>(s) & (group.window.size() - 1)];
    }
    group.window = std::move(wider);
  }
  if (free_.empty()) free_.push_back(&slots_.emplace_back());
  MatchSlot& slot = *free_.back();
  free_.pop_back();
  slot.group = &group;
  slot.seq = seq;
  slot.works.assign(group.members.size(), nullptr);
  slot.first = nullptr;
  slot.n_arrived = slot.n_lost = 0;
  slot.ready = slot.hung = slot.cut = slot.failed = false;
  slot.transfer_timer = 0;
  slot.n_done = 0;
  slot.done.clear();
  slot.early.clear();
  slot.status = CommStatus::kOk;
  slot.detail = nullptr;
  group.window[static_cast<std::size_t>(seq) & (group.window.size() - 1)] = &slot;
  ++group.n_opened;
  return slot;
}

void Meetings::close(MatchSlot& slot) {
  GroupState& group = *slot.group;
  slot.flight.reset();
  const std::size_t mask = group.window.size() - 1;
  group.window[static_cast<std::size_t>(slot.seq) & mask] = nullptr;
  while (group.first_open < group.n_opened &&
         group.window[static_cast<std::size_t>(group.first_open) & mask] == nullptr) {
    ++group.first_open;
  }
  free_.push_back(&slot);
}

Matcher::Matcher(GroupRegistry& registry)
    : registry_(&registry), options_(&registry.options()), transfer_(options_->order) {}

void Matcher::arrive(MatchSlot& slot, SimWork& work) {
  ContributionFaults& faults = registry_->faults();
  if (faults.any() && faults.apply(work)) return;
  admit(slot, work);
}

void Matcher::arrive_late(SimWork& work) { admit(*slot_of(work), work); }

void Matcher::admit(MatchSlot& slot, SimWork& work) {
  const GroupState& group = *slot.group;
  ++slot.n_arrived;
  if (slot.failed) {
    work.complete(slot.status, slot.detail);
  } else {
    work.retain();
    slot.works[static_cast<std::size_t>(work.member())] = &work;
    compare(slot, work);
    const bool agrees = options_->pairing == Pairing::kStrict && !slot.failed && slot.n_lost == 0;
    MessageNetwork* network = registry_->network();
    if (network != nullptr && agrees) network->post(slot, work);
  }
  if (slot.n_arrived < group.size()) return;
  if (slot.failed) {
    meetings_.close(slot);
  } else if (slot.n_lost == 0) {
    fill(slot);
  }
}

// Early, so that a mismatch is reported at once and not when the last rank arrives.
void Matcher::compare(MatchSlot& slot, SimWork& work) {
  if (slot.first == nullptr) {
    slot.first = &work;
    return;
  }
  const Signature& expected = slot.first->signature();
  const Signature& actual = work.signature();
  if (&expected == &actual) return;  // They share it.
  std::optional<Difference> difference;
  if (options_->pairing == Pairing::kStrict && !same_signature(expected, actual)) {
    difference = first_difference(expected, actual);
  } else if (options_->pairing == Pairing::kGlooLike && bytes_of(expected) != bytes_of(actual)) {
    const bool uneven =
        expected.op == CollectiveOp::kAllToAll && actual.op == CollectiveOp::kAllToAll;
    if (!uneven) {
      difference =
          Difference{"bytes", std::to_string(bytes_of(expected)), std::to_string(bytes_of(actual))};
    }
  }
  if (!difference) return;
  // Lower rank first, whichever came first: the text must not depend on the schedule.
  const bool swapped = work.member() < slot.first->member();
  if (swapped) std::swap(difference->left, difference->right);
  const SimWork& left = swapped ? work : *slot.first;
  const SimWork& right = swapped ? *slot.first : work;
  fail(slot, CommStatus::kMismatch, registry_->keep(describe(*difference, left, right)));
}

// Pairs calls by their place alone, and keeps the first difference for the verdict.
bool Matcher::hangs_when_paired(MatchSlot& slot) const {
  slot.hung = pair_by_sequence(slot.works) == PairingResult::kHang;
  for (std::size_t i = 1; i < slot.works.size() && slot.group->mispaired.empty(); ++i) {
    const SimWork& left = *slot.works.front();
    const SimWork& right = *slot.works[i];
    const auto difference = first_difference(left.signature(), right.signature());
    if (difference) slot.group->mispaired = describe(*difference, left, right);
  }
  return slot.hung;
}

// All members are here.
void Matcher::fill(MatchSlot& slot) {
  const CollectiveOp op = slot.works.front()->signature().op;
  if (op == CollectiveOp::kAllToAll && options_->pairing != Pairing::kNcclLike) {
    if (const auto difference = differing_splits(slot.works)) {
      fail(slot,
           CommStatus::kMismatch,
           registry_->keep(describe(*difference, *slot.works.front(), *slot.works.back())));
      return meetings_.close(slot);
    }
  }
  if (options_->pairing != Pairing::kStrict && hangs_when_paired(slot)) return;
  if (slot.flight != nullptr) {
    for (const std::int32_t member : std::exchange(slot.early, {})) finish_member(slot, member);
    return;
  }
  MessageNetwork* network = registry_->network();
  if (network == nullptr || !network->defer(slot)) make_ready(slot);
}

void Matcher::make_ready(MatchSlot& slot) {
  slot.ready = true;
  registry_->world().enable({.id = transfer_id(slot),
                             .kind = ActionKind::kTransfer,
                             .rank = slot.works.back()->rank(),
                             .footprint = slot_object(*slot.group, slot.seq)},
                            slot);
}

// Exact mode's proof may fail here as in any operation of a rank: then the first member throws that
// still waits.
void Matcher::fail_inexact(MatchSlot& slot, std::exception_ptr problem) {
  const auto waits = [](const SimWork* work) { return work != nullptr; };
  const auto first = std::find_if(slot.works.begin(), slot.works.end(), waits);
  registry_->world().interrupt(
      (*first)->rank(),
      [problem = std::move(problem)](RankHandle& /*rank*/) { std::rethrow_exception(problem); });
  fail(slot, CommStatus::kAborted, nullptr);
}

void Matcher::on_inexact(MatchSlot& slot, std::exception_ptr problem) {
  const bool all_called = slot.under_way();
  fail_inexact(slot, std::move(problem));
  if (all_called) meetings_.close(slot);
}

bool Matcher::move_data(MatchSlot& slot) {
  try {
    if (options_->pairing != Pairing::kStrict &&
        pair_by_sequence(slot.works) == PairingResult::kGarbage) {
      transfer_.run_garbage(slot.works);
    } else {
      transfer_.run(slot.works);
    }
    return true;
  } catch (const InexactOperation&) {
    fail_inexact(slot, std::current_exception());
    return false;
  }
}

void Matcher::transfer(MatchSlot& slot) {
  slot.transfer_timer = 0;
  slot.ready = false;
  if (!move_data(slot)) return meetings_.close(slot);
  constexpr std::size_t kAhead = 4;
  for (std::size_t i = 0; i < slot.works.size(); ++i) {
    if (i + kAhead < slot.works.size()) slot.works[i + kAhead]->prefetch();
    slot.works[i]->complete(CommStatus::kOk, nullptr);
    slot.works[i]->release();
  }
  meetings_.close(slot);
}

// Members that need not wait complete when all have called: then the calls have been compared.
void Matcher::on_member_done(MatchSlot& slot, std::int32_t member) {
  if (slot.n_arrived < slot.n_members()) {
    slot.early.push_back(member);
  } else {
    finish_member(slot, member);
  }
}

void Matcher::finish_member(MatchSlot& slot, std::int32_t member) {
  const auto place = static_cast<std::size_t>(member);
  slot.done.resize(slot.works.size());
  slot.done[place] = 1;
  SimWork* work = std::exchange(slot.works[place], nullptr);
  work->complete(CommStatus::kOk, nullptr);
  work->release();
  if (++slot.n_done == slot.n_members()) meetings_.close(slot);
}

// A transfer under way ends now. False: there is none, or a message was lost.
bool Matcher::finish_now(MatchSlot& slot) {
  if (!slot.under_way()) return false;
  if (slot.flight == nullptr) {
    transfer(slot);
    return true;
  }
  const std::int64_t seq = slot.seq;
  GroupState& group = *slot.group;
  registry_->network()->deliver_now(slot);
  return Meetings::find(group, seq) == nullptr;
}

void Matcher::fail(MatchSlot& slot, CommStatus status, const std::string* detail) {
  if (slot.flight != nullptr) registry_->network()->drop(slot);
  slot.transfer_timer = 0;
  slot.failed = true;
  slot.status = status;
  slot.detail = detail;
  for (SimWork*& work : slot.works) {
    if (work == nullptr) continue;
    work->complete(status, detail);
    std::exchange(work, nullptr)->release();
  }
  registry_->faults().fail_lost(slot);
}

void Matcher::time_out(MatchSlot& slot, const std::string* detail) {
  const bool all_called = slot.under_way();
  fail(slot, CommStatus::kTimedOut, detail);
  if (all_called) meetings_.close(slot);
}

// The memory of this work is about to go: a transfer that could have happened happens now, anything
// else will never complete for the others.
void Matcher::give_up(SimWork& work) {
  MatchSlot* slot = slot_of(work);
  if (slot == nullptr || slot->works[static_cast<std::size_t>(work.member())] != &work) {
    return work.complete(CommStatus::kAborted, nullptr);
  }
  if (slot->ready) {
    registry_->world().disable(transfer_id(*slot));
    return transfer(*slot);
  }
  registry_->world().touch(slot_object(*slot->group, slot->seq));
  const auto member = static_cast<std::size_t>(work.member());
  if (finish_now(*slot)) return;
  if (slot->flight != nullptr) registry_->network()->drop(*slot);
  if (slot->has_result(member)) return;
  if (slot->first == &work) slot->first = nullptr;
  slot->works[static_cast<std::size_t>(work.member())] = nullptr;
  ++slot->n_lost;
  for (SimWork* other : slot->works) {
    if (slot->first == nullptr) slot->first = other;
  }
  work.complete(CommStatus::kAborted, nullptr);
  work.release();
}

MatchSlot* slot_of(const SimWork& work) {
  return is_message(work) ? nullptr : Meetings::find(work.group().state(), work.seq());
}

}  // namespace lockstep::sim
