#include "lockstep/laws/rules/detail/checkpoints/file_accesses.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "lockstep/laws/report.h"

namespace lockstep::laws {

namespace {

/// No finding: what ranks agree on by a store or by looking for the file leaves no event.
Advice too_early(const FileAccesses::Access& read, std::int32_t writer) {
  return Advice{
      "A-read-early",
      "rank " + std::to_string(read.rank) + " reads " + read.path + ", which rank " +
          std::to_string(writer) +
          " writes, and no collective of both is between the two: it may read a stale, partial or "
          "missing file. Add a barrier, unless the ranks wait for each other in another way."};
}

/// Nor here: writers of the same bytes lose nothing, and what they write is not known.
Advice lost(const std::string& path, const std::vector<Rank>& writers) {
  return Advice{"A-overwritten",
                ranks_text(writers) + " each open " + path +
                    " to rewrite it, with no collective of theirs in between: only the last write "
                    "survives, or a mixture. Write from one rank, or use one file per rank, unless "
                    "all write the same."};
}

}  // namespace

void FileAccesses::on_call(const Event& event, const CollectiveEvent& call, RankRange who) {
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

FileAccesses::Call FileAccesses::last_of(std::int32_t rank) const {
  const auto place = static_cast<std::size_t>(rank);
  const bool alone = place < own_.size() && own_[place].nth > all_.nth;
  return alone ? own_[place].call : all_.call;
}

void FileAccesses::keep(std::vector<Placed>& accesses, Access access, bool anew) const {
  if (accesses.size() >= kMost) return;
  const Call after = last_of(access.rank);
  accesses.push_back({std::move(access), after, anew});
}

/// Nothing where only the rank itself has written the file, or has so as well: it finds what it has written.
std::vector<const FileAccesses::Placed*> FileAccesses::writes_of_others(const Placed& read) const {
  std::vector<const Placed*> writes;
  for (const Placed& write : writes_) {
    if (write.access.attempt != read.access.attempt || write.access.path != read.access.path)
      continue;
    if (write.access.rank == read.access.rank) return {};
    writes.push_back(&write);
  }
  return writes;
}

FileAccesses::Judged FileAccesses::judged() const {
  Judged judged;
  for (const Placed& read : reads_) {
    std::vector<const Placed*> writes = writes_of_others(read);
    judged.n += writes.empty() ? 0 : 1;
    std::erase_if(writes, [&](const Placed* write) { return write->after != read.after; });
    if (writes.empty() || !judged.advice.empty()) continue;
    const Placed* const lowest = *std::ranges::min_element(
        writes, {}, [](const Placed* write) { return write->access.rank; });
    judged.advice.push_back(too_early(read.access, lowest->access.rank));
  }
  if (auto advice = overwritten()) judged.advice.push_back(std::move(*advice));
  return judged;
}

/// Whether that rank changes the file as it is, there or later, as one does that takes its turn by a lock on it.
bool FileAccesses::extends(const Placed& write) const {
  return std::ranges::any_of(writes_, [&](const Placed& other) {
    return !other.anew && other.access.rank == write.access.rank &&
           other.access.attempt == write.access.attempt && other.access.path == write.access.path;
  });
}

std::optional<Advice> FileAccesses::overwritten() const {
  for (auto first = writes_.begin(); first != writes_.end(); ++first) {
    if (extends(*first)) continue;
    std::set<Rank> ranks = {Rank{first->access.rank}};
    for (auto other = std::next(first); other != writes_.end(); ++other) {
      const bool same_file = other->access.attempt == first->access.attempt &&
                             other->access.path == first->access.path;
      if (other->anew && same_file && other->after == first->after)
        ranks.insert(Rank{other->access.rank});
    }
    if (ranks.size() > 1) return lost(first->access.path, {ranks.begin(), ranks.end()});
  }
  return std::nullopt;
}

}  // namespace lockstep::laws
