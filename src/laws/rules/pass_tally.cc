#include "lockstep/laws/rules/detail/samples/pass_tally.h"

#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <utility>

namespace lockstep::laws {

void PassTally::add(const Consumed& consumed) {
  step = std::min(step, consumed.opt);
  std::vector<std::int64_t>& of_rank = by_rank[consumed.rank];
  of_rank.insert(of_rank.end(), consumed.ids.begin(), consumed.ids.end());
  for (const std::int64_t id : consumed.ids) ++counts[id];
}

void PassTally::keep_one_reader_per_share() {
  std::map<std::vector<std::int64_t>, std::vector<std::int32_t>> by_share;
  for (const auto& [rank, ids] : by_rank) by_share[ids].push_back(rank);
  const auto n_shares = std::ssize(by_share);
  if (n_shares < 2 || n_shares == n_ranks) return;
  const bool is_copied = std::ranges::all_of(
      by_share, [&](const auto& share) { return std::ssize(share.second) * n_shares == n_ranks; });
  const bool is_declared = std::ranges::all_of(
      declared, [&](const auto& own) { return own.second.n_replicas == n_shares; });
  if (!is_copied || !is_declared) return;
  counts.clear();
  for (const auto& [ids, ranks] : by_share) {
    for (const std::int64_t id : ids) ++counts[id];
    for (const std::int32_t rank : std::span(ranks).subspan(1)) {
      by_rank.erase(rank);
      declared.erase(rank);
    }
  }
  n_ranks = static_cast<std::int32_t>(n_shares);
}

std::int64_t PassTally::surplus() const {
  std::int64_t sum = 0;
  for (const auto& [id, count] : counts) sum += count - 1;
  return sum;
}

bool PassTally::is_complete() const {
  if (std::ssize(by_rank) < std::max<std::int64_t>(n_ranks, 1)) return false;
  return std::all_of(by_rank.begin(), by_rank.end(), [&](const auto& entry) {
    const auto own = declared.find(entry.first);
    return own != declared.end() &&
           static_cast<std::int64_t>(entry.second.size()) == own->second.per_rank;
  });
}

std::optional<Finding> PassTally::uneven_shares() const {
  std::map<std::int64_t, std::vector<Rank>> by_share;
  for (const auto& [rank, own] : declared) by_share[own.per_rank].push_back(Rank{rank});
  if (by_share.size() < 2) return std::nullopt;
  const auto most =
      std::max_element(by_share.begin(), by_share.end(), [](const auto& a, const auto& b) {
        return a.second.size() < b.second.size();
      });
  Finding finding;
  finding.field = "count";
  finding.cause = Cause::kUnevenBatches;
  finding.message =
      "the ranks draw different numbers of samples: " + std::to_string(by_share.begin()->first) +
      " to " + std::to_string(by_share.rbegin()->first);
  for (const auto& [share, ranks] : by_share) {
    if (share != most->first) finding.ranks.insert(finding.ranks.end(), ranks.begin(), ranks.end());
  }
  std::sort(finding.ranks.begin(), finding.ranks.end());
  return finding;
}

std::optional<Finding> PassTally::wrong_counts(bool is_random) const {
  const EpochEvent& first = declared.begin()->second;
  const std::int64_t drawn = first.n_replicas * first.per_rank;
  const std::int64_t padding =
      first.pads ? std::max<std::int64_t>(0, drawn - first.dataset_size) : 0;
  const std::int64_t extra = surplus();
  const auto n_seen = static_cast<std::int64_t>(counts.size());
  Finding finding;
  if (extra > padding) {
    finding.field = "duplicates";
    finding.message = std::to_string(extra) +
                      " samples were consumed more than once, but padding allows " +
                      std::to_string(padding);
    explain_duplicates(finding, is_random);
    return finding;
  }
  if (!is_complete()) return std::nullopt;  // Stopped on the way: nothing more to claim.
  const std::int64_t expected = std::min(drawn, first.dataset_size);
  if (n_seen == expected) return std::nullopt;
  finding.field = n_seen < expected ? "missing" : "foreign";
  finding.message = "a finished epoch saw " + std::to_string(n_seen) + " distinct samples of " +
                    std::to_string(expected);
  explain_duplicates(finding, is_random);
  const auto n_readers = static_cast<std::int64_t>(by_rank.size());
  if (finding.cause == Cause::kNone && n_seen < expected && first.n_replicas > n_readers) {
    finding.cause = Cause::kWorldFromDevices;
    finding.message += ": the sampler shards it over " + std::to_string(first.n_replicas) +
                       " ranks, but there are " + std::to_string(n_readers);
  }
  return finding;
}

void PassTally::explain_duplicates(Finding& finding, bool is_random) const {
  std::set<std::uint64_t> orders;
  for (const auto& [rank, own] : declared) orders.insert(own.order_digest);
  if (orders.size() > 1) {
    finding.cause = Cause::kSamplerSeedDiffers;
    finding.message += ": the ranks shuffled differently";
    return;
  }
  const std::vector<Rank> same = ranks_with_equal_shares();
  if (same.empty()) return;
  finding.ranks = same;
  const bool all = same.size() == by_rank.size();
  const bool sharded = declared.begin()->second.n_replicas > 1;
  if (all && !sharded) {
    finding.cause = is_random ? Cause::kWeightedNotSharded : Cause::kIterableUnsharded;
    finding.message += ": every rank reads the whole set";
  } else if (all_read_in_one_order(same)) {
    finding.cause = Cause::kLocalRankAsRank;
    finding.message += ": these ranks read the same shard";
  } else {
    finding.cause = Cause::kDataOrderDiffers;
    finding.message += ": these ranks read the same samples in different orders";
  }
}

bool PassTally::all_read_in_one_order(std::span<const Rank> ranks) const {
  // Of ranks that read the same samples: a sampler that gives two of them one shard gives it in one order.
  std::map<std::vector<std::int64_t>, const std::vector<std::int64_t>*> first;
  return std::all_of(ranks.begin(), ranks.end(), [&](Rank rank) {
    const std::vector<std::int64_t>& own = by_rank.at(to_int(rank));
    std::vector<std::int64_t> sorted = own;
    std::sort(sorted.begin(), sorted.end());
    return *first.try_emplace(std::move(sorted), &own).first->second == own;
  });
}

std::vector<Rank> PassTally::ranks_with_equal_shares() const {
  std::map<std::vector<std::int64_t>, std::vector<Rank>> by_share;
  for (const auto& [rank, ids] : by_rank) {
    std::vector<std::int64_t> sorted = ids;
    std::sort(sorted.begin(), sorted.end());
    by_share[std::move(sorted)].push_back(Rank{rank});
  }
  std::vector<Rank> same;
  for (const auto& [share, ranks] : by_share) {
    if (ranks.size() > 1) same.insert(same.end(), ranks.begin(), ranks.end());
  }
  std::sort(same.begin(), same.end());
  return same;
}

}  // namespace lockstep::laws
