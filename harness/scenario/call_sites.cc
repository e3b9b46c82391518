#include "lockstep/harness/scenario/call_sites.h"

#include "lockstep/base/text.h"
#include "lockstep/trace/recorder.h"

namespace lockstep {

std::optional<SiteText> parse_site(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return std::nullopt;
  const auto line = parse_int(text.substr(colon + 1));
  if (!line || *line < 1 || *line > 1'000'000'000) return std::nullopt;
  return SiteText{std::string(text.substr(0, colon)), static_cast<std::int32_t>(*line)};
}

CallSite intern_site(Runtime& runtime, std::string_view text) {
  const auto site = parse_site(text);
  Recorder* recorder = runtime.recorder();
  // Without a recorder, sites are not read after the call.
  if (!site || recorder == nullptr) return {};
  NameTable& names = recorder->names();
  // Interned texts are whole std::strings with stable addresses, hence terminated.
  return {names.text(names.intern(site->file)).data(), site->line, ""};
}

}  // namespace lockstep
