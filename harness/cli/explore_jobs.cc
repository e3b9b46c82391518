// `lockstep explore` without a scenario: random correct jobs, about which no law may complain.
#include <algorithm>
#include <charconv>
#include <filesystem>

#include "lockstep/base/disk_files.h"
#include "lockstep/base/text.h"
#include "lockstep/formats/json_text.h"
#include "lockstep/harness/cli/commands.h"
#include "lockstep/harness/cli/explore_report.h"
#include "lockstep/harness/cli/progress_line.h"
#include "lockstep/harness/explore/jobs/kept_jobs.h"
#include "lockstep/harness/explore/jobs/random_jobs.h"
#include "lockstep/harness/explore/shrink/reproduction.h"
#include "lockstep/harness/format/load.h"
#include "lockstep/tensor/digest.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kDefaultJobs = 1000;

Result<RandomJobsOptions> job_options(const ExploreArguments& arguments, ProgressLine& progress) {
  RandomJobsOptions options;
  for (const std::string& text : arguments.settings) {
    Result<Setting> setting = parse_setting(text);
    if (!setting.ok()) return setting.error();
    options.settings.push_back(std::move(setting).value());
  }
  options.seed = arguments.seed;
  options.first = arguments.first;
  options.n_jobs = arguments.jobs.value_or(kDefaultJobs);
  options.n_threads = arguments.threads;
  options.thorough_every = arguments.thorough_every;
  if (const Outcome fits = check_settings(options); !fits.ok()) {
    return Error{"no job can have these settings: " + fits.error().text(), {}};
  }
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

std::optional<std::uint64_t> parse_uint(std::string_view text) {
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, value);
  if (code != std::errc() || stop != end || text.empty()) return std::nullopt;
  return value;
}

