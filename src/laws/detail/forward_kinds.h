// Which paths ranks took through a wrapper: the evidence that distinguishes a rank that took a
// different path from one that is merely late.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "lockstep/laws/causes.h"
#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/report.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// Counts training forwards of each rank and wrapper. A batch without a forward of the wrapper went
/// to the module inside.
class ForwardKinds {
 public:
  void on_event(const Event& event) { observe(event, one_rank(event)); }

  void on_cohort(const CohortEvent& event) {
    const auto& body = event.first->body;
    if (!std::holds_alternative<ForwardEvent>(body) && !std::holds_alternative<BatchEvent>(body) &&
        !std::holds_alternative<BackwardEvent>(body) && !std::holds_alternative<StepEvent>(body)) {
      return;
    }
    const bool together =
        event.equal() && counts_.shares(wrapper_of(event.first->at), all_ranks(event));
    deliver(event, together, [this](const Event& own, RankRange who) { observe(own, who); });
  }

  /// "2 micro-steps per step on ranks 0, 2; 4 on rank 1", where each rank has windows of one size and
  /// these differ between the ranks; or nothing. The last window of a rank may be shorter.
  std::string window_text(WrapperKey wrapper) const {
    std::map<std::int32_t, std::vector<Rank>> by_size;
    for (const auto& [at, counts] : counts_.all()) {
      if (at.key != wrapper || counts.n_windows == 0) continue;
      if (counts.n_windows < 2 || counts.sizes_differ) return {};
      by_size[counts.window].push_back(Rank{at.rank});
    }
    if (by_size.size() < 2) return {};
    std::string text;
    for (auto& [size, ranks] : by_size) {
      std::sort(ranks.begin(), ranks.end());
      text += (text.empty() ? "" : "; ") + std::to_string(size) +
              (text.empty() ? " micro-steps per step on " : " on ") + ranks_text(ranks);
    }
    return text;
  }

  /// The same of any wrapper of the attempt.
  std::string window_text(std::int32_t attempt) const {
    for (const auto& [at, counts] : counts_.all()) {
      if (at.key.attempt != attempt) continue;
      if (std::string text = window_text(at.key); !text.empty()) return text;
    }
    return {};
  }

  /// What some ranks did and others never: kAccumulateDiffers, kBypassWrapper, kNoSyncOneRank, kNanSkipOneRank (a
  /// forward that was to reduce, and no backward of it) or kNone.
  Cause difference(WrapperKey wrapper) const {
    if (!window_text(wrapper).empty()) return Cause::kAccumulateDiffers;
    if (some_but_not_all(wrapper, [](const Counts& c) { return c.n_batches > c.n_wrapped; })) {
      return Cause::kBypassWrapper;
    }
    if (some_but_not_all(wrapper, [](const Counts& c) { return c.n_quiet > 0; })) {
      return Cause::kNoSyncOneRank;
    }
    return some_but_not_all(wrapper, dropped) ? Cause::kNanSkipOneRank : Cause::kNone;
  }

  /// Whether some batches went around the wrapper.
  bool any_inside(WrapperKey wrapper) const {
    return std::any_of(counts_.all().begin(), counts_.all().end(), [&](const auto& entry) {
      return entry.first.key == wrapper && entry.second.n_batches > entry.second.n_wrapped;
    });
  }

  /// Whether all ranks had the same number of batches: none of them ran out of inputs.
  bool is_even(WrapperKey wrapper) const {
    const Counts* first = nullptr;
    for (const auto& [at, counts] : counts_.all()) {
      if (at.key != wrapper) continue;
      if (first != nullptr && first->n_batches != counts.n_batches) return false;
      first = &counts;
    }
    return true;
  }

  /// Ranks that ran a synchronising forward and never its backward, where others always ran both:
  /// "rank 0 ran a synchronising forward without its backward (step 2)", or nothing.
  std::string dropped_text(std::int32_t attempt) const {
    const auto [ranks, step] = dropped_by(attempt);
    if (ranks.empty()) return {};
    return ranks_text(ranks) + " ran a synchronising forward without its backward (step " +
           std::to_string(step) + ")";
  }

  /// The step of the first such forward.
  std::optional<std::int32_t> first_dropped(std::int32_t attempt) const {
    const auto [ranks, step] = dropped_by(attempt);
    return ranks.empty() ? std::nullopt : std::optional(step);
  }

