// What a scenario may be run on besides what its file says: other seeds of the job, small changes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/harness/format/document.h"
#include "lockstep/harness/format/load.h"

namespace lockstep::explore {

/// The document with the settings applied, as `--set` does.
TomlNode with_settings(const TomlNode& document, const std::vector<Setting>& settings);

/// The settings that give the job a different seed, everywhere it draws from one. Empty: `seed` is
/// 0, or nothing is drawn. `path` is where the document's data files are relative to.
std::vector<Setting> seed_settings(const TomlNode& document,
                                   const std::string& path,
                                   std::uint64_t seed);

/// Small changes, each on its own, that a robust job survives: one or a few ranks, rows, batch
/// rows, steps, epochs or micro-steps more or less, other buckets, reduction orders and fidelities.
/// Those that the document cannot have are left out.
std::vector<std::vector<Setting>> small_changes(const TomlNode& document, const std::string& path);

}  // namespace lockstep::explore
