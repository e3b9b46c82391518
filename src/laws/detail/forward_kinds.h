// By which ways ranks went through a wrapper: the evidence that tells a rank that went another way
// from one that merely came late.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>
#include <variant>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// Counts training forwards of each rank and wrapper. A batch without a forward of the wrapper went
/// to the module inside.
class ForwardKinds {
 public:
  void on_event(const Event& event) { hear(event, speaker_of(event)); }

  void on_cohort(const CohortEvent& event) {
    const auto& body = event.first->body;
    if (!std::holds_alternative<ForwardEvent>(body) && !std::holds_alternative<BatchEvent>(body)) {
      return;
    }
    const bool together =
        event.equal() && counts_.shares(wrapper_of(event.first->at), speakers_of(event));
    deliver(event, together, [this](const Event& own, Speakers who) { hear(own, who); });
  }

  /// What some ranks did and others never: "bypass-wrapper" | "no-sync-one-rank", or empty.
  std::string_view difference(WrapperKey wrapper) const {
    if (some_but_not_all(wrapper, [](const Counts& c) { return c.n_batches > c.n_wrapped; })) {
      return "bypass-wrapper";
    }
    return some_but_not_all(wrapper, [](const Counts& c) { return c.n_quiet > 0; })
               ? "no-sync-one-rank"
               : "";
  }

  /// Whether some batches went around the wrapper.
  bool any_inside(WrapperKey wrapper) const {
    return std::any_of(counts_.all().begin(), counts_.all().end(), [&](const auto& entry) {
      return entry.first.key == wrapper && entry.second.n_batches > entry.second.n_wrapped;
    });
  }

  /// Whether all ranks had as many batches: none of them ran out of inputs.
  bool is_even(WrapperKey wrapper) const {
    const Counts* first = nullptr;
    for (const auto& [at, counts] : counts_.all()) {
      if (at.key != wrapper) continue;
      if (first != nullptr && first->n_batches != counts.n_batches) return false;
      first = &counts;
    }
    return true;
  }

  /// Of any wrapper of the attempt.
  std::string_view difference(std::int32_t attempt) const {
    for (const auto& [at, counts] : counts_.all()) {
      if (at.key.attempt != attempt) continue;
      if (const std::string_view found = difference(at.key); !found.empty()) return found;
    }
    return "";
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
  void hear(const Event& event, Speakers who) {
    const WrapperKey wrapper = wrapper_of(event.at);
    if (const auto* forward = std::get_if<ForwardEvent>(&event.body)) {
      if (!forward->grad || !forward->through_wrapper) return;
      Counts& counts = counts_.at(wrapper, who);
      ++counts.n_wrapped;
      if (!forward->synchronizing) ++counts.n_quiet;
    } else if (std::holds_alternative<BatchEvent>(event.body)) {
      ++counts_.at(wrapper, who).n_batches;
    }
  }

  struct Counts {
    std::int64_t n_batches = 0;
    std::int64_t n_wrapped = 0;
    std::int64_t n_quiet = 0;  ///< Under no_sync.
  };

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
