#include "lockstep/harness/cli/settings.h"

#include <utility>

#include "lockstep/harness/format/load.h"

namespace lockstep::cli {

Result<std::vector<Setting>> parse_settings(const std::vector<std::string>& texts) {
  std::vector<Setting> settings;
  settings.reserve(texts.size());
  for (const std::string& text : texts) {
    Result<Setting> setting = parse_setting(text);
    if (!setting.ok()) return setting.error();
    settings.push_back(std::move(setting).value());
  }
  return settings;
}

}  // namespace lockstep::cli
