// Simpler models and data of a job.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/harness/format/toml_document.h"
#include "lockstep/harness/scenario/scenario.h"

namespace lockstep::explore {

/// The document with data of this many features and a model that takes them.
TomlNode with_features(const TomlNode& document, std::int64_t n);
/// The document with data and a model of this many outputs.
TomlNode with_outputs(const TomlNode& document, std::int64_t n);

/// Plainer models over the same data, plainest first. `job` is what the document says.
std::vector<TomlNode> plainer_models(const TomlNode& document, const Job& job);
/// Data of the same shape that need no file, smallest first; empty for data that need none.
std::vector<TomlNode> plainer_data(const TomlNode& document, const Job& job);

}  // namespace lockstep::explore
