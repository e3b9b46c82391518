// The scoreboard of `lockstep zoo`: each scenario against what it expects, as rows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/enum_names.h"
#include "lockstep/harness/cli/commands.h"
#include "lockstep/harness/cli/judge.h"
#include "lockstep/harness/explore/parts/part_file.h"
#include "lockstep/laws/run_outcome.h"

namespace lockstep {
class JsonText;
}  // namespace lockstep

namespace lockstep::cli {

/// What a variant is for.
enum class ZooKind : std::uint8_t {
  kBuggy,      ///< Expects findings, advice, a hang or an error.
  kFixed,      ///< The same job without its bug: variants `fixed...` and `control...`.
  kLookAlike,  ///< Anything else that is to be quiet.
};

enum class ZooVerdict : std::uint8_t {
  kCaught,      ///< Buggy, and everything expected came.
  kQuiet,       ///< Healthy, and nothing came.
  kMiss,        ///< Something expected did not come.
  kFalseAlarm,  ///< A law fired that was to be quiet.
  kDiffers,     ///< Values, samples, a metric, restarts or the final state are others.
};

}  // namespace lockstep::cli

namespace lockstep {

template <>
inline constexpr EnumNames<3> kEnumNames<cli::ZooKind> = {"buggy", "fixed", "look-alike"};
template <>
inline constexpr EnumNames<5> kEnumNames<cli::ZooVerdict> = {
    "caught", "quiet", "miss", "false alarm", "differs"};

}  // namespace lockstep

namespace lockstep::cli {

/// The first finding of a law that fired.
struct ZooFinding {
  std::string law;
  std::optional<std::int64_t> step;
  std::optional<std::int64_t> seq;
  std::string tensor;
  std::string sentence;
};

struct ZooRow {
  std::string bug;       ///< "bypass-wrapper": of `origin`, else the file's name.
  std::string scenario;  ///< "zoo/bypass_wrapper.toml": below the folder of scenarios.
  std::string variant;   ///< "" = base.
  ZooKind kind = ZooKind::kBuggy;
  ZooVerdict verdict = ZooVerdict::kDiffers;
  RunOutcome outcome = RunOutcome::kOk;           ///< Of the run.
  RunOutcome expected_outcome = RunOutcome::kOk;  ///< The same, as the scenario has it.
  std::vector<std::string> expected;              ///< Laws that must fire.
  std::vector<ZooFinding> fired;                  ///< One of each law that fired.
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
/// One of its rows.
void write_row(JsonText& out, const ZooRow& row);

/// Prints the rows, in any order. Returns: kOk if every expectation was met.
ExitCode report_zoo(std::vector<ZooRow> rows, bool json, Terminal& terminal);

/// Runs a shard of the scenarios and writes its part. `folder`: as of zoo_row.
ExitCode zoo_shard(const ZooArguments& arguments,
                   const std::vector<Scenario>& scenarios,
                   const std::string& folder,
                   Terminal& terminal);

/// Parts of `zoo`, as if one process had run all scenarios. Requires: parts of one run, all of them.
ExitCode merge_zoo(const std::vector<explore::Part>& parts,
                   const MergeArguments& arguments,
                   Terminal& terminal);

}  // namespace lockstep::cli