  /// Of any wrapper of the attempt.
  Cause difference(std::int32_t attempt) const {
    for (const auto& [at, counts] : counts_.all()) {
      if (at.key.attempt != attempt) continue;
      if (const Cause found = difference(at.key); found != Cause::kNone) return found;
    }
    return Cause::kNone;
  }

  /// Forwards of a rank whose backward reduces.
  std::int64_t n_synchronizing(std::int32_t rank, std::int32_t attempt) const {
    std::int64_t n = 0;
    for (const auto& [at, counts] : counts_.all()) {
      if (at.rank == rank && at.key.attempt == attempt) n += counts.n_wrapped - counts.n_quiet;
    }
    return n;
  }

 private:
  void observe(const Event& event, RankRange who) {
    const WrapperKey wrapper = wrapper_of(event.at);
    if (const auto* forward = std::get_if<ForwardEvent>(&event.body)) {
      if (!forward->grad || !forward->through_wrapper) return;
      Counts& counts = counts_.at(wrapper, who);
      ++counts.n_wrapped;
      if (!forward->synchronizing) ++counts.n_quiet;
      if (counts.awaits_backward && counts.n_dropped++ == 0) counts.first_dropped = counts.opt;
      counts.opt = event.at.opt;
      counts.awaits_backward = forward->synchronizing;
    } else if (std::holds_alternative<BackwardEvent>(event.body)) {
      Counts& counts = counts_.at(wrapper, who);
      ++counts.n_backwards;
      counts.awaits_backward = false;
    } else if (std::holds_alternative<BatchEvent>(event.body)) {
      ++counts_.at(wrapper, who).n_batches;
    } else if (std::holds_alternative<StepEvent>(event.body) && event.at.micro >= 0) {
      count_window(counts_.at(wrapper, who), event.at.micro + 1);
    }
  }

  struct Counts {
    std::int32_t n_windows = 0;  ///< Steps that backward passes precede,
    std::int32_t window = 0;     ///< how many of them the first one had,
    std::int32_t last = 0;       ///< and the last one.
    bool sizes_differ = false;   ///< In those before the last one.
    std::int64_t n_batches = 0;
    std::int64_t n_wrapped = 0;
    std::int64_t n_quiet = 0;        ///< Under no_sync.
    std::int64_t n_backwards = 0;    ///< 0 = not recorded.
    std::int64_t n_dropped = 0;      ///< Meant to be reduced, and followed by the next one instead.
    std::int32_t first_dropped = 0;  ///< In which step.
    std::int32_t opt = 0;            ///< Of the last one.
    bool awaits_backward = false;    ///< The last one was meant to be reduced.
  };

  /// A window ends. What differs in the last one only is what an epoch had left.
  static void count_window(Counts& counts, std::int32_t size) {
    if (counts.n_windows > 0 && counts.last != counts.window) counts.sizes_differ = true;
    if (counts.n_windows == 0) counts.window = size;
    counts.last = size;
    ++counts.n_windows;
  }

  struct Dropped {
    std::vector<Rank> ranks;
    std::int32_t step = std::numeric_limits<std::int32_t>::max();
  };

  Dropped dropped_by(std::int32_t attempt) const {
    Dropped found;
    for (const auto& [first, ignored] : counts_.all()) {
      if (first.key.attempt != attempt || !some_but_not_all(first.key, dropped)) continue;
      for (const auto& [at, counts] : counts_.all()) {
        if (at.key != first.key || !dropped(counts)) continue;
        found.ranks.push_back(Rank{at.rank});
        found.step = std::min(found.step, counts.first_dropped);
      }
      std::sort(found.ranks.begin(), found.ranks.end());
      break;
    }
    return found;
  }

  static bool dropped(const Counts& c) { return c.n_dropped > 0 && c.n_backwards > 0; }

  template <typename Test>
  bool some_but_not_all(WrapperKey wrapper, Test test) const {
    bool some = false;
    bool others = false;
    for (const auto& [at, counts] : counts_.all()) {
      if (at.key != wrapper) continue;
      (test(counts) ? some : others) = true;
    }
    return some && others;
  }

  RankWrapperMap<Counts> counts_;
};

}  // namespace lockstep::laws
