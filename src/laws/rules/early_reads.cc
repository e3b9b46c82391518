#include "lockstep/laws/rules/detail/checkpoints/early_reads.h"

#include <utility>

namespace lockstep::laws {

void EarlyReads::on_call(const Event& event, const CollectiveEvent& call, RankRange who) {
  if (call.phase != CollectivePhase::kPosted) return;
  const Made made{{event.at.attempt, call.group, call.seq, call.signature.op}, ++n_calls_};
  if (who.all()) {
    all_ = made;
    return;
  }
  const auto rank = static_cast<std::size_t>(who.first);
  if (rank >= own_.size()) own_.resize(rank + 1);
  own_[rank] = made;
}

EarlyReads::Call EarlyReads::last_of(std::int32_t rank) const {
  const auto place = static_cast<std::size_t>(rank);
  const bool alone = place < own_.size() && own_[place].nth > all_.nth;
  return alone ? own_[place].call : all_.call;
}

void EarlyReads::keep(std::vector<Placed>& accesses, Access access) const {
  if (accesses.size() >= kMost) return;
  const Call after = last_of(access.rank);
  accesses.push_back({std::move(access), after});
}

EarlyReads::Judged EarlyReads::judged() const {
  Judged judged;
  for (const Placed& read : reads_) {
    const Placed* unordered = nullptr;
    bool by_others = false;
    bool by_itself = false;  // Then it finds what it has written.
    for (const Placed& write : writes_) {
      if (write.access.attempt != read.access.attempt || write.access.path != read.access.path)
        continue;
      const bool own = write.access.rank == read.access.rank;
      (own ? by_itself : by_others) = true;
      const bool lower = unordered == nullptr || write.access.rank < unordered->access.rank;
      if (!own && lower && write.after == read.after) unordered = &write;
    }
    if (!by_others || by_itself) continue;
    ++judged.n;
    if (unordered != nullptr && !judged.first)
      judged.first = Early{read.access, unordered->access.rank};
  }
  return judged;
}

}  // namespace lockstep::laws
