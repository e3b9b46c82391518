#include "lockstep/laws/finish_report.h"

#include <algorithm>
#include <string_view>

namespace lockstep {

namespace {

RunOutcome outcome_of(const Report& report) {
  if (report.stuck) return RunOutcome::kHang;
  if (report.own_failure) return RunOutcome::kError;
  if (report.n_findings() > 0) return RunOutcome::kFindings;
  return report.error.empty() ? RunOutcome::kOk : RunOutcome::kError;
}

bool breaks_a_law_about_replicas(const Report& report) {
  constexpr std::string_view kReplicaLaws[] = {
      "init-equal", "replicas-equal", "optimizer-equal", "buffers-policy"};
  return std::any_of(report.laws.begin(), report.laws.end(), [&](const LawResult& law) {
    return law.verdict == Verdict::kBroken &&
           std::find(std::begin(kReplicaLaws), std::end(kReplicaLaws), law.law) !=
               std::end(kReplicaLaws);
  });
}

}  // namespace

void finish_report(Report& report, const ReportFinish& finish) {
  if (!finish.title.empty()) report.title = finish.title;
  if (!finish.replay.empty()) report.replay = finish.replay;
  report.outcome = outcome_of(report);
  if (finish.first_divergence && breaks_a_law_about_replicas(report)) {
    report.first_divergence = finish.first_divergence();
  }
}

}  // namespace lockstep
