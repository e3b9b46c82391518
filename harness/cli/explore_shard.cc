// `lockstep explore SCENARIO --shard`: the runs of one shard as a part, and the parts of all as one search.
#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "lockstep/base/text.h"
#include "lockstep/formats/json_text.h"
#include "lockstep/harness/cli/explore_report.h"
#include "lockstep/harness/cli/settings.h"
#include "lockstep/harness/explore/search/coverage.h"
#include "lockstep/harness/explore/search/regressions.h"
#include "lockstep/harness/format/load.h"

namespace lockstep::cli {
namespace {

using explore::Fact;
using explore::MadeRun;
using explore::Part;
using explore::PartLine;

std::int64_t number_of(std::uint64_t n) { return static_cast<std::int64_t>(n); }

/// A kept failure in one word, so that the shards can tell whether they tried the same ones first.
std::string attempt_text(const explore::Attempt& attempt) {
  JsonText out;
  out.open_object().key("schedule").text(attempt.schedule).key("settings").open_array();
  for (const Setting& setting : attempt.settings) out.text(setting.key + "=" + setting.value);
  return out.close_array().close_object().str();
}

Result<explore::Attempt> attempt_of(const std::string& text, const std::string& where) {
  Result<PartLine> line = PartLine::parse(text, where);
  if (!line.ok()) return line.error();
  explore::Attempt attempt;
  attempt.schedule = line.value().text("schedule");
  Result<std::vector<Setting>> settings = parse_settings(line.value().texts("settings"));
  if (!settings.ok()) return Error{settings.error().message, where};
  attempt.settings = std::move(settings).value();
  const Outcome outcome = line.value().outcome();
  if (!outcome.ok()) return outcome.error();
  return attempt;
}

std::vector<Fact> search_facts(const ExploreArguments& arguments,
                               const explore::SearchOptions& options,
                               const std::string& digest) {
  Fact kept{.name = "kept", .values = {}};
  for (const explore::Attempt& attempt : options.first) {
    kept.values.push_back(attempt_text(attempt));
  }
  return {{"scenario", {arguments.file}},
          {"scenario-digest", {digest}},
          {"--variant", {arguments.variant}},
          {"--set", arguments.settings},
          {"--strategy", {arguments.strategy}},
          {"--runs", {std::to_string(arguments.runs)}},
          {"--seeds", {std::to_string(arguments.seeds)}},
          {"--vary", {arguments.vary ? "yes" : "no"}},
          std::move(kept)};
}

/// The lines of a part: what runs reached, once, before the first run that reached it.
class RunLines {
 public:
  void add(const MadeRun& run) {
    JsonText out;
    out.open_object().key("run").integer(number_of(run.number));
    if (!run.was_made) {
      lines_.push_back(out.key("skipped").flag(true).close_object().str());
      return;
    }
    out.key("input").integer(number_of(run.input)).key("schedule").text(run.schedule);
    out.key("end").word(run.end).key("choices").integer(number_of(run.n_choices));
    out.key("processes").integer(number_of(run.n_processes)).key("picks").open_array();
    for (const std::uint64_t picks : run.actions.picks) out.integer(number_of(picks));
    out.close_array().key("alternatives").integer(number_of(run.actions.choices));
    out.key("reached").integer(number_of(place_of(run)));
    if (!run.failure.empty()) out.key("failure").text(run.failure);
    lines_.push_back(out.close_object().str());
  }

  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::uint64_t place_of(const MadeRun& run) {
    const auto [known, is_new] = places_.emplace(run.reached.get(), places_.size());
    if (is_new) {
      JsonText out;
      out.open_object().key("reaches").integer(number_of(known->second));
      explore::write_coverage(out, *run.reached);
      lines_.push_back(out.close_object().str());
    }
    return known->second;
  }

  std::map<const explore::Coverage*, std::uint64_t> places_;
  std::vector<std::string> lines_;
};

std::vector<explore::Reached> reached_of(PartLine& line, const std::string& key) {
  std::vector<explore::Reached> list;
  for (PartLine& each : line.objects(key)) {
    list.push_back({each.text("name"), each.text("where"), each.number("runs")});
  }
  return list;
}

explore::Coverage coverage_of(PartLine& line) {
  explore::Coverage coverage;
  coverage.n_runs = line.number("runs");
  for (PartLine& law : line.objects("laws")) {
    coverage.laws.push_back(
        {law.text("law"), law.number("held"), law.number("broken"), law.number("unchecked")});
  }
  coverage.faults = reached_of(line, "faults");
  coverage.marks = reached_of(line, "marks");
  return coverage;
}

/// Reads the runs of one part: exactly those of its shard, up to the first that failed.
class RunReader {
 public:
  RunReader(const Part& part, std::uint64_t n_all)
      : part_(&part), n_all_(n_all), expected_(part.header().shard.next(0)) {}

