#include "lockstep/laws/rules/detail/checkpoints/early_reads.h"

#include <algorithm>
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

/// Nothing where only the rank itself has written the file, or has so as well: it finds what it has written.
std::vector<const EarlyReads::Placed*> EarlyReads::writes_of_others(const Placed& read) const {
  std::vector<const Placed*> writes;
  for (const Placed& write : writes_) {
    if (write.access.attempt != read.access.attempt || write.access.path != read.access.path)
      continue;
    if (write.access.rank == read.access.rank) return {};
    writes.push_back(&write);
  }
  return writes;
}

EarlyReads::Judged EarlyReads::judged() const {
  Judged judged;
  for (const Placed& read : reads_) {
    std::vector<const Placed*> writes = writes_of_others(read);
    judged.n += writes.empty() ? 0 : 1;
    std::erase_if(writes, [&](const Placed* write) { return write->after != read.after; });
    if (writes.empty() || judged.first) continue;
    const Placed* const lowest = *std::ranges::min_element(
        writes, {}, [](const Placed* write) { return write->access.rank; });
    judged.first = Early{read.access, lowest->access.rank};
  }
  return judged;
}

}  // namespace lockstep::laws
