// What `lockstep explore` and `lockstep merge` say about a search, and what they write.
#include "lockstep/harness/cli/explore_report.h"

#include <filesystem>
#include <sstream>

#include "lockstep/base/text.h"
#include "lockstep/formats/json_text.h"
#include "lockstep/harness/explore/search/coverage.h"
#include "lockstep/harness/explore/search/critical_step.h"
#include "lockstep/harness/explore/search/paths.h"
#include "lockstep/harness/explore/search/regressions.h"
#include "lockstep/harness/explore/shrink/reproduction.h"
#include "lockstep/harness/format/load.h"
#include "lockstep/harness/scenario/scenario.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

std::string counted(std::uint64_t n, const std::string& one, const std::string& many) {
  return std::to_string(n) + " " + (n == 1 ? one : many);
}

/// How much was tried, and how it ended.
void print_search(const ExploreArguments& arguments,
                  const explore::SearchResult& result,
                  Terminal& terminal) {
  terminal.out << counted(result.n_runs, "run", "runs");
  if (result.n_seeds > 1) terminal.out << " of " << result.n_seeds << " seeds";
  if (result.n_changes > 0) {
    terminal.out << ", with " << counted(result.n_changes, "small change", "small changes");
  }
  terminal.out << " (" << arguments.strategy << ")";
  if (result.n_ends > 0) terminal.out << ", " << counted(result.n_ends, "end state", "end states");
  terminal.out << "\n";
  if (result.bound > 0.0) {
    terminal.out << "pct: " << result.n_processes << " processes, " << result.n_steps
                 << " picks: one run meets a bug of this depth with a probability of at least "
                 << exact(result.bound) << "\n";
  }
  if (arguments.strategy != "exhaustive") return;
  terminal.out << counted(result.exhaustive.n_explored, "kind of schedule", "kinds of schedules")
               << (result.complete ? ", all there are" : ", more are left") << "\n";
}

std::string setting_words(const std::vector<Setting>& settings) {
  std::string words;
  for (const Setting& setting : settings) {
    const std::string word = setting.key + "=" + setting.value;
    const bool plain = word.find_first_of(" []{}\"'*?") == std::string::npos;
    words += plain ? " --set " + word : " --set '" + word + "'";
  }
  return words;
}

/// Nothing failed: what that is worth.
void print_quiet(const explore::SearchResult& result, Terminal& terminal) {
  if (result.proof()) {
    terminal.out << "nothing failed: proof for all schedules of this scenario with these inputs\n";
  } else {
    terminal.out << "nothing failed: evidence for the runs made, no proof\n";
  }
}

/// What is left to do after a failure or a mark that no run has reached.
ExitCode exit_code_of(const explore::SearchResult& result) {
  const bool failed = result.failure || result.diverging_runs;
  return failed || !result.coverage.unreached().empty() ? ExitCode::kFindings : ExitCode::kOk;
}

/// The search as an object (docs/explore.md).
std::string search_json(const ExploreArguments& arguments, const explore::SearchResult& result) {
  const auto number = [](std::uint64_t n) { return static_cast<std::int64_t>(n); };
  JsonText out;
  out.open_object().key("lockstep_explore").integer(1).key("scenario").text(arguments.file);
  out.key("variant").text(arguments.variant).key("strategy").text(arguments.strategy);
  out.key("runs").integer(number(result.n_runs)).key("ends").integer(number(result.n_ends));
  out.key("seeds").integer(number(result.n_seeds));
  out.key("changes").integer(number(result.n_changes)).key("proof").flag(result.proof());
  out.key("diverging").flag(result.diverging_runs.has_value()).key("failure");
  if (result.failure) {
    out.open_object().key("run").integer(number(result.failure->number));
    out.key("text").text(result.failure->trial.sentence);
    out.key("command").text(run_command(arguments, result.failure->attempt)).close_object();
  } else {
    out.null();
  }
  out.key("coverage").open_object();
  explore::write_coverage(out, result.coverage);
  out.close_object().close_object();
  return out.str() + "\n";
}

/// The scenario as it failed, as a document.
Result<TomlNode> failing_document(const ExploreArguments& arguments,
                                  const explore::SearchOptions& options,
                                  const explore::Attempt& attempt) {
  std::vector<Setting> settings = options.settings;
  settings.insert(settings.end(), attempt.settings.begin(), attempt.settings.end());
  return load_document(arguments.file, arguments.variant, settings);
}

explore::Reproduction about(const ExploreArguments& arguments, const TomlNode& document) {
  explore::Reproduction about;
  const fs::path file(arguments.file);
  about.origin = file.filename().string();
  if (!arguments.variant.empty()) about.origin += " (variant " + arguments.variant + ")";
  about.folder = fs::absolute(file).lexically_normal().parent_path().string();
  const TomlNode* title = document.find("title");
  about.title = title == nullptr ? about.origin : title->text;
  return about;
}

