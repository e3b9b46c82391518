// The table of causes, in one piece.
#include <vector>

#include "lockstep/laws/causes.h"
#include "lockstep/laws/detail/cause_rows.h"

namespace lockstep {

std::span<const CauseInfo> all_causes() {
  // Both halves are constant, so is their sum; a function-local constant is not mutable state.
  static const std::vector<CauseInfo> rows = [] {
    std::vector<CauseInfo> all;
    for (const std::span<const CauseInfo> part : {laws::first_causes(), laws::last_causes()}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }();
  return rows;
}

}  // namespace lockstep
