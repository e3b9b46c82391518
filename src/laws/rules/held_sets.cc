#include "lockstep/laws/rules/detail/samples/held_sets.h"

#include <algorithm>
#include <string>
#include <utility>

#include "lockstep/laws/detail/alignment.h"

namespace lockstep::laws {

void HeldSets::add(const Event& event, const DataEvent& data) {
  Held& held = held_[{event.at.attempt, data.split}][to_int(event.rank)];
  std::uint64_t& digest = data.part == DataPart::kEntries ? held.entries
                          : data.part == DataPart::kOrder ? held.order
                                                          : held.classes;
  if (data.part == DataPart::kEntries) ++held.n_sets;
  if (held.n_sets > 1) return;
  digest = data.digest;
  held.step = event.at.opt;
}

std::optional<Finding> HeldSets::other_order(const SplitPlace& place,
                                             const HeldByRank& by_rank,
                                             const NameTable& names) {
  const Held& first = by_rank.begin()->second;
  bool same_samples = first.entries != 0;
  bool same_but_classes = first.classes != 0;
  Finding finding;
  for (const auto& [rank, held] : by_rank) {
    if (held.order == 0) return std::nullopt;  // It died on the way.
    same_samples = same_samples && held.entries == first.entries;
    same_but_classes = same_but_classes && held.classes == first.classes;
    if (held.order != first.order) finding.ranks.push_back(Rank{rank});
  }
  if (finding.ranks.empty() || (!same_samples && !same_but_classes)) return std::nullopt;
  finding.attempt = place.attempt;
  finding.event = "data";
  finding.field = same_but_classes ? "classes" : "order";
  finding.step = first.step;
  finding.cause = same_but_classes ? Cause::kClassesDiffer : Cause::kDataOrderDiffers;
  finding.message =
      std::string(names.text(place.split)) + " split: " +
      (same_but_classes
           ? "the classes of the same samples are numbered in a different order from rank 0's"
           : "the data set has the samples in a different order from rank 0's, so the same index "
             "is a different sample");
  return finding;
}

std::vector<Finding> HeldSets::findings(const NameTable& names) const {
  std::vector<Finding> findings;
  for (const auto& [place, by_rank] : held_) {
    if (std::optional<Finding> finding = other_order(place, by_rank, names))
      findings.push_back(*std::move(finding));
  }
  return findings;
}

// Ranks that share a set may divide it among themselves, say those of one machine, which holds a shard. Of a set that one
// rank alone holds, a sampler for several reads a part.
bool HeldSets::has_a_set_alone(const HeldByRank& by_rank) {
  const Held& first = by_rank.begin()->second;
  bool are_other = false;
  std::map<std::uint64_t, std::int32_t> n_holders;
  for (const auto& [rank, held] : by_rank) {
    const bool same_but_classes = first.classes != 0 && held.classes == first.classes;
    are_other = are_other || (held.entries != first.entries && !same_but_classes);
    ++n_holders[held.entries];
  }
  return are_other && std::ranges::any_of(n_holders, [](const auto& of) { return of.second == 1; });
}

std::optional<Advice> HeldSets::advice(const NameTable& names) const {
  for (const auto& [place, by_rank] : held_) {
    if (!is_train_split(names.text(place.split)) || !has_a_set_alone(by_rank)) continue;
    return Advice{
        "A-divided-twice",
        std::string(names.text(place.split)) +
            " split: the ranks hold different data sets, and a sampler shards each of them again, "
            "so a part of each set is never read in an epoch. If each set is already its rank's "
            "shard, drop the sampler. Otherwise load the same full set on every rank."};
  }
  return std::nullopt;
}

}  // namespace lockstep::laws
