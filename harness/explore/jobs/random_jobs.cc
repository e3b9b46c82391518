#include "lockstep/harness/explore/jobs/random_jobs.h"

#include <algorithm>

#include "lockstep/base/check.h"
#include "lockstep/harness/explore/search/in_parallel.h"
#include "lockstep/harness/format/load.h"
#include "lockstep/harness/run/run_scenario.h"

namespace lockstep {

namespace {

/// Jobs that are started together.
constexpr std::uint64_t kJobsAtOnce = 256;

constexpr const char* kNoReason = "error";
constexpr const char* kFile = "random_job.toml";

/// The law that complains, or "error": what stays the same while a job gets simpler.
std::string kind_of(const std::string& complaint) {
  return complaint.substr(0, complaint.find(':'));
}

std::string first_complaint(const Report& report) {
  if (report.outcome == RunOutcome::kError) return std::string(kNoReason) + ": " + report.error;
  for (const LawResult& law : report.laws) {
    if (!law.findings.empty()) return law.law + ": " + sentence(law.findings.front());
  }
  return report.ok() ? std::string()
                     : std::string(name_of(report.outcome)) + ": " + report.wait_for_graph;
}

std::string complaint_about(const Scenario& scenario) {
  const Result<ScenarioResult> run = run_scenario(scenario, {});
  if (!run.ok()) return "run: " + run.error().text();
  return first_complaint(run.value().report);
}

/// What Lockstep fails on is a complaint, too.
template <typename Look>
std::string complaint_of(Look look) {
  try {
    return look();
  } catch (const ContractViolation& stumble) {
    return std::string("contract: ") + stumble.what();
  }
}

Inspection inspection_of(const RandomJobsOptions& options, std::uint64_t index) {
  return {options.thorough_every > 0 && index % options.thorough_every == 0, options.settings};
}

/// Looks for the simplest job of which the same law complains.
void simplify(FalseAlarm& alarm) {
  const std::string kind = kind_of(alarm.complaint);
  alarm.sketch = simplest(alarm.sketch, [&](const JobSketch& candidate) {
    ++alarm.n_tries;
    return kind_of(complaint_about(candidate, alarm.how)) == kind;
  });
}

}  // namespace

Result<TomlNode> document_of(const JobSketch& sketch, const Inspection& how) {
  Result<TomlNode> document = parse_toml(to_toml(sketch, how.thorough), kFile);
  if (!document.ok()) return document;
  for (const Setting& setting : how.settings) {
    const Outcome set =
        set_at(document.value(), setting.key, setting_value(setting.key, setting.value));
    if (!set.ok()) return set.error();
  }
  return document;
}

Result<Scenario> scenario_of(const JobSketch& sketch, const Inspection& how) {
  const Result<TomlNode> document = document_of(sketch, how);
  if (!document.ok()) return document.error();
  return scenario_of(document.value(), kFile);
}

std::string complaint_about(const JobSketch& sketch, const Inspection& how) {
  return complaint_of([&]() -> std::string {
    const Result<Scenario> scenario = scenario_of(sketch, how);
    if (!scenario.ok()) return how.settings.empty() ? "reader: " + scenario.error().text() : "";
    return complaint_about(scenario.value());
  });
}

std::string complaint_about_file(const std::string& path) {
  return complaint_of([&]() -> std::string {
    const Result<Scenario> scenario = load_scenario(path, "", {});
    if (!scenario.ok()) return "reader: " + scenario.error().text();
    return complaint_about(scenario.value());
  });
}

RandomJobsResult try_random_jobs(const RandomJobsOptions& options) {
  RandomJobsResult result;
  while (result.n_jobs < options.n_jobs) {
    const std::uint64_t first = options.first + result.n_jobs;
    std::vector<std::string> complaints(std::min(kJobsAtOnce, options.n_jobs - result.n_jobs));
    explore::in_parallel(complaints.size(), options.n_threads, [&](std::size_t i) {
      const std::uint64_t index = first + i;
      complaints[i] = complaint_about(draw_job(options.seed, index), inspection_of(options, index));
    });
    for (std::size_t i = 0; i < complaints.size(); ++i) {
      const std::uint64_t index = first + i;
      const Inspection how = inspection_of(options, index);
      result.n_thorough += how.thorough ? 1 : 0;
      if (complaints[i].empty()) continue;
      result.false_alarms.push_back({index, how, complaints[i], draw_job(options.seed, index), 0});
      if (result.false_alarms.size() <= options.n_simplified) simplify(result.false_alarms.back());
    }
    result.n_jobs += complaints.size();
    if (options.progress) options.progress(result.n_jobs, options.n_jobs);
  }
  return result;
}

}  // namespace lockstep
