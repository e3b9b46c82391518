// The words a user typed, as the command they mean.
#pragma once

#include <string>
#include <variant>

#include "lockstep/harness/cli/commands.h"

namespace lockstep::cli {

/// Text to print instead of running something: help, the version.
struct Information {
  std::string text;
};

/// What is wrong with the words, in one sentence.
struct UsageError {
  std::string text;
};

using Command = std::variant<UsageError,
                             Information,
                             RunArguments,
                             TestArguments,
                             ZooArguments,
                             ExploreArguments,
                             MergeArguments,
                             ReplayArguments,
                             CheckArguments,
                             DiffArguments,
                             ExplainDiffArguments,
                             BisectArguments,
                             ExportArguments,
                             AnalyzeArguments,
                             CertifyArguments,
                             WhatIfArguments,
                             LawsArguments,
                             ExplainArguments,
                             SamplerArguments,
                             NcclLogArguments,
                             RankArguments,
                             CrosscheckArguments,
                             LaunchArguments>;

Command parse_command_line(int argc, const char* const* argv);

}  // namespace lockstep::cli
