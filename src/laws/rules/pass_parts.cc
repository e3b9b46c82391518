#include "lockstep/laws/rules/detail/samples/pass_parts.h"

namespace lockstep::laws {

std::int32_t dividing_wrapper(WrapperKey trains,
                              const EpochEvent& declared,
                              const Wrappers& wrappers,
                              const Worlds& worlds) {
  const WrapEvent* const wrap = wrappers.find(trains);
  const bool of_a_part = wrap != nullptr && wrap->n_ranks < worlds.of(trains.attempt);
  return of_a_part && declared.n_replicas == wrap->n_ranks ? trains.wrapper : -1;
}

PassParts::Dividing PassParts::dividing_wrappers(const Pass& pass, const Worlds& worlds) const {
  Dividing dividing;
  for (const Consumed& consumed : pass.consumed) {
    const auto declared = pass.declared.find(consumed.attempt);
    if (declared == pass.declared.end()) continue;
    const auto own = declared->second.find(consumed.rank);
    if (own == declared->second.end()) continue;
    dividing[{consumed.attempt, consumed.rank}] =
        dividing_wrapper({consumed.attempt, consumed.wrapper}, own->second, wrappers_, worlds);
  }
  return dividing;
}

std::vector<Pass> PassParts::parts_of(const Pass& pass, const Worlds& worlds) const {
  const Dividing dividing = dividing_wrappers(pass, worlds);
  std::map<std::int32_t, Pass> parts;
  const auto part_of = [&](std::int32_t attempt, std::int32_t rank) -> Pass& {
    const auto known = dividing.find({attempt, rank});
    const std::int32_t wrapper = known == dividing.end() ? -1 : known->second;
    Pass& part = parts[wrapper];
    if (wrapper >= 0) part.n_readers = wrappers_.n_members({attempt, wrapper}, 0);
    return part;
  };
  for (const auto& [attempt, by_rank] : pass.declared) {
    for (const auto& [rank, own] : by_rank) part_of(attempt, rank).declared[attempt][rank] = own;
  }
  for (const Consumed& consumed : pass.consumed) {
    part_of(consumed.attempt, consumed.rank).consumed.push_back(consumed);
  }
  std::vector<Pass> all;
  for (auto& [wrapper, part] : parts) all.push_back(std::move(part));
  return all;
}

}  // namespace lockstep::laws
