// Scenario files as they are read: a path, a variant and settings become a Scenario, or an error
// with its place.
#pragma once

#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/harness/scenario/scenario.h"

namespace lockstep {

/// Changes applied from the command line before validation: `--set key=value`.
struct Setting {
  std::string key;
  std::string value;  ///< TOML syntax, or a bare word taken as a string.
};

/// Reads one variant ("" = base). Errors: where = "file:line:column", message with a suggestion.
Result<Scenario> load_scenario(const std::string& path,
                               const std::string& variant,
                               const std::vector<Setting>& settings);
/// Reads the variants that are not run: a mistake in them is still a mistake.
/// Errors: those of load_scenario.
Outcome check_other_variants(const std::string& path, const std::string& variant);
/// The base of a scenario file with this text; `path` is what messages call it and where data lie.
Result<Scenario> read_scenario_text(const std::string& text, const std::string& path);
/// Names of the variants, base ("") first, in file order.
Result<std::vector<std::string>> list_variants(const std::string& path);

/// "key=value" in two parts. Errors: no equals sign, or nothing before it.
Result<Setting> parse_setting(const std::string& text);

}  // namespace lockstep
