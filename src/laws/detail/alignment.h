// What the laws that compare ranks share: where events of different ranks align, which ranks are
// replicas of each other, and which recorded the same.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "lockstep/laws/detail/rank_wrapper_map.h"
#include "lockstep/laws/finding.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// The place at which ranks are compared: the n-th event of one kind within one synchronising
/// forward. `opt` is not part of it, since a rank that skipped a step lags behind in it.
struct AlignmentKey {
  WrapperKey wrapper;
  std::int32_t sync = -1;
  std::int32_t what = 0;  ///< Kind and point, as the law numbers them.
  std::uint32_t layout = 0;
  std::int32_t nth = 0;
  friend auto operator<=>(const AlignmentKey&, const AlignmentKey&) = default;
};

/// Counts each rank's events so that the n-th of one rank is paired with the n-th of another.
class Counter {
 public:
  AlignmentKey next(const Event& event, std::int32_t what, LayoutId layout) {
    return next(event, what, layout, one_rank(event));
  }

  /// Requires: counts(event, who).
  AlignmentKey next(const Event& event, std::int32_t what, LayoutId layout, RankRange who) {
    PerWrapper& at = places_.at(wrapper_of(event.at), who);
    if (at.sync != event.at.sync) {
      at.counts.clear();
      at.sync = event.at.sync;
    }
    AlignmentKey alignment{
        wrapper_of(event.at), event.at.sync, what, static_cast<std::uint32_t>(layout), 0};
    for (auto& [known, count] : at.counts) {
      if (known.what != what || known.layout != alignment.layout) continue;
      alignment.nth = ++count;
      return alignment;
    }
    at.counts.emplace_back(alignment, 0);
    return alignment;
  }

  /// Whether these ranks have counted the same until now.
  bool counts(const Event& event, RankRange who) const {
    return places_.shares(wrapper_of(event.at), who);
  }

 private:
  struct PerWrapper {
    std::int32_t sync = -2;
    std::vector<std::pair<AlignmentKey, std::int32_t>> counts;
  };

  RankWrapperMap<PerWrapper> places_;
};

/// World size, or so many that no place is ever complete before the end.
inline std::int32_t world_size(std::int32_t n_ranks) {
  return n_ranks > 0 ? n_ranks : std::numeric_limits<std::int32_t>::max();
}

/// How many ranks each restart attempt has: the first one as the policy says, later ones as
/// recorded by their ranks. An elastic agent may have lost nodes, or found some.
class Worlds {
 public:
  explicit Worlds(std::int32_t n_ranks) : n_first_(n_ranks) {}

  void on_event(const Event& event) {
    if (event.at.attempt <= 0) return;
    const auto* environment = std::get_if<EnvironmentEvent>(&event.body);
    if (environment == nullptr) return;
    std::int32_t& announced = announced_[event.at.attempt];
    announced = std::max(announced, environment->world);
  }

  /// 0 when unknown.
  std::int32_t of(std::int32_t attempt) const {
    if (attempt <= 0) return n_first_;
    const auto announced = announced_.find(attempt);
    return announced == announced_.end() ? n_first_ : announced->second;
  }

  /// Whether of() is this attempt's own number, and no guess.
  bool known(std::int32_t attempt) const { return attempt <= 0 || announced_.contains(attempt); }

  /// Or so many that no place is ever complete before the end.
  std::int32_t full(std::int32_t attempt) const { return world_size(of(attempt)); }

 private:
  std::int32_t n_first_;
  std::map<std::int32_t, std::int32_t> announced_;
};

/// What wrap events said about each wrapper.
class Wrappers {
 public:
  void on_wrap(const Event& event, const WrapEvent& wrap) { wraps_[wrapper_of(event.at)] = wrap; }

  const WrapEvent* find(WrapperKey key) const {
    const auto known = wraps_.find(key);
    return known == wraps_.end() ? nullptr : &known->second;
  }

  /// Ranks that hold a replica; without a wrap event the whole world does.
  std::int32_t n_members(WrapperKey key, std::int32_t n_ranks) const {
    const WrapEvent* wrap = find(key);
    return wrap == nullptr ? world_size(n_ranks) : wrap->n_ranks;
  }

  /// Ranks over which a wrapper averages gradients; 0: nothing does, or the program by itself.
  std::int32_t n_averaged(WrapperKey key, std::int32_t n_ranks) const {
    const WrapEvent* wrap = find(key);
    return wrap == nullptr || !wrap->synchronizes ? 0 : n_members(key, n_ranks);
  }

  /// What a loop without a wrapper reduces by itself, in this attempt; null: no such loop is known.
  const WrapEvent* find_loop(std::int32_t attempt) const {
    for (const auto& [key, wrap] : wraps_) {
      if (key.attempt == attempt && !wrap.synchronizes && wrap.n_ranks > 1) return &wrap;
    }
    return nullptr;
  }

  /// Whether a cohort is one set of replicas, and not several.
  bool are_replicas(const CohortEvent& event, std::int32_t n_ranks) const {
    return n_members(wrapper_of(event.first->at), n_ranks) == event.n_ranks();
  }

  bool ignored(WrapperKey key, NameId name, const NameTable& names) const {
    const WrapEvent* wrap = find(key);
    return wrap != nullptr && contains(names.layout(wrap->ignored), name);
  }

  bool empty() const { return wraps_.empty(); }

  const std::map<WrapperKey, WrapEvent>& all() const { return wraps_; }

