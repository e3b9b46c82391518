// The table of causes, in one piece.
#include <algorithm>
#include <vector>

#include "lockstep/laws/causes.h"
#include "lockstep/laws/detail/cause_rows.h"

namespace lockstep {

std::span<const CauseInfo> all_causes() {
  // All parts are constant, so is their sum; a function-local constant is not mutable state.
  static const std::vector<CauseInfo> rows = [] {
    std::vector<CauseInfo> all;
    for (const std::span<const CauseInfo> part : {laws::gradients_causes(),
                                                  laws::model_causes(),
                                                  laws::data_causes(),
                                                  laws::calls_causes(),
                                                  laws::checkpoints_causes()}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    std::ranges::sort(all, {}, &CauseInfo::cause);
    return all;
  }();
  return rows;
}

}  // namespace lockstep
