#include "lockstep/explore/jobs/random_jobs.h"

namespace lockstep {

namespace {

constexpr const char* kNoReason = "error";

/// The law that complains, or "error": what stays the same while a job gets simpler.
std::string kind_of(const std::string& complaint) {
  return complaint.substr(0, complaint.find(':'));
}

std::string first_complaint(const Report& report) {
  if (report.outcome == "error") return std::string(kNoReason) + ": " + report.error;
  for (const LawResult& law : report.laws) {
    if (!law.findings.empty()) return law.law + ": " + sentence(law.findings.front());
  }
  return report.ok() ? std::string() : report.outcome + ": " + report.wait_for_graph;
}

}  // namespace

Result<Scenario> scenario_of(const JobSketch& sketch) {
  return read_scenario_text(to_toml(sketch), "random_job.toml");
}

std::string complaint_about(const JobSketch& sketch, bool thorough) {
  Result<Scenario> read = scenario_of(sketch);
  if (!read.ok()) return "reader: " + read.error().text();
  Scenario& scenario = read.value();
  if (thorough) {
    scenario.expect.quiet = {"deterministic"};
    // Other orders add up what their buckets, which a resumed job builds anew, put together; and a
    // first reduction multiplies where later ones divide views.
    const bool by_element = !sketch.view && (sketch.order == "rank" || sketch.order == "pairwise");
    if (sketch.snapshot_every > 0 && sketch.mishap != "crash" && by_element) {
      scenario.expect.quiet.emplace_back("resume-equal");
    }
  }
  const Result<ScenarioResult> run = run_scenario(scenario, {});
  if (!run.ok()) return "run: " + run.error().text();
  return first_complaint(run.value().report);
}

RandomJobsResult try_random_jobs(const RandomJobsOptions& options) {
  RandomJobsResult result;
  for (std::uint64_t i = 0; i < options.n_jobs; ++i) {
    const std::uint64_t index = options.first + i;
    const bool thorough = options.thorough_every > 0 && index % options.thorough_every == 0;
    JobSketch sketch = draw_job(options.seed, index);
    ++result.n_jobs;
    result.n_thorough += thorough ? 1 : 0;
    const std::string complaint = complaint_about(sketch, thorough);
    if (complaint.empty()) continue;
    if (options.simplify) {
      const std::string kind = kind_of(complaint);
      sketch = simplest(sketch, [&](const JobSketch& candidate) {
        return kind_of(complaint_about(candidate, thorough)) == kind;
      });
    }
    result.false_alarms.push_back({index, complaint, sketch});
  }
  return result;
}

}  // namespace lockstep