  /// Appends them. Errors: a line that makes no sense, a run that is missing or of another shard.
  Outcome read(std::vector<MadeRun>& runs) {
    Outcome read = part_->each([&](PartLine& line) {
      if (line.has("reaches")) {
        add_reached(line);
      } else {
        runs.push_back(run_of(line));
      }
      return success();
    });
    if (!read.ok()) return read;
    if (failed_ || expected_ >= n_all_) return success();
    return Error{
        "run " + std::to_string(expected_ + 1) + " is missing, although no run before it failed",
        part_->place_of("shard")};
  }

 private:
  void add_reached(PartLine& line) {
    if (line.number("reaches") != reached_.size()) {
      line.complain("reaches", "these are numbered from 0");
    }
    reached_.push_back(std::make_shared<const explore::Coverage>(coverage_of(line)));
  }

  MadeRun run_of(PartLine& line) {
    MadeRun run;
    run.number = line.number("run");
    if (failed_ || run.number != expected_ || run.number >= n_all_) {
      line.complain("run",
                    failed_ ? "a run after the one that failed"
                            : "run " + std::to_string(expected_ + 1) + " of shard " +
                                  text_of(part_->header().shard) + " belongs here");
    }
    expected_ += part_->header().shard.count;
    run.was_made = !line.has("skipped");
    if (!run.was_made) return run;
    run.input = line.number("input");
    run.schedule = line.text("schedule");
    run.end = line.word("end");
    run.n_choices = line.number("choices");
    run.n_processes = line.number("processes");
    run.actions.choices = line.number("alternatives");
    const std::vector<std::uint64_t> picks = line.numbers("picks");
    if (picks.size() == run.actions.picks.size()) {
      std::ranges::copy(picks, run.actions.picks.begin());
    } else {
      line.complain("picks", "'picks' must have four numbers");
    }
    const std::uint64_t reached = line.number("reached");
    if (reached < reached_.size()) {
      run.reached = reached_[reached];
    } else {
      line.complain("reached", "no line before this one says what it reached");
    }
    if (line.has("failure")) run.failure = line.text("failure");
    failed_ = !run.failure.empty();
    return run;
  }

