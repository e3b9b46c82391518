#include "lockstep/sim/group/detail/contribution_faults.h"

#include <algorithm>
#include <array>
#include <utility>

#include "lockstep/sim/group/detail/group_registry.h"
#include "lockstep/sim/group/detail/sim_process_group.h"

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

void ContributionFaults::plan(const ContributionFault& fault) {
  any_ = true;
  planned_.push_back(fault);
}

void ContributionFaults::remember(Rank rank) {
  any_ = true;
  remembered_.push_back(rank);
}

// True: it does not arrive now.
bool ContributionFaults::apply(SimWork& work) {
  bool away = false;
  const bool keeps =
      std::find(remembered_.begin(), remembered_.end(), work.rank()) != remembered_.end();
  std::vector<std::byte> own;
  if (keeps) own = work.input_bytes();
  for (std::size_t i = 0; i < planned_.size(); ++i) {
    const ContributionFault fault = planned_[i];
    const bool meant =
        fault.rank == work.rank() && fault.group == work.group().id() && fault.seq == work.seq();
    if (!meant) continue;
    planned_.erase(planned_.begin() + static_cast<std::ptrdiff_t>(i--));
    const bool takes_away = fault.kind == ContributionFault::Kind::kLost ||
                            fault.kind == ContributionFault::Kind::kDelayed;
    if (away && takes_away) continue;  // It is on no way any more.
    if (apply(fault, work)) away = true;
  }
  if (keeps) contributions_[kind_of(work)] = std::move(own);
  return away;
}

ContributionFaults::Kind ContributionFaults::kind_of(const SimWork& work) {
  const Signature& signature = work.signature();
  return {work.rank(), work.group().id(), signature.op, signature.count, signature.dtype};
}

bool ContributionFaults::apply(const ContributionFault& fault, SimWork& work) {
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
      replace(fault, work);
      return false;
  }
  return false;
}

void ContributionFaults::delay(SimWork& work, Duration span) {
  work.delay = ++n_delayed_;
  delayed_.emplace(work.delay, &work);
  World& world = registry_->world();
  world.at(world.now() + span, [this, number = work.delay] {
    const auto found = delayed_.find(number);
    if (found == delayed_.end()) return;
    SimWork& arrived = *found->second;
    delayed_.erase(found);
    arrived.delay = 0;
    registry_->matcher().arrive_late(arrived);
  });
}

void ContributionFaults::replace(const ContributionFault& fault, SimWork& work) {
  if (fault.kind == ContributionFault::Kind::kStale) {
    const auto known = contributions_.find(kind_of(work));
    if (known != contributions_.end()) work.contribute(known->second);
    return;
  }
  if (fault.result) return work.corrupt_result(fault.element, fault.bit);
  if (work.inputs().empty() || work.inputs().front().count == 0) return;
  std::vector<std::byte> bytes = work.input_bytes();
  flip_bit(bytes.data(), work.inputs().front(), fault.element, fault.bit);
  work.contribute(std::move(bytes));
}

void ContributionFaults::fail_lost(const MatchSlot& slot) {
  const std::vector<SimWork*> lost = lost_;
  for (SimWork* work : lost) {
    if (&work->group().state() != slot.group || work->seq() != slot.seq) continue;
    work->complete(slot.status, slot.detail);
  }
}

}  // namespace lockstep::sim
