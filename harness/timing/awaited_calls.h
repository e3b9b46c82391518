// What a backward waits for.
#pragma once

#include <string_view>

#include "lockstep/trace/event.h"

namespace lockstep {

/// Of what a wrapper's reducer posts (docs/trace_format.md, `scope`).
inline constexpr std::string_view kBackwardScope = "ddp.backward";

/// A backward ends only when these have. Our own reducer says what is in a bucket, and PyTorch's calls have at least its
/// scope.
inline bool is_awaited_by_backward(const CollectiveEvent& posted) {
  return posted.signature.layout != 0 || posted.signature.site.scope == kBackwardScope;
}

}  // namespace lockstep
