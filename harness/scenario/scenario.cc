#include "lockstep/harness/scenario/scenario.h"

#include <algorithm>

namespace lockstep {

bool RankSet::contains(std::int32_t rank) const {
  return all || std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

}  // namespace lockstep
