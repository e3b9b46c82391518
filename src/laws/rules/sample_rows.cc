#include "lockstep/laws/rules/detail/rows/sample_rows.h"

#include <algorithm>
#include <fmt/core.h>
#include <set>

namespace lockstep::laws {

namespace {

constexpr std::int64_t kFewestAgain = 4;    // Numbers that one rank reads twice.
constexpr std::int64_t kFewestAcross = 16;  // Numbers that two ranks read.

/// One reading, sorted so that readings of one number, and of one rank among them, are neighbours.
struct Placed {
  std::int64_t id = 0;
  std::int32_t rank = 0;
  std::uint64_t row = 0;
  friend auto operator<=>(const Placed&, const Placed&) = default;
};

}  // namespace

void SampleRows::on_epoch(const Event& event, const EpochEvent& epoch) {
  if (epoch.n_replicas < 2) return;  // The rank numbers samples for itself alone.
  Reader& reader = readers_[{event.at.attempt, to_int(event.rank)}];
  if (reader.n_passes == 0) reader.split = epoch.split;
  if (reader.split == epoch.split) ++reader.n_passes;
}

void SampleRows::on_samples(const Event& event, const SampleEvent& samples) {
  const auto known = readers_.find({event.at.attempt, to_int(event.rank)});
  if (known == readers_.end() || known->second.split != samples.split) return;
  Reader& reader = known->second;
  // What no forward was given, such as the rest of a pass, is left out.
  reader.ids.assign(samples.ids.begin(), samples.ids.end());
  reader.n_matched = 0;
}

void SampleRows::on_input(const Event& event, const InputEvent& input) {
  const auto known = readers_.find({event.at.attempt, to_int(event.rank)});
  if (known == readers_.end()) return;
  Reader& reader = known->second;
  const WrapperKey wrapper = wrapper_of(event.at);
  if (reader.argument == kNoName) {
    reader.argument = input.argument;
    reader.wrapper = wrapper;
  }
  if (reader.argument != input.argument || reader.wrapper != wrapper) return;
  for (const std::uint64_t row : input.rows) {
    if (reader.n_matched == reader.ids.size()) return;
    reader.reads.push_back({reader.ids[reader.n_matched++], row});
  }
}

void SampleRows::Comparison::add(std::int64_t of,
                                 const std::array<std::int32_t, 2>& by,
                                 bool same) {
  if (by[0] == by[1]) {
    ++(same ? n_same_on_rank : n_other_on_rank);
    return;
  }
  if (!same && n_other_across == 0) {
    id = of;
    ranks = by;
  }
  ++(same ? n_same_across : n_other_across);
}

SampleRows::Comparison SampleRows::compare(std::int32_t attempt) const {
  std::vector<Placed> all;
  for (const auto& [key, reader] : readers_) {
    if (key.attempt != attempt || reader.n_passes < 2)
      continue;  // One pass repeats nothing: saves the sort.
    for (const Read& read : reader.reads) all.push_back({read.id, key.rank, read.row});
  }
  std::ranges::sort(all);
  Comparison found;
  for (std::size_t i = 1; i < all.size(); ++i) {
    const Placed& left = all[i - 1];
    const Placed& right = all[i];
    if (left.id == right.id) found.add(left.id, {left.rank, right.rank}, left.row == right.row);
  }
  return found;
}

std::optional<Advice> SampleRows::advice(const Wrappers& wrappers, const Worlds& worlds) const {
  std::set<std::int32_t> attempts;
  for (const auto& [key, reader] : readers_) {
    const WrapEvent* const wrap = wrappers.find(reader.wrapper);
    // Others may share out one model, or train several.
    if (wrap != nullptr && wrap->n_ranks == worlds.of(key.attempt)) attempts.insert(key.attempt);
  }
  for (const std::int32_t attempt : attempts) {
    const Comparison found = compare(attempt);
    const bool steady = found.n_same_on_rank >= kFewestAgain && found.n_other_on_rank == 0;
    if (!steady || found.n_other_across < kFewestAcross || found.n_same_across > 0) continue;
    return Advice{
        "A-samples-differ",
        fmt::format("the ranks share one sampler, but a sample index means a different row on "
                    "each rank. All {} indices that two ranks have read differ (index {} on "
                    "ranks {} and {}, for example); none differs on one rank. Either each "
                    "rank holds its own shard, which the sampler shards again, or the ranks "
                    "preprocess the data differently.",
                    found.n_other_across,
                    found.id,
                    found.ranks[0],
                    found.ranks[1])};
  }
  return std::nullopt;
}

}  // namespace lockstep::laws
