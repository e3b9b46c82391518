// What `lockstep explore` says about a search, whether one process made its runs or several.
#pragma once

#include <string>
#include <vector>

#include "lockstep/harness/cli/commands.h"
#include "lockstep/harness/cli/progress_line.h"
#include "lockstep/harness/explore/parts/part_file.h"
#include "lockstep/harness/explore/search/search.h"

namespace lockstep::cli {

/// Where what was found is kept: the folder of the command line, or the one below its `--out`.
std::string regressions_of(const ExploreArguments& arguments);

/// `lockstep run` words that make the run again.
std::string run_command(const ExploreArguments& arguments, const explore::Attempt& attempt);

/// Prints the result, and writes a small version of what failed.
ExitCode report_search(const ExploreArguments& arguments,
                       const explore::SearchOptions& options,
                       const explore::SearchResult& found,
                       Terminal& terminal);

/// Makes a shard's runs of a scenario, and writes its part.
ExitCode explore_shard(const ExploreArguments& arguments,
                       const explore::SearchOptions& options,
                       ProgressLine& progress,
                       Terminal& terminal);
/// The same of random jobs.
ExitCode explore_jobs_shard(const ExploreArguments& arguments, Terminal& terminal);

/// Parts of `explore`, as if one process had made all of it. Requires: parts of one run, all of them.
ExitCode merge_runs(const std::vector<explore::Part>& parts,
                    const MergeArguments& arguments,
                    Terminal& terminal);
ExitCode merge_jobs(const std::vector<explore::Part>& parts,
                    const MergeArguments& arguments,
                    Terminal& terminal);

/// What `--shard` and `--part` say.
/// Errors: no shard; a part whose folder is not there, before hours of work are lost over it.
Result<explore::Shard> shard_of(const std::string& shard, const std::string& part);

/// What a shard came to.
struct ShardVerdict {
  std::string text;  ///< "125 runs, none failed"
  bool all_well = true;
};

/// Writes the part of a shard, and says so.
ExitCode write_part(const std::string& path,
                    const explore::PartHeader& header,
                    const std::vector<std::string>& lines,
                    const ShardVerdict& verdict,
                    Terminal& terminal);

/// "lockstep 0.1.0", which all parts of a run come from.
std::string library_name();

}  // namespace lockstep::cli
