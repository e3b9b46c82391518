#include "lockstep/laws/rules/detail/samples/later_passes.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "lockstep/laws/report.h"

namespace lockstep::laws {

namespace {

/// How many samples ranks with random subsets of their own would have in common, for a first pass in which they have
/// `n` to show that they divide the set: by Poisson's law one in 150 such passes has as few, or less.
double expected_by_chance(std::size_t n) { return 5.0 + 2.5 * static_cast<double>(n); }

}  // namespace

/// Whether all ranks have read one data set in one way, no sample twice.
bool LaterPasses::alike(const ReadingByRank& readings, std::int32_t n_ranks) {
  if (readings.empty() || std::ssize(readings) < n_ranks) return false;
  const Reading& first = readings.begin()->second;
  return std::ranges::all_of(readings, [&](const auto& entry) {
    const Reading& reading = entry.second;
    const std::set<std::int64_t> own(reading.ids.begin(), reading.ids.end());
    return reading.set == first.set && reading.source == first.source && !own.empty() &&
           own.size() == reading.ids.size();
  });
}

// Padding makes ranks even: it repeats fewer samples than there are ranks.
std::optional<LaterPasses::Division> LaterPasses::divided(const ReadingByRank& readings) {
  std::set<std::int64_t> all;
  std::size_t n_read = 0;
  double n_pairs = 0.0;  // Of samples of two ranks.
  for (const auto& [rank, reading] : readings) {
    n_pairs += static_cast<double>(n_read) * static_cast<double>(reading.ids.size());
    n_read += reading.ids.size();
    all.insert(reading.ids.begin(), reading.ids.end());
  }
  const std::size_t n_again = n_read - all.size();
  const auto span = static_cast<double>(*all.rbegin() - *all.begin() + 1);
  if (n_again >= readings.size() || n_pairs < expected_by_chance(n_again) * span)
    return std::nullopt;
  const Reading& first = readings.begin()->second;
  return Division{first.source, first.set, n_read, n_again};
}

// Where ranks read as much as in their first pass, their padding is the same. A sampler that fills up batches of
// different sizes may repeat up to one per rank. A few more may be shared on purpose: a twentieth.
std::optional<LaterPasses::Apart> LaterPasses::judged(std::int32_t nth,
                                                      const ReadingByRank& readings,
                                                      const Passes& passes) {
  const Division& division = *passes.division;
  if (!alike(readings, passes.n_ranks)) return std::nullopt;
  const Reading& first = readings.begin()->second;
  if (first.set != division.set || first.source != division.source) return std::nullopt;
  std::map<std::int64_t, std::int32_t> n_readers;
  std::size_t n_read = 0;
  std::size_t of_batches = 0;
  for (const auto& [rank, reading] : readings) {
    n_read += reading.ids.size();
    of_batches += reading.batch;
    for (const std::int64_t id : reading.ids) ++n_readers[id];
  }
  const std::size_t allowed = division.n_again + readings.size() + n_read / 20 +
                              (n_read > division.n_read ? of_batches : 0);
  if (n_read - n_readers.size() <= allowed) return std::nullopt;
  Apart apart{.nth = nth, .step = first.step};
  apart.n_shared = std::ranges::count_if(n_readers, [](const auto& one) { return one.second > 1; });
  for (const auto& [rank, reading] : readings) {
    const bool shares =
        std::ranges::any_of(reading.ids, [&](std::int64_t id) { return n_readers.at(id) > 1; });
    if (shares) apart.ranks.push_back(Rank{rank});
  }
  return apart;
}

void LaterPasses::end_pass(std::int32_t nth, Passes& passes) {
  const ReadingByRank& readings = passes.open[nth];
  if (nth == 0) {
    if (alike(readings, passes.n_ranks)) passes.division = divided(readings);
    passes.settled = !passes.division;
  } else if (passes.division) {
    passes.apart = judged(nth, readings, passes);
    passes.settled = passes.apart.has_value();
  }
  passes.open.erase(nth);
  passes.n_left.erase(nth);
  if (passes.settled) passes.open.clear();
}

void LaterPasses::on_pass(const Event& event, const DataEvent& data, std::int32_t n_ranks) {
  Passes& passes = passes_[{event.at.attempt, data.split}];
  if (passes.settled) return;
  passes.n_ranks = n_ranks;
  const std::int32_t rank = to_int(event.rank);
  const auto [place, is_first] = passes.nth.try_emplace(rank, 0);
  if (!is_first) {
    const std::int32_t left = place->second++;
    if (++passes.n_left[left] == n_ranks) end_pass(left, passes);
    if (passes.settled) return;
  }
  passes.open[place->second][rank] = {
      .source = data.source, .set = data.digest, .step = event.at.opt};
}

void LaterPasses::on_samples(const Event& event, const SampleEvent& samples) {
  const auto passes = passes_.find({event.at.attempt, samples.split});
  if (passes == passes_.end() || passes->second.settled) return;
  const std::int32_t rank = to_int(event.rank);
  const auto nth = passes->second.nth.find(rank);
  if (nth == passes->second.nth.end()) return;
  Reading& reading = passes->second.open[nth->second][rank];
  reading.batch = std::max(reading.batch, samples.ids.size());
  reading.ids.insert(reading.ids.end(), samples.ids.begin(), samples.ids.end());
}

std::vector<Advice> LaterPasses::advice(const NameTable& names) const {
  std::vector<Advice> advice;
  for (const auto& [place, passes] : passes_) {
    if (!passes.division || !is_train_split(names.text(place.split))) continue;
    std::optional<Apart> apart = passes.apart;
    for (const auto& [nth, readings] : passes.open) {
      if (!apart) apart = judged(nth, readings, passes);
    }
    if (!apart) continue;
    advice.push_back({"A-order-comes-apart",
                      "the ranks sharded the data set of '" + std::string(names.text(place.split)) +
                          "' in the first pass. In pass " + std::to_string(apart->nth + 1) +
                          ", from step " + std::to_string(apart->step) + ", " +
                          std::to_string(apart->n_shared) + " samples are read by several of " +
                          ranks_text(apart->ranks) +
                          ": the shuffles have diverged, for example because one rank drew extra "
                          "random numbers. Shuffle with a separate generator that all ranks seed "
                          "identically, unless the overlap is intended."});
  }
  return advice;
}

}  // namespace lockstep::laws
