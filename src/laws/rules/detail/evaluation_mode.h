// Trainings that never come back from evaluation mode.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "lockstep/laws/detail/rank_wrapper_map.h"
#include "lockstep/laws/finding.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// The modes in which each wrapper's lowest rank trains; ranks that differ are a finding.
///
///     train()   forward 0, step 0, forward 1, step 1
///     eval()    validation
///               forward 2, step 2, ... to the end          never again in training mode
///
/// A program that trains in evaluation mode from its beginning means to, as with a pretrained batch norm.
class EvaluationMode {
 public:
  struct Forward {
    const Position& at;
    const ForwardEvent& event;
  };

  /// Those that go past the wrapper or keep no graph are none of the training's.
  void on_forward(const Forward& forward, std::int32_t rank);

  /// "A-stays-in-evaluation" for wrappers whose last two steps or more were made so.
  std::vector<Advice> advice() const;

 private:
  struct Training {
    std::int32_t rank = -1;
    bool trained = false;         ///< In training mode.
    std::int32_t since = kNever;  ///< Steps before it last turned to evaluation mode,
    std::int32_t last = 0;        ///< and before the last forward.
  };

  static constexpr std::int32_t kNever = -1;

  std::map<WrapperKey, Training> trainings_;
};

}  // namespace lockstep::laws
