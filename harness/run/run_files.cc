#include "lockstep/harness/run/detail/run_files.h"

#include <filesystem>
#include <stdexcept>

#include "lockstep/base/text.h"
#include "lockstep/formats/jsonl.h"
#include "lockstep/harness/report/report_file.h"

namespace lockstep::detail {

namespace {

namespace fs = std::filesystem;

std::string numbered(const std::string& name) {
  const std::size_t place = name.find("%n");
  if (place == std::string::npos) return name;
  for (std::int64_t n = 1;; ++n) {
    std::string candidate = name;
    candidate.replace(place, 2, std::to_string(n));
    std::error_code failed;
    if (!fs::exists(candidate, failed)) return candidate;
  }
}

std::string chosen(const std::string& option,
                   const Environment& environment,
                   const char* variable) {
  return option.empty() ? environment(variable).value_or("") : option;
}

ReportFile::Asker asker(const RunOptions& options) {
  if (options.report.empty()) return {.option = "LOCKSTEP_REPORT", .where = "environment"};
  return {.option = "RunOptions::report", .where = "run_ranks"};
}

void demand(const Outcome& written) {
  if (!written.ok()) throw std::runtime_error(written.error().text());
}

}  // namespace

RunFiles run_files(const RunOptions& options, const Environment& environment) {
  RunFiles files;
  files.trace = numbered(chosen(options.trace, environment, "LOCKSTEP_TRACE"));
  files.report = numbered(chosen(options.report, environment, "LOCKSTEP_REPORT"));
  const Result<ReportFile> report = ReportFile::make(asker(options), files.report, true);
  if (!report.ok()) throw std::invalid_argument(report.error().text());
  return files;
}

void write_report(const RunFiles& files, const FinishedRun& run) {
  Result<ReportFile> file = ReportFile::make({}, files.report, true);
  if (!file.ok() || files.report.empty()) return;
  file.value().add({.report = &run.report,
                    .trace = &run.trace,
                    .wait_for = run.wait_for,
                    .backend = run.backend});
  demand(file.value().write());
}

void write_trace(const RunFiles& files, const RunOptions& options, const FinishedRun& run) {
  if (files.trace.empty()) return;
  const TraceHeader header = {.run_id = hex64(run.report.trace_digest),
                              .backend = run.backend,
                              .scenario = "run_ranks",
                              .n_ranks = options.ranks,
                              .exact = options.exact,
                              .watched = true,
                              .coverage = options.coverage,
                              .library = "lockstep"};
  demand(write_jsonl(run.trace, header, files.trace, false));
}

}  // namespace lockstep::detail
