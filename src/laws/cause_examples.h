// The lines of a PyTorch script, or of a shell, that bring a cause about, and those that repair it.
#pragma once

#include <string_view>

#include "lockstep/laws/causes.h"

namespace lockstep {

/// A few lines, without the newline at the end. They stand for what people write; names such as
/// `ddp`, `loss`, `rank` are what readers expect.
struct CauseExample {
  Cause cause = Cause::kNone;
  std::string_view breaks;
  std::string_view repairs;
};

/// Requires: not kNone.
const CauseExample& example_of(Cause cause);

}  // namespace lockstep
