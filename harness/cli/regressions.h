// Where `lockstep explore` keeps what it found.
#pragma once

#include <string>

#include "lockstep/harness/cli/commands.h"

namespace lockstep::cli {

/// The folder of the command line, or the one below its `--out`.
std::string regressions_of(const ExploreArguments& arguments);

}  // namespace lockstep::cli
