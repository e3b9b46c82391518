#include "lockstep/laws/rules/detail/samples/pass_parts.h"

#include <algorithm>

namespace lockstep::laws {

void DividingGroups::on_wrap(const Event& event, const WrapEvent& wrap, const Worlds& worlds) {
  if (wrap.n_ranks >= worlds.of(event.at.attempt)) return;
  groups_[{wrapper_of(event.at), to_int(event.rank)}] = {wrap.group, wrap.n_ranks};
}

std::int32_t DividingGroups::of(WrapperKey trains,
                                std::int32_t rank,
                                const EpochEvent& declared) const {
  std::int32_t found = -1;
  for (const auto& [place, group] : groups_) {
    const auto& [wrapper, own_rank] = place;
    const bool is_own = own_rank == rank && wrapper.attempt == trains.attempt &&
                        (trains.wrapper < 0 || wrapper == trains);
    if (!is_own || group.n_ranks != declared.n_replicas) continue;
    if (found >= 0 && found != group.number) return -1;
    found = group.number;
  }
  return found;
}

void JointLosses::on_group(const Event& event, const GroupEvent& group) {
  members_[{{event.at.attempt, to_int(event.rank)}, group.group}].assign(group.members.begin(),
                                                                         group.members.end());
}

void JointLosses::on_exchange(const Event& event, const ExchangeEvent& exchange) {
  if (exchange.group == 0) return;
  const OfRank rank{event.at.attempt, to_int(event.rank)};
  const auto known = members_.find({rank, exchange.group});
  if (known != members_.end()) joint_[rank].insert(known->second);
}

bool JointLosses::explain(const PassTally& tally) const {
  if (joint_.empty()) return false;
  std::map<std::vector<std::int64_t>, Members> readers;
  for (const auto& [rank, ids] : tally.by_rank) readers[ids].push_back(rank);
  return std::ranges::all_of(readers, [&](const auto& share) {
    const Members& ranks = share.second;
    const auto own = joint_.find({tally.attempt, ranks.front()});
    return own != joint_.end() && std::ranges::any_of(own->second, [&](const Members& group) {
             return std::ranges::all_of(ranks, [&](std::int32_t rank) {
               return std::ranges::find(group, rank) != group.end();
             });
           });
  });
}

void PassParts::on_event(const Event& event, const Worlds& worlds) {
  if (const auto* wrap = std::get_if<WrapEvent>(&event.body)) {
    groups_.on_wrap(event, *wrap, worlds);
    if (wrap->n_ranks >= worlds.of(event.at.attempt)) averaging_.insert(event.at.attempt);
  } else if (const auto* group = std::get_if<GroupEvent>(&event.body)) {
    losses_.on_group(event, *group);
  } else if (const auto* exchange = std::get_if<ExchangeEvent>(&event.body)) {
    losses_.on_exchange(event, *exchange);
  }
}

PassParts::Dividing PassParts::dividing_groups(const Pass& pass) const {
  Dividing dividing;
  for (const Consumed& consumed : pass.consumed) {
    const auto declared = pass.declared.find(consumed.attempt);
    if (declared == pass.declared.end()) continue;
    const auto own = declared->second.find(consumed.rank);
    if (own == declared->second.end()) continue;
    dividing[{consumed.attempt, consumed.rank}] =
        groups_.of({consumed.attempt, consumed.wrapper}, consumed.rank, own->second);
  }
  return dividing;
}

std::vector<Pass> PassParts::parts_of(const Pass& pass) const {
  const Dividing dividing = dividing_groups(pass);
  std::map<std::int32_t, Pass> parts;
  const auto part_of = [&](std::int32_t attempt, std::int32_t rank) -> Pass& {
    const auto known = dividing.find({attempt, rank});
    return parts[known == dividing.end() ? -1 : known->second];
  };
  for (const auto& [attempt, by_rank] : pass.declared) {
    for (const auto& [rank, own] : by_rank) {
      Pass& part = part_of(attempt, rank);
      part.declared[attempt][rank] = own;
      part.n_readers = static_cast<std::int32_t>(own.n_replicas);
    }
  }
  for (const Consumed& consumed : pass.consumed) {
    part_of(consumed.attempt, consumed.rank).consumed.push_back(consumed);
  }
  std::vector<Pass> all;
  for (auto& [group, part] : parts) {
    if (group < 0) part.n_readers = 0;
    all.push_back(std::move(part));
  }
  return all;
}

}  // namespace lockstep::laws