/// How often a law complained of a correct job.
void print_rate(const ExploreArguments& arguments,
                const RandomJobsResult& result,
                Terminal& terminal) {
  terminal.out << arguments.jobs.value_or(kDefaultJobs) << " random jobs of seed "
               << arguments.seed;
  if (arguments.first > 0) terminal.out << ", from job " << arguments.first << " on";
  if (!arguments.settings.empty())
    terminal.out << ", of which " << result.n_jobs << " can have these settings";
  terminal.out << "; " << result.n_thorough << " of them with the laws that repeat a run\n"
               << (arguments.settings.empty() ? "false alarms: " : "findings: ")
               << result.false_alarms.size() << " of " << result.n_jobs;
  const double n = static_cast<double>(result.n_jobs);
  if (result.false_alarms.empty()) {
    terminal.out << ", with 95 % confidence fewer than " << exact(3.0 / n)
                 << " per job (3 over the number of jobs)\n";
    return;
  }
  terminal.out << ", " << exact(static_cast<double>(result.false_alarms.size()) / n)
               << " per job\n";
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

/// Jobs that failed before. Returns: how many do so again.
std::size_t report_kept(const std::vector<KeptJob>& jobs, Terminal& terminal) {
  std::size_t n_failing = 0;
  for (const KeptJob& job : jobs) {
    if (job.complaint.empty()) continue;
    ++n_failing;
    terminal.out << "a kept failure recurs: " << job.complaint << "\n  lockstep replay " << job.file
                 << "\n";
  }
  if (!jobs.empty()) {
    terminal.out << "kept failures: " << n_failing << " of " << jobs.size() << " recur\n";
  }
  return n_failing;
}

/// What all jobs came to, whichever process ran them.
ExitCode report_jobs(const ExploreArguments& arguments,
                     const RandomJobsOptions& options,
                     const RandomJobsResult& result,
                     std::size_t n_kept,
                     Terminal& terminal) {
  print_rate(arguments, result, terminal);
  for (const FalseAlarm& alarm : result.false_alarms) {
    const Outcome reported = report_alarm(arguments, options, alarm, terminal);
    if (!reported.ok()) return bad_input(terminal, reported.error().text());
  }
  const bool quiet = n_kept == 0 && result.false_alarms.empty();
  return quiet ? ExitCode::kOk : ExitCode::kFindings;
}

/// Results depend on the text of a kept job, and on nothing else about it.
std::string kept_fact(const std::string& file) {
  const Result<std::string> text = DiskFiles().read(file);
  const std::string bytes = text.ok() ? text.value() : std::string();
  const auto n_bytes = static_cast<std::int64_t>(bytes.size());
  return fs::path(file).filename().string() + " " + hex64(sm64(bytes.data(), n_bytes, DType::kU8));
}

std::vector<explore::Fact> job_facts(const ExploreArguments& arguments,
                                     const RandomJobsOptions& options,
                                     const std::vector<std::string>& kept) {
  explore::Fact kept_facts{.name = "kept", .values = {}};
  for (const std::string& file : kept) kept_facts.values.push_back(kept_fact(file));
  return {{"--jobs", {std::to_string(options.n_jobs)}},
          {"--first", {std::to_string(options.first)}},
          {"--seed", {std::to_string(options.seed)}},
          {"--set", arguments.settings},
          {"--thorough-every", {std::to_string(options.thorough_every)}},
          std::move(kept_facts)};
}

/// One line per complaint, and one per kept job.
std::vector<std::string> lines_of(const std::vector<KeptJob>& kept,
                                  const explore::Shard& shard,
                                  const std::vector<JobComplaint>& complaints) {
  std::vector<std::string> lines;
  std::uint64_t place = shard.next(0);
  for (const KeptJob& job : kept) {
    JsonText out;
    out.open_object().key("kept").integer(static_cast<std::int64_t>(place));
    out.key("file").text(job.file).key("complaint").text(job.complaint).close_object();
    lines.push_back(out.str());
    place += shard.count;
  }
  for (const JobComplaint& complaint : complaints) {
    JsonText out;
    out.open_object().key("job").text(std::to_string(complaint.index));
    out.key("complaint").text(complaint.text).close_object();
    lines.push_back(out.str());
  }
  return lines;
}

/// The jobs that the parts are about. Errors: facts that make no sense.
Result<ExploreArguments> shared_jobs(const explore::Part& part, const MergeArguments& merge) {
  ExploreArguments arguments;
  std::uint64_t jobs = 0;
  for (const auto& [name, value] : {std::pair{"--jobs", &jobs},
                                    std::pair{"--first", &arguments.first},
                                    std::pair{"--seed", &arguments.seed},
                                    std::pair{"--thorough-every", &arguments.thorough_every}}) {
    const std::optional<std::uint64_t> number = parse_uint(part.header().value(name));
    if (!number) return Error{std::string(name) + " must be one whole number", part.place_of(name)};
    *value = *number;
  }
  constexpr std::uint64_t kMost = 1'000'000'000;
  if (jobs < 1 || jobs > kMost) return Error{"no such number of jobs", part.place_of("--jobs")};
  arguments.jobs = jobs;
  const auto settings = part.header().values("--set");
  arguments.settings.assign(settings.begin(), settings.end());
  arguments.out = merge.out;
  arguments.regressions = merge.regressions;
  return arguments;
}

/// What the parts say about jobs, in the order in which one process would have seen it.
struct SharedJobs {
  std::vector<KeptJob> kept;
  std::vector<JobComplaint> complaints;
};

/// Adds one part's lines. Errors: of a line that is not of this part's shard, or out of order.
Outcome add_lines(const explore::Part& part, const RandomJobsOptions& options, SharedJobs& all) {
  const explore::Shard& shard = part.header().shard;
  std::uint64_t place = shard.next(0);
  std::uint64_t least = options.first;
  Outcome read = part.each([&](explore::PartLine& line) {
    if (line.has("kept")) {
      if (line.number("kept") != place || place >= all.kept.size()) {
        line.complain("kept", "no kept failure of this shard");
        return line.outcome();
      }
      all.kept[place] = {line.text("file"), line.text("complaint")};
      place += shard.count;
      return line.outcome();
    }
    const std::optional<std::uint64_t> index = parse_uint(line.text("job"));
    const bool own = index && *index >= least && *index - options.first < options.n_jobs &&
                     shard.has(*index - options.first);
    if (!own) line.complain("job", "no job of this shard, or out of order");
    least = index.value_or(0) + 1;
    all.complaints.push_back({index.value_or(0), line.text("complaint")});
    return line.outcome();
  });
  if (!read.ok()) return read;
  if (place >= all.kept.size()) return success();
  return Error{"kept failure " + std::to_string(place) + " is missing", part.place_of("shard")};
}

/// Errors: a job of which the laws do not complain here, or do in other words.
Outcome check_complaints(const RandomJobsOptions& options,
                         const std::vector<JobComplaint>& complaints) {
  for (const JobComplaint& each : complaints) {
    const std::string here =
        complaint_about(draw_job(options.seed, each.index), inspection_of(options, each.index));
    if (here == each.text) continue;
    return Error{"job " + std::to_string(each.index) + " does not fail here as its part says: '" +
                     printable(each.text) + "'; Lockstep itself differs",
                 {}};
  }
  return success();
}

}  // namespace

