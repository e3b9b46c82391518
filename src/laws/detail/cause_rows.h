// The rows of the table of causes, by topic.
#pragma once

#include <span>

#include "lockstep/laws/causes.h"

namespace lockstep::laws {

/// A cause that the zoo has a row of, under its own id.
constexpr CauseInfo in_zoo(Cause cause,
                           std::string_view page,
                           std::string_view sentence,
                           std::string_view remedy) {
  return {cause, page.substr(page.find('#') + 1), sentence, remedy, page};
}

std::span<const CauseInfo> gradients_causes();
std::span<const CauseInfo> model_causes();
std::span<const CauseInfo> data_causes();
std::span<const CauseInfo> calls_causes();
std::span<const CauseInfo> checkpoints_causes();

}  // namespace lockstep::laws
