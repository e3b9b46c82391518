// What nccl-tests prints, as measurements: all_reduce_perf, all_gather_perf, ...
#pragma once

#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/harness/whatif/cost_fit.h"

namespace lockstep {

/// Reads the table of one run. Of the two times per size, out of place and in place, the first
/// counts.
///
/// The operation follows from the program's name in the text ("all_reduce_perf"), the number of
/// ranks from its lines "#  Rank  0 Group ...".
///
/// Errors: `path`:line of a row that cannot be read; no rows; no operation; no ranks.
/// Source: nccl-tests, src/common.cu.
Result<std::vector<MeasuredCalls>> read_nccl_tests(const std::string& text,
                                                   const std::string& path);

}  // namespace lockstep
