#include "lockstep/laws/rules/detail/rows/shared_rows.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "lockstep/laws/report.h"
#include "lockstep/tensor/dtype.h"

namespace lockstep::laws {

namespace {

/// Of programs in which all ranks draw from all data, with replacement, one in a million is advised.
constexpr double kUnlikely = 1e-6;
/// A few rows may be shared on purpose: a twentieth.
constexpr std::int64_t kFew = 20;
/// Ranks whose inputs are recorded (InputRows).
constexpr std::int32_t kMostRanks = 64;

bool is_target(NameId argument, const NameTable& names) {
  return names.text(argument) == kTargetArgument;
}

std::string argument_of(NameId argument, const NameTable& names) {
  if (is_target(argument, names)) return "the targets of the loss";
  return "argument " + std::string(names.text(argument)) + " of the forward";
}

/// Whether two ranks were given the same in each of the first `n` forwards.
bool alike(const RowList& left, const RowList& right, std::size_t n) {
  for (std::size_t at = 0; at < n; ++at) {
    if (!std::ranges::equal(left[at], right[at])) return false;
  }
  return true;
}

}  // namespace

void SharedRows::add(const Event& event, const InputEvent& input) {
  Own& own = read_[{wrapper_of(event.at), input.argument}][to_int(event.rank)];
  own.is_wide = is_floating(input.dtype) && input.n_elems > 1;
  own.forwards.add(input.rows);
  if (event.rank == Rank{0}) own.steps.push_back(event.at.opt);
}

// Only where the gradients of all ranks are averaged: others may share out one model, or train several.
std::optional<Forwards> SharedRows::forwards_of(const Place& place,
                                                const OwnByRank& by_rank,
                                                const Wrappers& wrappers,
                                                const Worlds& worlds) {
  const WrapEvent* const wrap = wrappers.find(place.wrapper);
  const std::int32_t n_ranks = worlds.of(place.wrapper.attempt);
  if (wrap == nullptr || wrap->group != 0 || wrap->n_ranks != n_ranks) return std::nullopt;
  if (std::ssize(by_rank) < std::min(n_ranks, kMostRanks)) return std::nullopt;
  Forwards forwards{.by_rank = {}, .n = by_rank.begin()->second.forwards.size()};
  for (const auto& [rank, own] : by_rank) {
    forwards.by_rank.push_back(&own.forwards);
    forwards.n = std::min(forwards.n, own.forwards.size());
  }
  return forwards;
}

std::optional<Advice> SharedRows::shared(const Place& place,
                                         const OwnByRank& by_rank,
                                         const Forwards& forwards,
                                         const NameTable& names) {
  const SharedTally tally = tally_of(forwards);
  const auto n_ranks = std::ssize(forwards.by_rank);
  if (tally.n_early == 0 || tally.n_shared * kFew <= tally.n_read) return std::nullopt;
  if (chance_of(tally.n_shared, tally.n_passes, n_ranks) > kUnlikely) return std::nullopt;
  return Advice{"A-rows-shared",
                std::to_string(tally.n_shared) + " of " + std::to_string(tally.n_read) +
                    " rows that the ranks train on (" + argument_of(place.argument, names) +
                    ") were already read by another rank, first at step " +
                    std::to_string(by_rank.begin()->second.steps[tally.first]) +
                    " and before any rank reread its own: the ranks train on overlapping samples. "
                    "Shuffle with the same seed on every rank and shard by global rank, unless the "
                    "overlap is intended."};
}

bool SharedRows::is_news(const RowList& own, std::size_t n) {
  for (std::size_t at = 0; at < n; ++at) {
    if (!are_distinct(own[at]) || (at > 0 && std::ranges::equal(own[at], own[at - 1])))
      return false;
  }
  return n > 1;
}

bool SharedRows::is_same(const Forwards& forwards) {
  return is_news(*forwards.by_rank.front(), forwards.n) &&
         std::ranges::all_of(forwards.by_rank, [&](const RowList* own) {
           return alike(*own, *forwards.by_rank.front(), forwards.n);
         });
}

std::optional<Advice> SharedRows::twins(const Place& place,
                                        const OwnByRank& by_rank,
                                        const Forwards& forwards,
                                        const NameTable& names) {
  for (const RowList* first : forwards.by_rank) {
    std::vector<Rank> twins;
    std::size_t at = 0;
    for (const auto& [rank, own] : by_rank) {
      if (alike(*forwards.by_rank[at++], *first, forwards.n)) twins.push_back(Rank{rank});
    }
    if (twins.size() == 1 || !is_news(*first, forwards.n)) continue;
    if (twins.size() == forwards.by_rank.size()) return std::nullopt;
    return Advice{"A-rows-shared",
                  ranks_text(twins) + " train on the same rows (" +
                      argument_of(place.argument, names) + ") in each of " +
                      std::to_string(forwards.n) +
                      " forwards, and other ranks on different rows. Shard the data by global "
                      "rank, not by local rank, unless this is intended."};
  }
  return std::nullopt;
}

bool SharedRows::differs(const Forwards& forwards) {
  std::size_t n_different = 0;
  for (std::size_t at = 0; at < forwards.n; ++at) {
    if (!are_alike(forwards, at)) ++n_different;
  }
  return 2 * n_different >= forwards.n;
}

bool SharedRows::has_source(std::int32_t attempt, const NameTable& names) const {
  return std::ranges::any_of(sources_, [&](const SplitPlace& place) {
    return place.attempt == attempt && is_train_split(names.text(place.split));
  });
}

Advice SharedRows::same_inputs(const Place& place, const NameTable& names) {
  return {"A-same-inputs",
          argument_of(place.argument, names) + " of wrapper " +
              std::to_string(place.wrapper.wrapper) +
              ": every rank receives the same values here, new ones in each forward, while their "
              "other inputs differ. If this is random noise, seed its generator with the rank, "
              "unless equal values are intended."};
}

std::optional<Advice> SharedRows::rows_shared(const Wrappers& wrappers,
                                              const Worlds& worlds,
                                              const NameTable& names) const {
  for (const auto& [place, by_rank] : read_) {
    if (is_target(place.argument, names) || has_source(place.wrapper.attempt, names)) continue;
    const std::optional<Forwards> forwards = forwards_of(place, by_rank, wrappers, worlds);
    if (!forwards) continue;
    std::optional<Advice> advice = twins(place, by_rank, *forwards, names);
    if (!advice) advice = shared(place, by_rank, *forwards, names);
    if (advice) return advice;
  }
  return std::nullopt;
}

std::optional<Advice> SharedRows::noise_shared(const Wrappers& wrappers,
                                               const Worlds& worlds,
                                               const NameTable& names) const {
  std::optional<Place> same;
  std::set<std::int32_t> attempts_that_differ;
  for (const auto& [place, by_rank] : read_) {
    const std::optional<Forwards> forwards = forwards_of(place, by_rank, wrappers, worlds);
    if (!forwards) continue;
    if (!same && by_rank.begin()->second.is_wide && is_same(*forwards)) same = place;
    // Targets of different samples may be alike, and so say nothing of what differs.
    if (!is_target(place.argument, names) && differs(*forwards))
      attempts_that_differ.insert(place.wrapper.attempt);
  }
  if (!same || !attempts_that_differ.contains(same->wrapper.attempt)) return std::nullopt;
  return same_inputs(*same, names);
}

std::vector<Advice> SharedRows::advice(const Wrappers& wrappers,
                                       const Worlds& worlds,
                                       const NameTable& names) const {
  std::vector<Advice> advice;
  if (auto rows = rows_shared(wrappers, worlds, names)) advice.push_back(*std::move(rows));
  if (auto noise = noise_shared(wrappers, worlds, names)) advice.push_back(*std::move(noise));
  return advice;
}

}  // namespace lockstep::laws
