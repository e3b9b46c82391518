// `lockstep explore` without a scenario: random correct jobs, about which no law may complain.
#include <filesystem>

#include "lockstep/base/disk_files.h"
#include "lockstep/base/text.h"
#include "lockstep/harness/cli/commands.h"
#include "lockstep/harness/cli/progress_line.h"
#include "lockstep/harness/cli/regressions.h"
#include "lockstep/harness/explore/jobs/kept_jobs.h"
#include "lockstep/harness/explore/jobs/random_jobs.h"
#include "lockstep/harness/explore/shrink/reproduction.h"
#include "lockstep/harness/format/load.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

Result<RandomJobsOptions> job_options(const ExploreArguments& arguments, ProgressLine& progress) {
  RandomJobsOptions options;
  for (const std::string& text : arguments.settings) {
    Result<Setting> setting = parse_setting(text);
    if (!setting.ok()) return setting.error();
    options.settings.push_back(std::move(setting).value());
  }
  options.seed = arguments.seed;
  options.first = arguments.first;
  options.n_jobs = arguments.jobs.value_or(1000);
  options.n_threads = arguments.threads;
  options.thorough_every = arguments.thorough_every;
  if (progress.is_on()) {
    options.progress = [&progress](std::uint64_t done, std::uint64_t most) {
      progress.count(done, most, "jobs");
    };
  }
  return options;
}

/// The settings as they stood on the command line.
std::string settings_words(const ExploreArguments& arguments) {
  std::string words;
  for (const std::string& setting : arguments.settings) words += " --set '" + setting + "'";
  return words;
}

/// How often a law complained of a correct job.
void print_rate(const ExploreArguments& arguments,
                const RandomJobsResult& result,
                Terminal& terminal) {
  terminal.out << result.n_jobs << " random jobs of seed " << arguments.seed;
  if (arguments.first > 0) terminal.out << ", from job " << arguments.first << " on";
  terminal.out << "; " << result.n_thorough << " of them with the laws that repeat a run\n"
               << (arguments.settings.empty() ? "false alarms: " : "findings: ")
               << result.false_alarms.size() << " of " << result.n_jobs;
  const double n = static_cast<double>(result.n_jobs);
  if (result.false_alarms.empty()) {
    terminal.out << ", with 95 % confidence fewer than " << exact(3.0 / n)
                 << " a job (3 over the number of jobs)\n";
    return;
  }
  terminal.out << ", " << exact(static_cast<double>(result.false_alarms.size()) / n) << " a job\n";
}

/// The simplest job of an alarm as a shrunk failure: nothing is left out of it that makes it
/// correct.
Result<explore::Shrunk> as_failure(const FalseAlarm& alarm) {
  const Result<TomlNode> document = document_of(alarm.sketch, alarm.how);
  if (!document.ok()) return document.error();
  const explore::TrialRunner runner("random_job.toml");
  Result<explore::Shrunk> shrunk =
      explore::shrink(runner, document.value(), "", explore::ShrinkOptions{.n_tries = 0});
  if (!shrunk.ok()) return shrunk.error();
  shrunk.value().n_tries = alarm.n_tries;
  return shrunk;
}

/// Writes what there is to write about one alarm into its own folder.
/// Returns: the scenario's file. Errors: something cannot be written.
Result<std::string> write_alarm(const ExploreArguments& arguments,
                                const FalseAlarm& alarm,
                                Terminal& terminal) {
  const std::string number = std::to_string(alarm.index);
  const std::string again = "lockstep explore --seed " + std::to_string(arguments.seed) +
                            " --first " + number + " --jobs 1" + settings_words(arguments);
  terminal.out << "job " << number << ": " << alarm.complaint << "\n  " << again << "\n";
  const fs::path folder = fs::path(arguments.out) / ("job-" + number);
  const Result<explore::Shrunk> shrunk = as_failure(alarm);
  if (!shrunk.ok()) {
    // Lockstep itself fails on it: there is no report to reproduce.
    DiskFiles files;
    const Outcome made = files.make_folder(folder.string());
    if (!made.ok()) return made.error();
    const std::string file = (folder / "job.toml").string();
    const Outcome written = files.publish(file, to_toml(alarm.sketch, alarm.how.thorough));
    if (!written.ok()) return written.error();
    terminal.out << "  wrote " << file << "\n";
    return file;
  }
  explore::Reproduction about;
  about.origin = "random job " + number + " of seed " + std::to_string(arguments.seed);
  about.title = "a random correct job about which a law complains";
  const auto files = explore::write_reproduction(folder.string(), shrunk.value(), about);
  if (!files.ok()) return files.error();
  terminal.out << "  wrote " << files.value().scenario << " and " << files.value().test << "\n";
  return files.value().scenario;
}

Outcome report_alarm(const ExploreArguments& arguments,
                     const RandomJobsOptions& options,
                     const FalseAlarm& alarm,
                     Terminal& terminal) {
  const Result<std::string> file = write_alarm(arguments, alarm, terminal);
  if (!file.ok()) return file.error();
  const Result<std::string> text = DiskFiles().read(file.value());
  if (!text.ok()) return text.error();
  const auto kept = keep_job(
      regressions_of(arguments), {options.seed, alarm.index, options.settings}, text.value());
  if (!kept.ok()) return kept.error();
  terminal.out << "  kept for the next time: " << kept.value() << "\n";
  return success();
}

/// Jobs that failed before, first. Returns: how many do so again.
std::size_t report_kept(const ExploreArguments& arguments,
                        const RandomJobsOptions& options,
                        Terminal& terminal) {
  const std::vector<KeptJob> jobs = try_kept_jobs(regressions_of(arguments), options.settings);
  std::size_t n_failing = 0;
  for (const KeptJob& job : jobs) {
    if (job.complaint.empty()) continue;
    ++n_failing;
    terminal.out << "a kept failure is there again: " << job.complaint << "\n  lockstep replay "
                 << job.file << "\n";
  }
  if (!jobs.empty()) {
    terminal.out << "kept failures: " << n_failing << " of " << jobs.size() << " are there again\n";
  }
  return n_failing;
}

}  // namespace

ExitCode explore_jobs(const ExploreArguments& arguments, Terminal& terminal) {
  ProgressLine progress(terminal);
  const Result<RandomJobsOptions> options = job_options(arguments, progress);
  if (!options.ok()) return bad_input(terminal, options.error().text());
  const std::size_t n_kept = report_kept(arguments, options.value(), terminal);
  const RandomJobsResult result = try_random_jobs(options.value());
  progress.clear();
  print_rate(arguments, result, terminal);
  for (const FalseAlarm& alarm : result.false_alarms) {
    const Outcome reported = report_alarm(arguments, options.value(), alarm, terminal);
    if (!reported.ok()) return bad_input(terminal, reported.error().text());
  }
  const bool quiet = n_kept == 0 && result.false_alarms.empty();
  return quiet ? ExitCode::kOk : ExitCode::kFindings;
}

}  // namespace lockstep::cli
