#include "lockstep/harness/explore/jobs/random_jobs.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "lockstep/base/check.h"
#include "lockstep/harness/explore/search/crew.h"
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

std::string complaint_about(const Scenario& scenario, sim::WarmSession& warm) {
  const Result<ScenarioResult> run = warm.lend([&](sim::Session& session) {
    RunChoices how;
    how.session = &session;
    return run_scenario(scenario, how);
  });
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

/// Looks for the simplest job of which the same law complains.
void simplify(FalseAlarm& alarm) {
  const std::string kind = kind_of(alarm.complaint);
  sim::WarmSession warm;
  alarm.sketch = simplest(alarm.sketch, [&](const JobSketch& candidate) {
    ++alarm.n_tries;
    return kind_of(complaint_about(candidate, alarm.how, warm)) == kind;
  });
}

Result<Scenario> job_of(const RandomJobsOptions& options, std::uint64_t index) {
  return scenario_of(draw_job(options.seed, index), inspection_of(options, index));
}

/// Counts the jobs that can have the settings, and those that were looked at thoroughly.
void count_jobs(const RandomJobsOptions& options, RandomJobsResult& result) {
  if (options.settings.empty()) {
    result.n_jobs = options.n_jobs;
    if (const std::uint64_t every = options.thorough_every; every > 0) {
      const auto below = [every](std::uint64_t n) { return (n + every - 1) / every; };
      result.n_thorough = below(options.first + options.n_jobs) - below(options.first);
    }
    return;
  }
  for (std::uint64_t i = 0; i < options.n_jobs; ++i) {
    if (!job_of(options, options.first + i).ok()) continue;
    ++result.n_jobs;
    if (inspection_of(options, options.first + i).thorough) ++result.n_thorough;
  }
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

std::string complaint_about(const JobSketch& sketch,
                            const Inspection& how,
                            sim::WarmSession& warm) {
  return complaint_of([&]() -> std::string {
    const Result<Scenario> scenario = scenario_of(sketch, how);
    if (!scenario.ok()) return how.settings.empty() ? "reader: " + scenario.error().text() : "";
    return complaint_about(scenario.value(), warm);
  });
}

std::string complaint_about(const JobSketch& sketch, const Inspection& how) {
  sim::WarmSession cold;
  return complaint_about(sketch, how, cold);
}

std::string complaint_about_file(const std::string& path) {
  sim::WarmSession cold;
  return complaint_of([&]() -> std::string {
    const Result<Scenario> scenario = load_scenario(path, "", {});
    if (!scenario.ok()) return "reader: " + scenario.error().text();
    return complaint_about(scenario.value(), cold);
  });
}

Inspection inspection_of(const RandomJobsOptions& options, std::uint64_t index) {
  return {options.thorough_every > 0 && index % options.thorough_every == 0, options.settings};
}

std::vector<JobComplaint> complaints_of(const RandomJobsOptions& options,
                                        const explore::Shard& shard) {
  std::vector<JobComplaint> found;
  const std::uint64_t n_all =
      options.n_jobs <= shard.next(0) ? 0 : (options.n_jobs - shard.next(0) - 1) / shard.count + 1;
  std::uint64_t n_done = 0;
  std::vector<std::string> complaints;
  const auto index_of = [&](std::size_t i) {
    return options.first + shard.next(0) + (n_done + i) * shard.count;
  };
  explore::Crew crew(options.n_threads, [&]() -> explore::Work {
    return [&, warm = std::make_shared<sim::WarmSession>()](std::size_t i) {
      const std::uint64_t index = index_of(i);
      const JobSketch job = draw_job(options.seed, index);
      complaints[i] = complaint_about(job, inspection_of(options, index), *warm);
    };
  });
  while (n_done < n_all) {
    complaints.assign(std::min(kJobsAtOnce, n_all - n_done), {});
    crew.run(complaints.size());
    for (std::size_t i = 0; i < complaints.size(); ++i) {
      if (!complaints[i].empty()) found.push_back({index_of(i), std::move(complaints[i])});
    }
    n_done += complaints.size();
    if (options.progress) options.progress(n_done, n_all);
  }
  return found;
}

Outcome check_settings(const RandomJobsOptions& options) {
  std::optional<Error> first;
  for (std::uint64_t i = 0; i < options.n_jobs; ++i) {
    const Result<Scenario> scenario = job_of(options, options.first + i);
    if (scenario.ok()) return success();
    if (!first) first = scenario.error();
  }
  return first ? Outcome(*first) : success();
}

RandomJobsResult alarms_of(const RandomJobsOptions& options,
                           const std::vector<JobComplaint>& complaints) {
  RandomJobsResult result;
  count_jobs(options, result);
  for (const JobComplaint& complaint : complaints) {
    const std::uint64_t index = complaint.index;
    result.false_alarms.push_back(
        {index, inspection_of(options, index), complaint.text, draw_job(options.seed, index), 0});
    if (result.false_alarms.size() <= options.n_simplified) simplify(result.false_alarms.back());
  }
  return result;
}

RandomJobsResult try_random_jobs(const RandomJobsOptions& options) {
  return alarms_of(options, complaints_of(options));
}

}  // namespace lockstep