ExitCode explore_jobs(const ExploreArguments& arguments, Terminal& terminal) {
  ProgressLine progress(terminal);
  const Result<RandomJobsOptions> options = job_options(arguments, progress);
  if (!options.ok()) return bad_input(terminal, options.error().text());
  const auto files = kept_job_files(regressions_of(arguments), options.value().settings);
  const std::size_t n_kept = report_kept(try_kept_jobs(files), terminal);
  const RandomJobsResult result = try_random_jobs(options.value());
  progress.clear();
  return report_jobs(arguments, options.value(), result, n_kept, terminal);
}

ExitCode explore_jobs_shard(const ExploreArguments& arguments, Terminal& terminal) {
  ProgressLine progress(terminal);
  const Result<explore::Shard> shard = shard_of(arguments.shard, arguments.part);
  if (!shard.ok()) return bad_input(terminal, shard.error().text());
  const Result<RandomJobsOptions> options = job_options(arguments, progress);
  if (!options.ok()) return bad_input(terminal, options.error().text());
  const auto files = kept_job_files(regressions_of(arguments), options.value().settings);
  std::vector<std::string> own;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (shard.value().has(i)) own.push_back(files[i]);
  }
  const std::vector<KeptJob> kept = try_kept_jobs(own);
  const auto complaints = complaints_of(options.value(), shard.value());
  progress.clear();
  const auto n_again = static_cast<std::size_t>(
      std::ranges::count_if(kept, [](const KeptJob& job) { return !job.complaint.empty(); }));
  std::string said = std::to_string(complaints.size()) + " of its jobs failed";
  if (n_again > 0) said += ", " + std::to_string(n_again) + " of its kept failures recur";
  return write_part(arguments.part,
                    {.work = explore::SharedWork::kJobs,
                     .shard = shard.value(),
                     .library = library_name(),
                     .facts = job_facts(arguments, options.value(), files)},
                    lines_of(kept, shard.value(), complaints),
                    {.text = said, .all_well = complaints.empty() && n_again == 0},
                    terminal);
}

ExitCode merge_jobs(const std::vector<explore::Part>& parts,
                    const MergeArguments& arguments,
                    Terminal& terminal) {
  if (arguments.json)
    return bad_input(terminal, "lockstep merge: random jobs are not printed as JSON");
  const explore::Part& first = parts.front();
  const Result<ExploreArguments> jobs = shared_jobs(first, arguments);
  if (!jobs.ok()) return bad_input(terminal, jobs.error().text());
  ProgressLine progress(terminal);
  const Result<RandomJobsOptions> options = job_options(jobs.value(), progress);
  if (!options.ok()) return bad_input(terminal, options.error().text());
  SharedJobs all;
  all.kept.resize(first.header().values("kept").size());
  for (const explore::Part& part : parts) {
    const Outcome added = add_lines(part, options.value(), all);
    if (!added.ok()) return bad_input(terminal, added.error().text());
  }
  std::ranges::sort(all.complaints, {}, &JobComplaint::index);
  const Outcome checked = check_complaints(options.value(), all.complaints);
  if (!checked.ok()) return bad_input(terminal, "lockstep merge: " + checked.error().text());
  const std::size_t n_kept = report_kept(all.kept, terminal);
  const RandomJobsResult result = alarms_of(options.value(), all.complaints);
  return report_jobs(jobs.value(), options.value(), result, n_kept, terminal);
}

}  // namespace lockstep::cli
