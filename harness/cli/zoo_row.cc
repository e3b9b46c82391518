#include <algorithm>
#include <filesystem>
#include <tuple>

#include "lockstep/base/text.h"
#include "lockstep/harness/cli/zoo.h"
#include "lockstep/harness/run/expect.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

bool begins_with(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

/// "zoo:bypass-wrapper" among the origins; without one the name of the file.
std::string bug_of(const Scenario& scenario) {
  constexpr std::string_view kPrefix = "zoo:";
  for (const std::string& origin : scenario.origin) {
    if (begins_with(origin, kPrefix)) return origin.substr(kPrefix.size());
  }
  std::string name = fs::path(scenario.path).stem().string();
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

ZooKind kind_of_variant(const Scenario& scenario) {
  const Expectation& expect = scenario.expect;
  const bool advises = expect.advice && !expect.advice->empty();
  if (expect.outcome != RunOutcome::kOk || !expect.fires.empty() || advises) return ZooKind::kBuggy;
  const bool repaired =
      begins_with(scenario.variant, "fixed") || begins_with(scenario.variant, "control");
  return repaired ? ZooKind::kFixed : ZooKind::kLookAlike;
}

ZooVerdict verdict_of(ZooKind kind, const std::vector<UnmetExpectation>& unmet) {
  const auto any = [&](UnmetKind wanted) {
    return std::any_of(unmet.begin(), unmet.end(), [&](const UnmetExpectation& each) {
      return each.kind == wanted;
    });
  };
  if (any(UnmetKind::kMissed)) return ZooVerdict::kMiss;
  if (any(UnmetKind::kUnexpected)) return ZooVerdict::kFalseAlarm;
  if (!unmet.empty()) return ZooVerdict::kDiffers;
  return kind == ZooKind::kBuggy ? ZooVerdict::kCaught : ZooVerdict::kQuiet;
}

void note_laws(const Report& report, ZooRow& row) {
  for (const LawResult& law : report.laws) {
    if (!law.findings.empty()) {
      const Finding& first = law.findings.front();
      row.fired.push_back({first.law, first.step, first.seq, first.tensor, sentence(first)});
    }
    if (law.verdict == Verdict::kHolds) row.held.push_back(law.law);
    for (const Advice& advice : law.advice) row.advice.push_back(advice.id);
  }
}

}  // namespace

ZooRow zoo_row(const Scenario& scenario, const std::string& folder) {
  const Judged judged = judge(scenario);
  ZooRow row;
  row.bug = bug_of(scenario);
  row.scenario = fs::path(scenario.path).lexically_relative(folder).generic_string();
  row.variant = scenario.variant;
  row.kind = kind_of_variant(scenario);
  row.verdict = verdict_of(row.kind, judged.unmet);
  row.outcome = judged.result.report.outcome;
  row.expected_outcome = scenario.expect.outcome;
  for (const ExpectedFinding& wanted : scenario.expect.fires) {
    const bool known =
        std::find(row.expected.begin(), row.expected.end(), wanted.law) != row.expected.end();
    if (!known) row.expected.push_back(wanted.law);
  }
  note_laws(judged.result.report, row);
  if (row.kind == ZooKind::kBuggy) row.torch_detail = scenario.torch_detail;
  row.complaints.reserve(judged.unmet.size());
  for (const UnmetExpectation& complaint : judged.unmet) row.complaints.push_back(complaint.text);
  return row;
}

void sort_rows(std::vector<ZooRow>& rows) {
  // Stable: variants of one kind stay in the order of their file.
  std::stable_sort(rows.begin(), rows.end(), [](const ZooRow& left, const ZooRow& right) {
    return std::tie(left.bug, left.kind, left.scenario) <
           std::tie(right.bug, right.kind, right.scenario);
  });
}

std::int64_t count(const std::vector<ZooRow>& rows, ZooVerdict verdict) {
  return std::count_if(
      rows.begin(), rows.end(), [&](const ZooRow& row) { return row.verdict == verdict; });
}

}  // namespace lockstep::cli
