// A scenario file as a document that can be changed and written back.
#pragma once

#include <string>
#include <vector>

#include "lockstep/harness/format/load.h"
#include "lockstep/harness/format/toml_document.h"
#include "lockstep/harness/scenario/scenario.h"

namespace lockstep {

/// One variant of the file with the settings applied, as one document without variants.
/// Errors: those of load_scenario that need no schema.
Result<TomlNode> load_document(const std::string& path,
                               const std::string& variant,
                               const std::vector<Setting>& settings);

/// The scenario that a document without variants says. `path` names it, and its data files are
/// relative to it.
/// Errors: those of load_scenario.
Result<Scenario> scenario_of(const TomlNode& document, const std::string& path);

/// TOML that parse_toml reads back as an equal document. Short tables of the top level stand on one
/// line, long ones become sections after everything else.
///
/// Requires: a table without dates.
std::string render_toml(const TomlNode& document);

/// A string as TOML writes it, quotes included.
std::string toml_string(const std::string& text);

}  // namespace lockstep
