// The scoreboard of `lockstep zoo`: each scenario against what it expects, as rows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/harness/cli/judge.h"
#include "lockstep/laws/finding.h"
#include "lockstep/laws/run_outcome.h"

namespace lockstep::cli {

/// What a variant is for.
enum class ZooKind : std::uint8_t {
  kBuggy,      ///< Expects findings, advice, a hang or an error.
  kFixed,      ///< The same job without its bug: variants `fixed...` and `control...`.
  kLookAlike,  ///< Anything else that is to be quiet.
};
std::string_view name_of(ZooKind kind);  ///< "buggy", "fixed", "look-alike"

enum class ZooVerdict : std::uint8_t {
  kCaught,      ///< Buggy, and everything expected came.
  kQuiet,       ///< Healthy, and nothing came.
  kMiss,        ///< Something expected did not come.
  kFalseAlarm,  ///< A law fired that was to be quiet.
  kDiffers,     ///< Values, samples, a metric, restarts or the final state are others.
};
std::string_view name_of(ZooVerdict verdict);  ///< "caught", ..., "false alarm", "differs"

struct ZooRow {
  std::string bug;       ///< "bypass-wrapper": of `origin`, else the file's name.
  std::string scenario;  ///< "zoo/bypass_wrapper.toml": below the folder of scenarios.
  std::string variant;   ///< "" = base.
  ZooKind kind = ZooKind::kBuggy;
  ZooVerdict verdict = ZooVerdict::kDiffers;
  RunOutcome outcome = RunOutcome::kOk;           ///< Of the run.
  RunOutcome expected_outcome = RunOutcome::kOk;  ///< The same, as the scenario has it.
  std::vector<std::string> expected;              ///< Laws that must fire.
  std::vector<Finding> fired;                     ///< The first finding of each law that fired.
  std::vector<std::string> advice;                ///< "A-straggler": what the laws advise.
  std::vector<std::string> held;                  ///< Laws that checked something and hold.
  std::string torch_detail;  ///< Buggy rows: what PyTorch's DETAIL mode did; "" = not run.
  std::vector<std::string> complaints;
};

/// Runs the scenario and compares. `folder` is what its path is shown relative to.
ZooRow zoo_row(const Scenario& scenario, const std::string& folder);

/// Rows of one bug stand together: bugs by name, buggy before fixed before look-alike.
void sort_rows(std::vector<ZooRow>& rows);

std::int64_t count(const std::vector<ZooRow>& rows, ZooVerdict verdict);
/// For a terminal.
std::string render_zoo_text(const std::vector<ZooRow>& rows);
/// docs/report_format.md.
std::string render_zoo_json(const std::vector<ZooRow>& rows);

}  // namespace lockstep::cli
