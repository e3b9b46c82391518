// `lockstep explore`: other schedules and seeds of a scenario, and a small version of what fails.
#include "lockstep/harness/cli/commands.h"
#include "lockstep/harness/cli/explore_report.h"
#include "lockstep/harness/cli/progress_line.h"
#include "lockstep/harness/cli/settings.h"
#include "lockstep/harness/explore/search/regressions.h"
#include "lockstep/harness/explore/search/search.h"
#include "lockstep/harness/format/load.h"

namespace lockstep::cli {
namespace {

Result<explore::SearchOptions> search_options(const ExploreArguments& arguments,
                                              ProgressLine& progress) {
  explore::SearchOptions options;
  Result<std::vector<Setting>> settings = parse_settings(arguments.settings);
  if (!settings.ok()) return settings.error();
  auto kept =
      explore::load_regressions(regressions_of(arguments), arguments.file, arguments.variant);
  if (!kept.ok()) return kept.error();
  options.variant = arguments.variant;
  options.settings = std::move(settings).value();
  options.first = std::move(kept).value();
  options.strategy = arguments.strategy;
  options.n_runs = arguments.runs;
  options.n_seeds = arguments.seeds;
  options.n_jobs = arguments.jobs.value_or(arguments.threads);
  options.vary = arguments.vary;
  if (progress.is_on()) {
    options.progress = [&progress](std::uint64_t done, std::uint64_t most) {
      progress.count(done, most, "runs");
    };
  }
  return options;
}

/// Searches, reports, and writes what failed; or makes the runs of one shard.
ExitCode explore_scenario(const ExploreArguments& arguments, Terminal& terminal) {
  ProgressLine progress(terminal);
  const Result<explore::SearchOptions> options = search_options(arguments, progress);
  if (!options.ok()) return bad_input(terminal, options.error().text());
  const Outcome others = check_other_variants(arguments.file, options.value().variant);
  if (!others.ok()) return bad_input(terminal, others.error().text());
  if (!arguments.shard.empty()) {
    return explore_shard(arguments, options.value(), progress, terminal);
  }
  const Result<explore::SearchResult> result = explore::search(arguments.file, options.value());
  progress.clear();
  if (!result.ok()) return bad_input(terminal, result.error().text());
  return report_search(arguments, options.value(), result.value(), terminal);
}

}  // namespace

ExitCode explore(const ExploreArguments& arguments, Terminal& terminal) {
  if (!arguments.file.empty()) return explore_scenario(arguments, terminal);
  return arguments.shard.empty() ? explore_jobs(arguments, terminal)
                                 : explore_jobs_shard(arguments, terminal);
}

}  // namespace lockstep::cli