  static bool contains(std::span<const NameId> layout, NameId name) {
    return std::find(layout.begin(), layout.end(), name) != layout.end();
  }

 private:
  std::map<WrapperKey, WrapEvent> wraps_;  // No spans inside: safe to keep.
};

/// Which ranks reported which words. Ranks that agree cost a few bytes each.
class Ballot {
 public:
  struct Variant {
    std::vector<std::uint64_t> words;
    std::vector<std::int32_t> ranks;
    std::int32_t opt = 0;
  };

  void add(const Event& event, std::span<const std::uint64_t> words) {
    add(event, words, one_rank(event));
  }

  void add(const Event& event, std::span<const std::uint64_t> words, RankRange who) {
    n_ranks_ += who.n;
    for (Variant& variant : variants_) {
      if (!std::equal(words.begin(), words.end(), variant.words.begin(), variant.words.end()))
        continue;
      const std::size_t n_before = variant.ranks.size();
      append(variant.ranks, who);
      // The lowest rank represents its side, whatever the order of arrival.
      if (variant.ranks[n_before] < variant.ranks.front()) {
        std::swap(variant.ranks.front(), variant.ranks[n_before]);
        variant.opt = event.at.opt;
      }
      return;
    }
    variants_.push_back({{words.begin(), words.end()}, {}, event.at.opt});
    append(variants_.back().ranks, who);
  }

  std::int32_t n_ranks() const { return n_ranks_; }

  bool unanimous() const { return variants_.size() <= 1; }

  std::size_t n_words() const { return variants_.empty() ? 0 : variants_.front().words.size(); }

  std::int64_t n_comparisons() const {
    return n_ranks_ < 2 ? 0 : static_cast<std::int64_t>(n_words()) * (n_ranks_ - 1);
  }

  /// One word's ranks by value; every list sorted.
  std::map<std::uint64_t, std::vector<std::int32_t>> sides(std::size_t word) const {
    std::map<std::uint64_t, std::vector<std::int32_t>> by_value;
    for (const Variant& variant : variants_) {
      std::vector<std::int32_t>& ranks = by_value[variant.words[word]];
      ranks.insert(ranks.end(), variant.ranks.begin(), variant.ranks.end());
    }
    for (auto& [value, ranks] : by_value) std::sort(ranks.begin(), ranks.end());
    return by_value;
  }

  /// The ranks that differ from most others in one word; on a tie, from the side of the lowest
  /// rank.
  std::vector<Rank> minority(std::size_t word) const { return others(word, false); }

  /// The ranks that differ from the lowest rank in one word.
  std::vector<Rank> against_first(std::size_t word) const { return others(word, true); }

  /// Whether ranks have taken different numbers of steps when they meet here.
  bool opts_differ() const {
    return std::any_of(variants_.begin(), variants_.end(), [this](const Variant& variant) {
      return variant.opt != variants_.front().opt;
    });
  }

  /// The step number on the side with most ranks.
  std::int32_t majority_opt() const {
    const Variant* best = nullptr;
    for (const Variant& variant : variants_) {
      const bool larger = best == nullptr || variant.ranks.size() > best->ranks.size();
      const bool equal = best != nullptr && variant.ranks.size() == best->ranks.size();
      if (larger || (equal && variant.ranks.front() < best->ranks.front())) best = &variant;
    }
    return best == nullptr ? 0 : best->opt;
  }

 private:
  std::vector<Rank> others(std::size_t word, bool against_first) const {
    const auto by_value = sides(word);
    const std::vector<std::int32_t>* norm = nullptr;
    for (const auto& [value, ranks] : by_value) {
      const bool larger = norm != nullptr && ranks.size() > norm->size();
      const bool same = norm == nullptr || ranks.size() == norm->size() || against_first;
      const bool lower = norm == nullptr || ranks.front() < norm->front();
      if ((larger && !against_first) || (same && lower)) norm = &ranks;
    }
    std::vector<Rank> result;
    for (const auto& [value, ranks] : by_value) {
      if (&ranks == norm) continue;
      for (const std::int32_t rank : ranks) result.push_back(Rank{rank});
    }
    std::sort(result.begin(), result.end());
    return result;
  }

  std::vector<Variant> variants_;
  std::int32_t n_ranks_ = 0;
};

inline bool bit(std::span<const std::uint8_t> bits, std::size_t i) {
  return i / 8 < bits.size() && ((bits[i / 8] >> (i % 8)) & 1U) != 0;
}

/// The verdict that follows from what was found and counted. `missing` says what to add when
/// nothing could be compared.
inline LawResult conclude(std::string_view law,
                          std::vector<Finding> findings,
                          std::int64_t n_checked,
                          std::string_view missing) {
  LawResult result;
  result.law = law;
  result.n_checked = n_checked;
  result.findings = std::move(findings);
  for (Finding& finding : result.findings) finding.law = law;
  std::sort(result.findings.begin(), result.findings.end(), [](const Finding& a, const Finding& b) {
    const auto place = [](const Finding& f) {
      return std::tie(f.attempt, f.step, f.seq, f.group, f.event, f.tensor, f.ranks);
    };
    return place(a) < place(b);
  });
  if (!result.findings.empty()) {
    result.verdict = Verdict::kBroken;
  } else if (n_checked == 0) {
    result.verdict = Verdict::kNotCheckable;
    result.missing = missing;
  }
  return result;
}

}  // namespace lockstep::laws
