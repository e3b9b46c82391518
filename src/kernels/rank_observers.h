// The observers that a rank's kernels may need.
#pragma once

#include "lockstep/kernels/exact_observer.h"
#include "lockstep/kernels/watching_observer.h"

namespace lockstep {

/// What is asked of a rank's operations besides their results.
struct Observed {
  bool exact = false;    ///< They prove that they do not round.
  bool watched = false;  ///< They tell whose memory they touch.
};

/// One set serves any number of kernels.
class RankObservers {
 public:
  /// Returns: for Kernels::observe; null where nothing is asked.
  KernelObserver* get(const Observed& observed) {
    if (observed.exact && observed.watched) return &both_;
    if (observed.exact) return &exact_;
    return observed.watched ? &watching_ : nullptr;
  }

 private:
  ExactObserver exact_;
  WatchingObserver watching_;
  NestedObservers both_{watching_, exact_};
};

}  // namespace lockstep
