// Where a data set is read: in which attempt, for which split.
#pragma once

#include <compare>
#include <cstdint>

#include "lockstep/base/names.h"

namespace lockstep::laws {

struct SplitPlace {
  std::int32_t attempt = 0;
  NameId split = kNoName;
  friend auto operator<=>(const SplitPlace&, const SplitPlace&) = default;
};

}  // namespace lockstep::laws
