// Failures that were found once: kept in a folder, tried first the next time.
#pragma once

#include <string>
#include <vector>

#include "lockstep/harness/explore/search/search.h"

namespace lockstep::explore {

/// The kept failures of one variant of the scenario at `path`, in the order of their files' names.
/// A folder that does not exist holds none.
/// Errors: a file of the folder that is not a reproduction.
Result<std::vector<Attempt>> load_regressions(const std::string& folder,
                                              const std::string& path,
                                              const std::string& variant);

/// Writes the scenario, followed by the run that failed, as `lockstep replay` reads it. The name
/// is the scenario's with a digest of the run, so that a failure is kept once.
/// Returns: the file's path.
/// Errors: the folder or file cannot be written.
Result<std::string> keep_regression(const std::string& folder,
                                    const std::string& path,
                                    const SearchOptions& options,
                                    const FoundFailure& failure);

}  // namespace lockstep::explore
