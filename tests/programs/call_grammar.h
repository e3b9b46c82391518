// The order of collectives that DDP promises (docs/contract.md), as an independent recogniser: it
// reads a job's text and a list of calls, and knows nothing of reducers.
#pragma once

#include <string>
#include <vector>

#include "tests/programs/program.h"

namespace lockstep::programs {

/// What is wrong with a rank's calls, "" when they follow the grammar. `ended_early`: the job
/// failed somewhere, so its calls need only begin as they should.
///
/// Requires: a job of two or more dtypes leaves open in which order a rebuild puts its buckets.
std::string violation(const Program& program,
                      const std::vector<std::string>& calls,
                      bool ended_early);

}  // namespace lockstep::programs