void print_shrunk(const explore::Shrunk& shrunk,
                  const explore::Reproduction& about,
                  Terminal& terminal) {
  const explore::Cost& before = shrunk.before.cost;
  const explore::Cost& after = shrunk.after.cost;
  const auto fall = [&](const char* what, std::int64_t from, std::int64_t to) {
    terminal.out << what << " " << from;
    if (to != from) terminal.out << " -> " << to;
  };
  terminal.out << "shrunk in " << shrunk.n_tries << " tries: ";
  fall("ranks", before.ranks, after.ranks);
  fall(", bugs and faults", before.disturbances, after.disturbances);
  fall(", events", before.events, after.events);
  fall(", elements", before.volume, after.volume);
  fall(", values in the file", before.leaves, after.leaves);
  terminal.out << ", deviations of the schedule " << after.deviations << "\n"
               << shrunk.after.sentence << "\n";
  for (const std::string& remark : about.remarks) terminal.out << "  " << remark << "\n";
}

/// The failure, small, in files.
Outcome report_failure(const ExploreArguments& arguments,
                       const explore::SearchOptions& options,
                       const explore::FoundFailure& found,
                       Terminal& terminal) {
  if (found.number > 0) {
    terminal.out << (found.was_kept ? "a kept failure recurs, run " : "first failure: run ")
                 << found.number << ": ";
  }
  terminal.out << found.trial.sentence << "\n"
               << "  " << run_command(arguments, found.attempt) << "\n";
  const Result<TomlNode> document = failing_document(arguments, options, found.attempt);
  if (!document.ok()) return document.error();
  const explore::TrialRunner runner(arguments.file);
  // Marks are about many runs, and a reproduction is one.
  TomlNode one_run = copy_of(document.value());
  explore::drop(one_run, "sometimes");
  const Result<explore::Shrunk> shrunk =
      explore::shrink(runner, one_run, found.attempt.schedule, {});
  if (!shrunk.ok()) return shrunk.error();
  explore::Reproduction words = about(arguments, document.value());
  const explore::Failure& failure = *shrunk.value().after.failure;
  words.remarks = explore::sentences(explore::vary(runner, shrunk.value().document, failure));
  if (const auto step = explore::critical_step(runner, shrunk.value().document, failure)) {
    words.remarks.push_back(explore::sentence(*step));
  }
  print_shrunk(shrunk.value(), words, terminal);
  const auto written = explore::write_reproduction(arguments.out, shrunk.value(), words);
  if (!written.ok()) return written.error();
  terminal.out << "wrote " << written.value().scenario << " and " << written.value().test
               << "\nReplay: lockstep replay " << written.value().scenario << "\n";
  if (found.was_kept) return success();
  const auto kept =
      explore::keep_regression(regressions_of(arguments), arguments.file, options, found);
  if (!kept.ok()) return kept.error();
  terminal.out << "kept for the next time: " << kept.value() << "\n";
  return success();
}

/// Two runs of the same inputs ended differently: that, small, in files.
Outcome print_diverging_runs(const ExploreArguments& arguments,
                             const explore::SearchOptions& options,
                             const explore::DivergingRuns& ends,
                             Terminal& terminal) {
  terminal.out << "the result depends on the schedule:\n  "
               << run_command(arguments, {ends.settings, ends.schedule}) << "\n  "
               << run_command(arguments, {ends.settings, ends.other}) << "\n";
  const auto failure = explore::as_failure(arguments.file, options, ends);
  if (!failure.ok()) return failure.error();
  if (!failure.value()) return success();
  return report_failure(arguments, options, *failure.value(), terminal);
}

}  // namespace

std::string regressions_of(const ExploreArguments& arguments) {
  if (!arguments.regressions.empty()) return arguments.regressions;
  return (fs::path(arguments.out) / "regressions").string();
}

std::string run_command(const ExploreArguments& arguments, const explore::Attempt& attempt) {
  std::string command = "lockstep run " + arguments.file;
  if (!arguments.variant.empty()) command += " --variant " + arguments.variant;
  for (const std::string& setting : arguments.settings) command += " --set '" + setting + "'";
  command += setting_words(attempt.settings);
  return attempt.schedule.empty() ? command : command + " --set sim.strategy=" + attempt.schedule;
}

ExitCode report_search(const ExploreArguments& arguments,
                       const explore::SearchOptions& options,
                       const explore::SearchResult& found,
                       Terminal& terminal) {
  std::ostringstream unseen;
  Terminal silent{.out = unseen, .err = terminal.err};
  Terminal& words = arguments.json ? silent : terminal;
  print_search(arguments, found, words);
  if (found.failure || found.diverging_runs) {
    const Outcome reported =
        found.failure ? report_failure(arguments, options, *found.failure, words)
                      : print_diverging_runs(arguments, options, *found.diverging_runs, words);
    if (!reported.ok()) return bad_input(terminal, reported.error().text());
  } else {
    print_quiet(found, words);
  }
  words.out << explore::coverage_text(found.coverage);
  if (arguments.json) terminal.out << search_json(arguments, found);
  return exit_code_of(found);
}

}  // namespace lockstep::cli
