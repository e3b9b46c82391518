#include "lockstep/laws/causes.h"

#include <algorithm>

#include "lockstep/base/check.h"

namespace lockstep {

const CauseInfo& describe(Cause cause) {
  LOCKSTEP_CHECK(cause != Cause::kNone, "there is no sentence about an unknown cause");
  return all_causes()[static_cast<std::size_t>(cause) - 1];
}

std::string_view id_of(Cause cause) { return cause == Cause::kNone ? "" : describe(cause).id; }

std::optional<Cause> parse_cause(std::string_view id) {
  const std::span<const CauseInfo> causes = all_causes();
  const auto found = std::find_if(
      causes.begin(), causes.end(), [&](const CauseInfo& info) { return info.id == id; });
  if (found == causes.end()) return std::nullopt;
  return found->cause;
}

}  // namespace lockstep
