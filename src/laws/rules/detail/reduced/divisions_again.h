// Averages that a program divides by the number of ranks, which the wrapper has divided by already.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "lockstep/laws/detail/rank_wrapper_map.h"
#include "lockstep/laws/finding.h"
#include "lockstep/laws/rules/detail/losses/divided_losses.h"
#include "lockstep/laws/rules/detail/norm_bounds.h"

namespace lockstep::laws {

/// Steps by wrapper, of rank 0 where gradients are divided: all ranks of a loop do this alike.
class DivisionsAgain {
 public:
  struct Wrapped {
    const WrapEvent* by = nullptr;  ///< Null: not seen.
    std::int32_t n_ranks = 0;
    RankRange who;  ///< Whose step it is.
  };

  struct Gradients {
    const GradientsSeen& reduced;
    const GradientsSeen& used;
  };

  /// A hook of the program's own may leave something else than means, whatever it says of itself.
  void on_hook(WrapperKey wrapper, const CommHookEvent& hook) {
    if (hook.effect != HookEffect::kRounded) hooked_.insert(wrapper);
  }

  bool reads(const Event& event, const LossEvent& loss) const { return losses_.reads(event, loss); }

  void on_loss(const Event& event,
               const LossEvent& loss,
               RankRange who,
               const DividedLosses::Averaged& averaged) {
    losses_.on_loss(event, loss, who, averaged);
  }

  /// A step that nothing clipped.
  void on_step(const Event& event,
               const StepEvent& step,
               const Wrapped& wrapped,
               const Gradients& gradients,
               const NameTable& names);

  /// "A-divided-again" for wrappers of which every step did, two or more.
  std::vector<Advice> advice() const;

 private:
  struct Count {
    std::int32_t n_ranks = 0;
    std::int64_t n_steps = 0;
    std::int64_t n_divided = 0;
  };

  std::map<WrapperKey, Count> counts_;
  DividedLosses losses_;
  std::set<WrapperKey> hooked_;
};

}  // namespace lockstep::laws
