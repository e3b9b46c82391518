#include "lockstep/laws/rules/detail/samples/divided_rows.h"

#include <array>
#include <cstddef>
#include <set>
#include <string>

namespace lockstep::laws {

namespace {

constexpr std::size_t kMostSamples = 1U << 16;  // Whose readers are looked at.

}  // namespace

void DividedRows::on_pass(const Event& event, const DataEvent& data) {
  const SplitPlace place{event.at.attempt, data.split};
  const std::int32_t nth = n_passes_[{place, to_int(event.rank)}]++;
  const std::array<std::uint64_t, 1> words = {data.digest};
  rows_[{place, nth}].add(event, words);
  readers_.try_emplace(place);
}

void DividedRows::on_samples(const Event& event, const SampleEvent& samples) {
  const auto found = readers_.find({event.at.attempt, samples.split});
  if (found == readers_.end()) return;
  Readers& readers = found->second;
  const std::int32_t rank = to_int(event.rank);
  for (const std::int64_t id : samples.ids) {
    if (readers.shared || readers.of.size() >= kMostSamples) return;
    readers.shared = readers.of.try_emplace(id, rank).first->second != rank;
  }
}

/// Whether every rank divides rows of its own, and no sample was read by two of them.
bool DividedRows::are_shares(const SplitPlace& place, const Ballot& ballot) const {
  const Readers& readers = readers_.at(place);
  const auto n_sides = static_cast<std::int32_t>(ballot.sides(0).size());
  return n_sides == ballot.n_ranks() && !readers.of.empty() && !readers.shared;
}

Finding DividedRows::finding(const SplitPlace& place,
                             const Ballot& ballot,
                             const NameTable& names) const {
  const bool shares = are_shares(place, ballot);
  Finding finding;
  finding.attempt = place.attempt;
  finding.event = "data";
  finding.field = "rows";
  finding.step = ballot.majority_opt();
  finding.ranks = ballot.minority(0);
  finding.message = std::string(names.text(place.split)) + " split: ";
  if (shares) {
    finding.message +=
        "on every rank the sampler shards a different subset, and no recorded sample was read by "
        "two ranks. If each subset is already its rank's shard, most samples are never trained on";
  } else {
    finding.message +=
        "the sampler shards a different subset of the data set from the other ranks': samples that "
        "one rank holds out are trained on by another, and some by none";
    finding.cause = Cause::kSplitLeak;
  }
  return finding;
}

std::vector<Finding> DividedRows::findings(const NameTable& names) const {
  std::vector<Finding> findings;
  std::set<NameId> reported;
  for (const auto& [key, ballot] : rows_) {
    if (!ballot.unanimous() && reported.insert(key.first.split).second)
      findings.push_back(finding(key.first, ballot, names));
  }
  return findings;
}

}  // namespace lockstep::laws
