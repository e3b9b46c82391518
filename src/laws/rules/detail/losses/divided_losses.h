// Losses that a program divides by the number of ranks, although a wrapper averages their gradients.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "lockstep/laws/detail/rank_wrapper_map.h"
#include "lockstep/laws/finding.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// The losses of each rank and wrapper. As many of them per step as ranks may be what the program divides by,
/// which it then should. Where ranks have other numbers of terms, a divisor that is the same for all may
/// look like this on one of them. Half of a mean of squares is a loss of its own, on two ranks, too.
class DividedLosses {
 public:
  /// Whether this loss matters: others do as long as none of the wrapper's was divided.
  bool reads(const Event& event, const LossEvent& loss) const;

  struct Averaged {
    std::int32_t n_ranks = 0;  ///< Over which the wrapper averages the loss's gradients.
    const NameTable* names = nullptr;
  };

  void on_loss(const Event& event, const LossEvent& loss, RankRange who, const Averaged& averaged);

  /// `as_it_is`: the step used the averages, or what they are without the loss scale.
  void on_step(const Event& event, RankRange who, bool as_it_is);

  /// Of the wrapper, if every step's losses were divided on all ranks, in two steps or more; or nothing.
  std::vector<Advice> advice(WrapperKey wrapper) const;

  std::vector<WrapperKey> wrappers() const;

 private:
  struct Count {
    std::int32_t n_ranks = 0;
    std::int32_t n_called = 0;   ///< Loss functions since the last step,
    std::int32_t n_started = 0;  ///< losses that backward passes have started from or divided,
    std::int32_t n_divided = 0;  ///< and of them all.
    std::int32_t n_undivided_elsewhere = 0;  ///< Since then, of other wrappers.
    std::int64_t n_steps = 0;
    std::int64_t n_divided_steps = 0;
  };

  void note_elsewhere(WrapperKey wrapper, const LossEvent& loss, RankRange who);

  static bool is_divided(const Count& count) {
    return count.n_steps >= 2 && count.n_divided_steps == count.n_steps;
  }

  std::map<WrapperKey, std::map<std::int32_t, Count>> counts_;  // By rank.
};

}  // namespace lockstep::laws
