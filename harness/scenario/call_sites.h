// Call sites that a scenario writes as text: "save.py:12".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/base/call_site.h"
#include "lockstep/tensor/runtime.h"

namespace lockstep {

struct SiteText {
  std::string file;
  std::int32_t line = 0;
};

/// "save.py:12" in two parts; nothing when there is no line number after a colon.
std::optional<SiteText> parse_site(std::string_view text);

/// The site as a CallSite whose file name lives as long as the run's trace. Empty text = unknown.
CallSite intern_site(Runtime& runtime, std::string_view text);

}  // namespace lockstep
