// Steps of parameters without a wrapper for which ranks used gradients of their own.
#pragma once

#include <cstdint>
#include <set>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/rules/detail/open_ballots.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// Ranks that train so between two averages of their parameters have moments of their own.
class ApartSteps {
 public:
  static bool is_read(const Event& event, const GradEvent& grad) {
    return event.at.wrapper < 0 && grad.point == GradPoint::kUsed;
  }

  /// Requires: is_read(). `alignment`: of its place among all ranks'.
  void on_used(const AlignmentKey& alignment,
               const Event& event,
               OpenBallots::Vote vote,
               std::int32_t n_members) {
    used_.add(
        alignment, event, vote, n_members, [this](const AlignmentKey& at, const Ballot& ballot) {
          if (!ballot.unanimous()) apart_.insert(at.wrapper);
        });
  }

  bool any_of(WrapperKey wrapper) const { return apart_.contains(wrapper); }

 private:
  OpenBallots used_;
  std::set<WrapperKey> apart_;
};

}  // namespace lockstep::laws
