#include "lockstep/laws/rules/data_read.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string>

namespace lockstep::laws {

namespace {

Cause cause_of(std::string_view source) {
  const std::optional<KnownSampler> known = parse_enum<KnownSampler>(source);
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
  if (const auto* input = std::get_if<InputEvent>(&event.body)) {
    sample_rows_.on_input(event, *input);
    return shared_rows_.add(event, *input);
  }
  if (const auto* epoch = std::get_if<EpochEvent>(&event.body))
    return sample_rows_.on_epoch(event, *epoch);
  if (const auto* samples = std::get_if<SampleEvent>(&event.body)) {
    sample_rows_.on_samples(event, *samples);
    shared_rows_.add_source({event.at.attempt, samples->split});
    return on_samples(event, *samples);
  }
  const auto* data = std::get_if<DataEvent>(&event.body);
  if (data == nullptr || data->digest == 0) return;
  if (data->part == DataPart::kDrawn || data->part == DataPart::kFrozen) return;  // Of models.
  if (data->part == DataPart::kVocabulary || data->part == DataPart::kNumbering)
    return numberings_.add(event, *data);  // Says nothing of samples: nothing is checked.
  on_data(event, *data);
}

void DataRead::on_data(const Event& event, const DataEvent& data) {
  const SplitPlace place{event.at.attempt, data.split};
  shared_rows_.add_source(place);
  const std::int32_t rank = to_int(event.rank);
  ++n_checked_;
  if (data.part == DataPart::kRows) return rows_.on_pass(event, data);
  if (data.part != DataPart::kBatch && data.part != DataPart::kSet) return held_.add(event, data);
  // Only where the gradients of all ranks are averaged: others may share out one model.
  const WrapEvent* const wrap = wrappers_.find(wrapper_of(event.at));
  if (wrap == nullptr || wrap->group != 0 || wrap->n_ranks < 2) return;
  if (data.part == DataPart::kSet) return on_pass(event, data, wrap->n_ranks);
  Batches& batches = batches_[place][rank];
  if (batches.digests.empty()) {
    batches.source = data.source;
    batches.step = event.at.opt;
  }
  batches.digests.push_back(data.digest);
}

void DataRead::on_pass(const Event& event, const DataEvent& data, std::int32_t n_ranks) {
  later_.on_pass(event, data, n_ranks);
  const auto [first, is_new] =
      passes_[{event.at.attempt, data.split}].try_emplace(to_int(event.rank));
  if (is_new) {
    first->second = {.source = data.source, .step = event.at.opt, .set = data.digest};
  } else {
    first->second.ended = true;
  }
}

void DataRead::on_samples(const Event& event, const SampleEvent& samples) {
  later_.on_samples(event, samples);
  rows_.on_samples(event, samples);
  const auto place = passes_.find({event.at.attempt, samples.split});
  if (place == passes_.end()) return;
  const auto pass = place->second.find(to_int(event.rank));
  if (pass == place->second.end() || pass->second.ended) return;
  pass->second.batch = std::max(pass->second.batch, samples.ids.size());
  std::vector<std::int64_t>& ids = pass->second.ids;
  ids.insert(ids.end(), samples.ids.begin(), samples.ids.end());
}

/// How the ranks' first passes over one data set are related.
enum class DataRead::Sharing : std::uint8_t {
  kNone,   ///< No sample was read twice, or nothing says that it should not have been.
  kWhole,  ///< Each rank read all samples, or would have.
  kParts,  ///< Each rank read a part, and parts overlap.
};

// Ranks that read in one order may share out each batch, or one model: what batches hold says
// whether they do.
bool DataRead::in_one_order(const PassesByRank& by_rank) {
  const std::vector<std::int64_t>& first = by_rank.begin()->second.ids;
  return std::ranges::all_of(by_rank, [&](const auto& entry) {
    const std::vector<std::int64_t>& ids = entry.second.ids;
    const std::size_t n = std::min(ids.size(), first.size());
    return std::ranges::equal(std::span(ids).first(n), std::span(first).first(n));
  });
}

/// Whether parts have more in common than padding explains: at most a batch per rank.
bool DataRead::overlap(const PassesByRank& by_rank) {
  std::set<std::int64_t> all;
  std::size_t n_read = 0;
  std::size_t padding = 0;
  for (const auto& [rank, pass] : by_rank) {
    all.insert(pass.ids.begin(), pass.ids.end());
    n_read += pass.ids.size();
    padding += pass.batch;
  }
  return n_read > all.size() + padding;
}

// Of a program's own sampler only whole passes show what it means to do: each rank reads everything,
// or as much as is its share.
DataRead::Sharing DataRead::sharing_of_own(const PassesByRank& by_rank) {
  std::set<std::int64_t> all;
  std::size_t n_read = 0;
  for (const auto& [rank, pass] : by_rank) {
    if (!pass.ended) return Sharing::kNone;
    n_read += pass.ids.size();
    all.insert(pass.ids.begin(), pass.ids.end());
  }
  if (n_read == all.size() * by_rank.size()) return Sharing::kWhole;
  const auto span = static_cast<std::size_t>(*all.rbegin() - *all.begin() + 1);
  return n_read <= span + by_rank.size() && overlap(by_rank) ? Sharing::kParts : Sharing::kNone;
}

DataRead::Sharing DataRead::sharing_of(const PassesByRank& by_rank, const NameTable& names) {
  const FirstPass& first = by_rank.begin()->second;
  std::map<std::int64_t, std::int32_t> n_readers;
  for (const auto& [rank, pass] : by_rank) {
    if (pass.set != first.set || pass.source != first.source) return Sharing::kNone;
    const std::set<std::int64_t> own(pass.ids.begin(), pass.ids.end());
    if (own.size() < pass.ids.size()) return Sharing::kNone;  // Drawn with replacement.
    for (const std::int64_t id : own) ++n_readers[id];
  }
  const bool shared =
      std::ranges::any_of(n_readers, [](const auto& sample) { return sample.second > 1; });
  if (!shared || in_one_order(by_rank)) return Sharing::kNone;
  const auto known = parse_enum<KnownSampler>(names.text(first.source));
  if (!known) return sharing_of_own(by_rank);
  if (known != KnownSampler::kSubset) return Sharing::kWhole;
  return overlap(by_rank) ? Sharing::kParts : Sharing::kNone;
}

std::optional<Finding> DataRead::shared_samples(const SplitPlace& place,
                                                const PassesByRank& by_rank,
                                                const NameTable& names) {
  const Sharing sharing = sharing_of(by_rank, names);
  if (sharing == Sharing::kNone) return std::nullopt;
  std::map<std::int64_t, std::int32_t> n_readers;
  Finding finding;
  for (const auto& [rank, pass] : by_rank) {
    finding.ranks.push_back(Rank{rank});
    for (const std::int64_t id : pass.ids) ++n_readers[id];
  }
  const auto n_shared =
      std::ranges::count_if(n_readers, [](const auto& sample) { return sample.second > 1; });
  const FirstPass& first = by_rank.begin()->second;
  const bool parts = sharing == Sharing::kParts;
  finding.attempt = place.attempt;
  finding.event = "data";
  finding.field = "duplicates";
  finding.step = first.step;
  finding.cause = parts ? Cause::kSamplerSeedDiffers : cause_of(names.text(first.source));
  finding.message = with_split(
      place.split,
      names,
      std::to_string(n_shared) + " of " + std::to_string(n_readers.size()) +
          " samples are read by several ranks in the first pass: " +
          (parts
               ? "the ranks' shards overlap"
               : "nothing shards the data, and each rank reads all samples in a different order"));
  return finding;
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

/// How often each batch of a stream comes, where it is as often on all ranks and more than once.
std::optional<std::int64_t> DataRead::repeats(const BatchesByRank& by_rank,
                                              const NameTable& names) {
  const std::optional<std::int64_t> n = n_repeats(by_rank.begin()->second.digests);
  const bool alike =
      n && std::ranges::all_of(by_rank, [&](const auto& entry) {
        const Batches& batches = entry.second;
        return parse_enum<KnownSampler>(names.text(batches.source)) == KnownSampler::kStream &&
               n_repeats(batches.digests) == n;
      });
  return alike ? n : std::nullopt;
}

Finding DataRead::same_batches(const SplitPlace& place,
                               const BatchesByRank& by_rank,
                               const NameTable& names) {
  Finding finding;
  finding.attempt = place.attempt;
  finding.event = "data";
  finding.field = "duplicates";
  finding.step = by_rank.begin()->second.step;
  for (const auto& [rank, batches] : by_rank) finding.ranks.push_back(Rank{rank});
  finding.message =
      with_split(place.split,
                 names,
                 "every rank trains on the same batches, value by value: nothing shards the data");
  finding.cause = cause_of(names.text(by_rank.begin()->second.source));
  return finding;
}

std::optional<Finding> DataRead::undivided(const Worlds& worlds, const NameTable& names) const {
  const auto have_all = [&](const SplitPlace& place, std::size_t n_known) {
    const std::int32_t n_ranks = worlds.of(place.attempt);
    return is_train_split(names.text(place.split)) && n_ranks > 1 &&
           static_cast<std::int64_t>(n_known) >= n_ranks;
  };
  for (const auto& [place, by_rank] : batches_) {
    if (have_all(place, by_rank.size()) && are_same(by_rank))
      return same_batches(place, by_rank, names);
  }
  for (const auto& [place, by_rank] : passes_) {
    if (!have_all(place, by_rank.size())) continue;
    if (std::optional<Finding> finding = shared_samples(place, by_rank, names)) return finding;
  }
  return std::nullopt;
}

std::vector<Finding> DataRead::findings(const Worlds& worlds, const NameTable& names) const {
  std::vector<Finding> findings = rows_.findings(names);
  std::ranges::move(held_.findings(names), std::back_inserter(findings));
  if (std::optional<Finding> finding = undivided(worlds, names))
    findings.push_back(*std::move(finding));
  return findings;
}

std::optional<Advice> DataRead::batches_repeat(const SplitPlace& place,
                                               const BatchesByRank& by_rank,
                                               const NameTable& names) {
  const std::optional<std::int64_t> n = repeats(by_rank, names);
  if (!n) return std::nullopt;
  const std::string times = std::to_string(*n);
  return Advice{
      "A-batches-repeat",
      with_split(place.split,
                 names,
                 "each batch of the stream comes " + times +
                     " times in a row, value by value, on every rank. If the loader has " + times +
                     " workers, shard the stream over them as well (get_worker_info()), unless the "
                     "repetition is intended.")};
}

std::vector<Advice> DataRead::advice(const Worlds& worlds, const NameTable& names) const {
  std::vector<Advice> advice = later_.advice(names);
  std::ranges::move(shared_rows_.advice(wrappers_, worlds, names), std::back_inserter(advice));
  if (std::optional<Advice> divided_twice = held_.advice(names))
    advice.push_back(*std::move(divided_twice));
  else if (std::optional<Advice> differ = sample_rows_.advice(wrappers_, worlds))
    advice.push_back(*std::move(differ));
  if (std::optional<Advice> numbered_apart = numberings_.advice(names))
    advice.push_back(*std::move(numbered_apart));
  for (const auto& [place, by_rank] : batches_) {
    if (!is_train_split(names.text(place.split))) continue;
    std::optional<Advice> repeat = batches_repeat(place, by_rank, names);
    if (!repeat) continue;
    advice.push_back(*std::move(repeat));
    break;
  }
  return advice;
}

}  // namespace lockstep::laws
