// Averages that a program divides by the number of ranks, which the wrapper has divided by already.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "lockstep/laws/detail/rank_wrapper_map.h"
#include "lockstep/laws/finding.h"
#include "lockstep/laws/rules/detail/norm_bounds.h"

namespace lockstep::laws {

/// Rank 0's steps by wrapper: all ranks of a loop do this alike.
class DivisionsAgain {
 public:
  struct Wrapped {
    const WrapEvent* by = nullptr;  ///< Null: not seen.
    std::int32_t n_ranks = 0;
  };

  struct Gradients {
    const GradientsSeen& reduced;
    const GradientsSeen& used;
  };

  /// Some hooks leave something else than means, which the program may have to divide.
  void on_hook(WrapperKey wrapper, const CommHookEvent& hook) {
    if (hook.effect == HookEffect::kOther) hooked_.insert(wrapper);
  }

  /// A step that nothing clipped.
  void on_step(const Event& event,
               const StepEvent& step,
               const Wrapped& wrapped,
               const Gradients& gradients,
               const NameTable& names) {
    const WrapperKey wrapper = wrapper_of(event.at);
    if (event.rank != Rank{0} || wrapped.by == nullptr || !wrapped.by->synchronizes) return;
    Count& count = counts_[wrapper];
    count.n_ranks = wrapped.n_ranks;
    ++count.n_steps;
    // A loss scale, or as many micro-steps as ranks: what the program may divide by, too.
    if (step.scale != 1.0 || event.at.micro + 1 == wrapped.n_ranks) return;
    if (is_divided_again(gradients.reduced, gradients.used, wrapped.n_ranks, names))
      ++count.n_divided;
  }

  /// "A-divided-again" for wrappers of which every step did, two or more.
  std::vector<Advice> advice() const {
    std::vector<Advice> advice;
    for (const auto& [wrapper, count] : counts_) {
      if (count.n_steps < 2 || count.n_divided != count.n_steps || hooked_.contains(wrapper))
        continue;
      advice.push_back({"A-divided-again",
                        "all " + std::to_string(count.n_steps) +
                            " steps used the averaged gradients divided by " +
                            std::to_string(count.n_ranks) +
                            ", the number of ranks, once more: the wrapper divides by it already"});
    }
    return advice;
  }

 private:
  struct Count {
    std::int32_t n_ranks = 0;
    std::int64_t n_steps = 0;
    std::int64_t n_divided = 0;
  };

  std::map<WrapperKey, Count> counts_;
  std::set<WrapperKey> hooked_;
};

}  // namespace lockstep::laws
