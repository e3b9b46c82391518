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

/// A rank finds what it has written itself.
bool EarlyReads::wrote(const Placed& read) const {
  return std::ranges::any_of(writes_, [&](const Placed& write) {
    return write.access.rank == read.access.rank && write.access.path == read.access.path &&
           write.access.attempt == read.access.attempt;
  });
}

std::vector<EarlyReads::Early> EarlyReads::found() const {
  std::vector<Early> early;
  for (const Placed& read : reads_) {
    const Placed* first = nullptr;
    for (const Placed& write : writes_) {
      const bool unordered = write.access.attempt == read.access.attempt &&
                             write.access.path == read.access.path && write.after == read.after;
      if (unordered && (first == nullptr || write.access.rank < first->access.rank)) first = &write;
    }
    if (first != nullptr && !wrote(read)) early.push_back({read.access, first->access.rank});
  }
  return early;
}

}  // namespace lockstep::laws
