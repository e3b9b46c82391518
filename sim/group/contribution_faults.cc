// Faults injected into contributions on their way.
#include <algorithm>
#include <array>
#include <utility>

#include "lockstep/sim/group/detail/group_registry.h"
#include "lockstep/sim/group/detail/sim_process_group.h"
#include "lockstep/sim/group/detail/verdict_words.h"

namespace lockstep::sim {

namespace {

bool adds_up(const Signature& signature) {
  const bool reduces = signature.op == CollectiveOp::kAllReduce ||
                       signature.op == CollectiveOp::kReduce ||
                       signature.op == CollectiveOp::kReduceScatter;
  return reduces && (signature.reduce == ReduceOp::kSum || signature.reduce == ReduceOp::kAvg ||
                     signature.reduce == ReduceOp::kPremulSum);
}

/// x + x, input after input.
void count_twice(SimWork& work) {
  std::vector<std::byte> bytes = work.input_bytes();
  std::byte* at = bytes.data();
  for (const Memory& input : work.inputs()) {
    const std::array<const void*, 2> inputs = {input.data, input.data};
    const std::array<void*, 1> outputs = {at};
    RankReduction sum{
        .outputs = outputs, .inputs = inputs, .count = input.count, .dtype = input.dtype};
    sum.op = ReduceOp::kSum;
    reduce_in_order(work.group().runtime().kernels(), sum, ReductionOrder::kRank);
    at += input.count * size_of(input.dtype);
  }
  work.contribute(std::move(bytes));
}

}  // namespace

void GroupRegistry::plan(const ContributionFault& fault) {
  has_contribution_faults_ = true;
  contribution_faults_.push_back(fault);
}

void GroupRegistry::remember(Rank rank) {
  has_contribution_faults_ = true;
  remembered_.push_back(rank);
}

// True: it does not arrive now.
bool GroupRegistry::apply_faults(MatchSlot& slot, SimWork& work) {
  bool away = false;
  const bool keeps =
      std::find(remembered_.begin(), remembered_.end(), work.rank()) != remembered_.end();
  std::vector<std::byte> own;
  if (keeps) own = work.input_bytes();
  for (std::size_t i = 0; i < contribution_faults_.size(); ++i) {
    const ContributionFault fault = contribution_faults_[i];
    const bool meant =
        fault.rank == work.rank() && fault.group == slot.group->id && fault.seq == slot.seq;
    if (!meant) continue;
    contribution_faults_.erase(contribution_faults_.begin() + static_cast<std::ptrdiff_t>(i--));
    const bool takes_away = fault.kind == ContributionFault::Kind::kLost ||
                            fault.kind == ContributionFault::Kind::kDelayed;
    if (away && takes_away) continue;  // It is on no way any more.
    if (apply_fault(fault, work)) away = true;
  }
  const Signature& signature = work.signature();
  if (keeps) {
    contributions_[{work.rank(), slot.group->id, signature.op, signature.count, signature.dtype}] =
        std::move(own);
  }
  return away;
}

bool GroupRegistry::apply_fault(const ContributionFault& fault, SimWork& work) {
  switch (fault.kind) {
    case ContributionFault::Kind::kLost:
      work.lost = true;
      lost_.push_back(&work);
      return true;
    case ContributionFault::Kind::kDelayed:
      delay(work, fault.delay);
      return true;
    case ContributionFault::Kind::kDuplicated:
      if (adds_up(work.signature())) count_twice(work);
      return false;
    case ContributionFault::Kind::kCorrupted:
    case ContributionFault::Kind::kStale:
      replace_contribution(fault, work);
      return false;
  }
  return false;
}

void GroupRegistry::delay(SimWork& work, Duration span) {
  work.delay = ++n_delayed_;
  delayed_.emplace(work.delay, &work);
  world_->at(world_->now() + span, [this, number = work.delay] {
    const auto found = delayed_.find(number);
    if (found == delayed_.end()) return;
    SimWork& arrived = *found->second;
    delayed_.erase(found);
    arrived.delay = 0;
    admit(*find_slot(arrived.group().state(), arrived.seq()), arrived);
  });
}

void GroupRegistry::replace_contribution(const ContributionFault& fault, SimWork& work) {
  const Signature& signature = work.signature();
  if (fault.kind == ContributionFault::Kind::kStale) {
    const auto known = contributions_.find(
        {work.rank(), work.group().id(), signature.op, signature.count, signature.dtype});
    if (known != contributions_.end()) work.contribute(known->second);
    return;
  }
  if (fault.result) return work.corrupt_result(fault.element, fault.bit);
  if (work.inputs().empty() || work.inputs().front().count == 0) return;
  std::vector<std::byte> bytes = work.input_bytes();
  flip_bit(bytes.data(), work.inputs().front(), fault.element, fault.bit);
  work.contribute(std::move(bytes));
}

// The calls whose contributions were lost fail with the others'.
void GroupRegistry::fail_lost(const MatchSlot& slot) {
  const std::vector<SimWork*> lost = lost_;
  for (SimWork* work : lost) {
    if (&work->group().state() != slot.group || work->seq() != slot.seq) continue;
    work->complete(slot.status, slot.detail);
  }
}

std::string GroupRegistry::losses_text() const {
  std::string text;
  for (const SimWork* work : lost_) {
    text += "lost: the contribution of rank " + std::to_string(to_int(work->rank())) + " to " +
            describe_call(*work) + "\n";
  }
  for (const Outage& outage : options_.net.outages) {
    std::vector<Rank> ranks;
    std::vector<Rank> peers;
    for (const std::int32_t rank : outage.ranks) ranks.push_back(Rank{rank});
    for (const std::int32_t rank : outage.peers) peers.push_back(Rank{rank});
    if (outage.next_up(world_->now().ns)) continue;
    text += "down: nothing passes between " + name_ranks(ranks) + " and " +
            (peers.empty() ? "the others" : name_ranks(peers)) + " any more\n";
  }
  return text;
}

}  // namespace lockstep::sim
