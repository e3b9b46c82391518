#include "lockstep/laws/rules/data_read.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>

namespace lockstep::laws {

namespace {

Cause cause_of(std::string_view source) {
  const std::optional<KnownSampler> known = parse_word<KnownSampler>(source);
  if (known == KnownSampler::kStream) return Cause::kIterableUnsharded;
  const bool plain = known == KnownSampler::kRandom || known == KnownSampler::kSequential;
  return plain ? Cause::kNoDistributedSampler : Cause::kWeightedNotSharded;
}

std::string with_split(NameId split, const NameTable& names, std::string text) {
  return std::string(names.text(split)) + " split: " + std::move(text);
}

}  // namespace

void DataRead::on_event(const Event& event) {
  if (const auto* wrap = std::get_if<WrapEvent>(&event.body))
    return wrappers_.on_wrap(event, *wrap);
  const auto* data = std::get_if<DataEvent>(&event.body);
  if (data == nullptr || data->digest == 0) return;
  const Place place{event.at.attempt, data->split};
  const std::int32_t rank = to_int(event.rank);
  ++n_checked_;
  if (data->part == DataPart::kRows) {
    const std::int32_t nth = n_divided_[{place, rank}]++;
    const std::array<std::uint64_t, 1> words = {data->digest};
    rows_[{place, nth}].add(event, words);
    return;
  }
  // Only where the gradients of all ranks are averaged: others may share out one model.
  const WrapEvent* const wrap = wrappers_.find(wrapper_of(event.at));
  if (wrap == nullptr || wrap->group != 0 || wrap->n_ranks < 2) return;
  Batches& batches = batches_[place][rank];
  if (batches.digests.empty()) {
    batches.source = data->source;
    batches.step = event.at.opt;
  }
  batches.digests.push_back(data->digest);
}

/// One batch after another is the same on all ranks, as far as all of them came.
bool DataRead::are_same(const BatchesByRank& by_rank) {
  std::size_t n = by_rank.begin()->second.digests.size();
  for (const auto& [rank, batches] : by_rank) n = std::min(n, batches.digests.size());
  const auto first = std::span(by_rank.begin()->second.digests).first(n);
  if (std::set(first.begin(), first.end()).size() < 2) return false;
  return std::ranges::all_of(by_rank, [&](const auto& entry) {
    return std::ranges::equal(first, std::span(entry.second.digests).first(n));
  });
}

Finding DataRead::same_batches(const Place& place,
                               const BatchesByRank& by_rank,
                               const NameTable& names) {
  Finding finding;
  finding.attempt = place.attempt;
  finding.event = "data";
  finding.field = "duplicates";
  finding.step = by_rank.begin()->second.step;
  for (const auto& [rank, batches] : by_rank) finding.ranks.push_back(Rank{rank});
  finding.message = with_split(place.split,
                               names,
                               "every rank trains on the same batches, value by value, and nothing "
                               "divides the data among the ranks");
  finding.cause = cause_of(names.text(by_rank.begin()->second.source));
  return finding;
}

std::vector<Finding> DataRead::findings(const Worlds& worlds, const NameTable& names) const {
  std::vector<Finding> findings;
  std::set<NameId> reported;
  for (const auto& [key, ballot] : rows_) {
    const Place& place = key.first;
    if (ballot.unanimous() || !reported.insert(place.split).second) continue;
    Finding finding;
    finding.attempt = place.attempt;
    finding.event = "data";
    finding.field = "rows";
    finding.step = ballot.majority_opt();
    finding.ranks = ballot.minority(0);
    finding.message = with_split(place.split,
                                 names,
                                 "divides another subset of the data set among the ranks than the "
                                 "others do: samples that one rank holds out are trained on by "
                                 "another, and some by none");
    finding.cause = Cause::kSplitLeak;
    findings.push_back(std::move(finding));
  }
  for (const auto& [place, by_rank] : batches_) {
    const std::int32_t n_ranks = worlds.of(place.attempt);
    if (!is_train_split(names.text(place.split)) || n_ranks < 2) continue;
    if (std::ssize(by_rank) < n_ranks || !are_same(by_rank)) continue;
    findings.push_back(same_batches(place, by_rank, names));
    break;
  }
  return findings;
}

}  // namespace lockstep::laws