  const Part* part_;
  std::uint64_t n_all_;
  std::uint64_t expected_;
  bool failed_ = false;
  std::vector<std::shared_ptr<const explore::Coverage>> reached_;
};

/// The number that a fact says. Errors: it is none from 1 to a million.
Result<std::uint64_t> number_fact(const Part& part, const std::string& name) {
  constexpr std::int64_t kMost = 1'000'000;
  const std::optional<std::int64_t> number = parse_int(part.header().value(name));
  if (number && *number >= 1 && *number <= kMost) return static_cast<std::uint64_t>(*number);
  return Error{name + " must be one whole number, from 1 to " + std::to_string(kMost),
               part.place_of(name)};
}

/// The command that the parts share out. Errors: facts that make no sense.
Result<ExploreArguments> shared_search(const Part& part, const MergeArguments& merge) {
  const explore::PartHeader& header = part.header();
  ExploreArguments arguments;
  arguments.file = header.value("scenario");
  if (arguments.file.empty()) return Error{"no scenario is named", part.place_of("scenario")};
  arguments.variant = header.value("--variant");
  const auto settings = header.values("--set");
  arguments.settings.assign(settings.begin(), settings.end());
  arguments.strategy = header.value("--strategy");
  arguments.vary = header.value("--vary") == "yes";
  arguments.out = merge.out;
  arguments.regressions = merge.regressions;
  arguments.json = merge.json;
  const Result<std::uint64_t> runs = number_fact(part, "--runs");
  if (!runs.ok()) return runs.error();
  const Result<std::uint64_t> seeds = number_fact(part, "--seeds");
  if (!seeds.ok()) return seeds.error();
  arguments.runs = runs.value();
  arguments.seeds = seeds.value();
  return arguments;
}

Result<explore::SearchOptions> options_of(const ExploreArguments& arguments, const Part& part) {
  explore::SearchOptions options;
  Result<std::vector<Setting>> settings = parse_settings(arguments.settings);
  if (!settings.ok()) return Error{settings.error().message, part.place_of("--set")};
  options.settings = std::move(settings).value();
  options.variant = arguments.variant;
  options.strategy = arguments.strategy;
  options.n_runs = arguments.runs;
  options.n_seeds = arguments.seeds;
  options.vary = arguments.vary;
  for (const std::string& text : part.header().values("kept")) {
    Result<explore::Attempt> attempt = attempt_of(text, part.place_of("kept"));
    if (!attempt.ok()) return attempt.error();
    options.first.push_back(std::move(attempt).value());
  }
  return options;
}

/// Errors: the scenario cannot be read, or is not the one that the parts are about.
Outcome check_scenario(const ExploreArguments& arguments,
                       const explore::SearchOptions& options,
                       const Part& part) {
  const Result<Scenario> scenario =
      load_scenario(arguments.file, options.variant, options.settings);
  if (!scenario.ok()) return scenario.error();
  if (scenario.value().digest == part.header().value("scenario-digest")) return success();
  return Error{"the runs used a different version of " + arguments.file + " from the present one",
               part.place_of("scenario-digest")};
}

/// Failures that come after the first one, which one process would not have seen.
struct LaterFailures {
  std::vector<explore::FoundFailure> others;  ///< One of each kind that is not the first one's.
  std::vector<std::string> same;              ///< Runs that failed in a way that is known.
};

/// Errors: a failure does not come again.
Result<LaterFailures> later_failures(const ExploreArguments& arguments,
                                     const explore::SearchOptions& options,
                                     const std::vector<MadeRun>& runs) {
  LaterFailures later;
  std::vector<explore::Failure> known;
  for (const MadeRun& run : runs) {
    if (run.failure.empty()) continue;
    auto failure = explore::failure_again(arguments.file, options, run);
    if (!failure.ok()) return failure.error();
    const explore::Failure kind = *failure.value().trial.failure;
    if (std::ranges::find(known, kind) != known.end()) {
      later.same.push_back(std::to_string(run.number + 1));
      continue;
    }
    if (!known.empty()) later.others.push_back(std::move(failure).value());
    known.push_back(kind);
  }
  return later;
}

/// Names and keeps them. Errors: a file cannot be written.
Outcome keep(const LaterFailures& later,
             const ExploreArguments& arguments,
             const explore::SearchOptions& options,
             Terminal& terminal) {
  for (const explore::FoundFailure& failure : later.others) {
    terminal.err << "run " << failure.number << " fails differently: " << failure.trial.sentence
                 << "\n  " << run_command(arguments, failure.attempt) << "\n";
    if (failure.was_kept) continue;
    const auto kept =
        explore::keep_regression(regressions_of(arguments), arguments.file, options, failure);
    if (!kept.ok()) return kept.error();
    terminal.err << "  kept for the next time: " << kept.value() << "\n";
  }
  if (!later.same.empty()) {
    terminal.err << "the same failure occurred in other shards: run " << join(later.same) << "\n";
  }
  return success();
}

}  // namespace

ExitCode explore_shard(const ExploreArguments& arguments,
                       const explore::SearchOptions& options,
                       ProgressLine& progress,
                       Terminal& terminal) {
  const Result<explore::Shard> shard = shard_of(arguments.shard, arguments.part);
  if (!shard.ok()) return bad_input(terminal, shard.error().text());
  const auto scenario = load_scenario(arguments.file, options.variant, options.settings);
  if (!scenario.ok()) return bad_input(terminal, scenario.error().text());
  const auto runs = explore::make_runs(arguments.file, options, shard.value());
  progress.clear();
  if (!runs.ok()) return bad_input(terminal, runs.error().text());
  RunLines lines;
  for (const MadeRun& run : runs.value()) lines.add(run);
  const std::vector<MadeRun>& made = runs.value();
  const bool all_well = made.empty() || made.back().failure.empty();
  std::string said = std::to_string(made.size()) + (made.size() == 1 ? " run" : " runs");
  said += all_well ? ", none failed"
                   : "; run " + std::to_string(made.back().number + 1) +
                         " failed: " + made.back().failure;
  return write_part(arguments.part,
                    {.work = explore::SharedWork::kRuns,
                     .shard = shard.value(),
                     .library = library_name(),
                     .facts = search_facts(arguments, options, scenario.value().digest)},
                    lines.lines(),
                    {.text = said, .all_well = all_well},
                    terminal);
}

ExitCode merge_runs(const std::vector<Part>& parts,
                    const MergeArguments& arguments,
                    Terminal& terminal) {
  const Part& first = parts.front();
  const Result<ExploreArguments> search = shared_search(first, arguments);
  if (!search.ok()) return bad_input(terminal, search.error().text());
  const auto options = options_of(search.value(), first);
  if (!options.ok()) return bad_input(terminal, options.error().text());
  const Outcome known = check_scenario(search.value(), options.value(), first);
  if (!known.ok()) return bad_input(terminal, known.error().text());
  std::vector<MadeRun> runs;
  for (const Part& part : parts) {
    RunReader reader(part, options.value().first.size() + options.value().n_runs);
    const Outcome read = reader.read(runs);
    if (!read.ok()) return bad_input(terminal, read.error().text());
  }
  std::ranges::sort(runs, {}, &MadeRun::number);
  const auto result = explore::put_together(search.value().file, options.value(), runs);
  if (!result.ok()) return bad_input(terminal, "lockstep merge: " + result.error().text());
  const auto later = later_failures(search.value(), options.value(), runs);
  if (!later.ok()) return bad_input(terminal, "lockstep merge: " + later.error().text());
  const ExitCode code = report_search(search.value(), options.value(), result.value(), terminal);
  const Outcome kept = keep(later.value(), search.value(), options.value(), terminal);
  return kept.ok() ? code : bad_input(terminal, "lockstep merge: " + kept.error().text());
}

}  // namespace lockstep::cli
