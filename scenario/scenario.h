// A scenario file as a value: a job or raw programs, what breaks it, what must be found, its twins.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/laws/trace_check.h"
#include "lockstep/sim/session/session.h"
#include "lockstep/train/rank_program.h"

namespace lockstep {

/// Ranks a rule applies to: all, or a list.
struct RankSet {
  bool all = true;
  std::vector<std::int32_t> ranks;
  bool contains(std::int32_t rank) const;
};

/// Where in the loop a bug strikes.
struct BugPlace {
  std::optional<std::int64_t> step;   ///< Absent: every time.
  std::optional<std::int64_t> micro;  ///< Of a forward or backward. Absent: each of the step.
  std::string event =
      "step";  ///< "wrap" | "epoch" | "forward" | "backward" | "step" | "eval" | "end"
  bool after = true;
};

/// A bug as declared; scenario/bugs/ turns it into a LoopHook.
struct BugSpec {
  std::string kind;
  RankSet ranks;
  std::string tensor;  ///< A parameter or buffer; empty = all of them, where that makes sense.
  std::string part = "value";  ///< "value" | "grad": which side of the tensor a write hits.
  std::optional<std::int64_t> element;  ///< One element instead of all.
  std::int64_t bit = 0;                 ///< flip-bit: 0 = the lowest.
  double value = 0.0;
  double factor = 1.0;
  std::string op;       ///< extra-collective: "barrier" | "all_reduce"
  std::string site;     ///< extra-collective: "save.py:12"
  std::string message;  ///< throw
  BugPlace at;
  std::string where;  ///< file:line:column of the declaration.
};

/// One operation of a raw program (docs/scenario_format.md, "Programs").
struct RawOp {
  std::string op;
  std::string tensor;
  std::string reduce = "sum";
  std::string group;
  std::string work;  ///< `async = "w"` names the work, `wait` refers to it.
  std::string name;
  std::string site;  ///< "save.py:12"
  std::int32_t root = 0;
  std::int32_t peer = 0;
  std::int32_t tag = 0;
  std::int64_t number = 0;  ///< compute: ns; decision: value
  double value = 0.0;       ///< write
  std::vector<double> equals;
  std::vector<RawOp> body;  ///< repeat
  std::int64_t times = 1;
  std::vector<std::int32_t> ranks;  ///< group
  std::string where;
};

struct RawTensor {
  std::string view;         ///< A part of this tensor's memory, or empty: memory of its own.
  std::int64_t offset = 0;  ///< Of a view, in elements.
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::optional<double> fill;  ///< Absent: "rank+1".
  std::vector<double> values;
  std::vector<std::vector<double>> by_rank;
};

struct RawProgram {
  RankSet ranks;
  std::vector<RawOp> body;
};

/// One expected finding. Absent fields match anything.
struct ExpectedFinding {
  std::string law;
  std::optional<std::int64_t> step;
  std::optional<std::int64_t> seq;
  std::string tensor, field, site, cause, where;
  std::optional<std::vector<std::int32_t>> ranks, missing;
  std::vector<double> weights, declared;
};

struct ExpectedValue {
  std::optional<std::int64_t> step;
  std::string event;  ///< "grad.post", "step", "wrap", ...
  std::string tensor;
  std::vector<double> equals;
  std::vector<std::vector<double>> by_rank;
  std::string where;
};

/// The rows one rank consumed in one optimizer step, in order.
struct ExpectedSamples {
  std::int32_t rank = 0;
  std::int64_t step = 0;
  std::vector<std::int64_t> ids;
  std::string where;
};

struct Expectation {
  std::string outcome = "ok";  ///< "ok" | "findings" | "hang" | "error"
  std::vector<ExpectedFinding> fires;
  /// Laws that must look at the run, too. Whatever `fires` does not name is to be quiet anyway.
  std::vector<std::string> quiet;
  /// "A-straggler": just what laws must advise, reports on their own coverage aside. Absent:
  /// anything.
  std::optional<std::vector<std::string>> advice;
  std::vector<ExpectedValue> values;
  std::vector<ExpectedSamples> samples;
  std::string error;  ///< Substring of the error.

  struct Metric {
    std::string name;
    std::optional<double> min, max, equals, denominator;
  };

  std::optional<Metric> metric;
  std::optional<std::int64_t> restarts;
  std::optional<std::string> final_state;  ///< A variant ("" = base) that ends with the same bits.
};

/// One variant of a file, fully merged and validated.
struct Scenario {
  std::string path, title, variant;  ///< variant "" = the file's base.
  std::vector<std::string> origin;
  std::string torch_detail;  ///< What PyTorch's DETAIL mode did with this bug, empty = not run.
  std::string compat = "2.7";
  std::int32_t n_ranks = 1;
  std::uint64_t seed = 0;
  sim::SessionOptions session;
  /// By rank, because overrides may differ; equal ones share one job.
  std::vector<std::shared_ptr<const Job>> jobs;
  std::vector<BugSpec> bugs;
  std::map<std::string, RawTensor> tensors;
  std::map<std::string, std::vector<std::vector<std::int32_t>>> groups;
  std::vector<RawProgram> programs;  ///< Not empty: raw programs instead of jobs.
  Expectation expect;
  /// Strategies that law deterministic compares with beside its own, where it is checked.
  std::vector<std::string> also;
  std::string digest;  ///< Of the file's text, for traces and reproductions.
};

/// The table `replay` of a reproduction: a scenario file that also says how its run was made and
/// what it must show again.
struct Replay {
  std::string variant;
  std::optional<std::uint64_t> schedule_seed;
  std::string schedule;  ///< The strategy instead of the file's: a schedule or a name; or empty.
  std::string folder;    ///< Where the original lay: its data files are relative to it.
  std::string scenario;  ///< The original's name there, in what `lockstep explore` keeps; or empty.
  std::vector<std::string> settings;  ///< "key=value", as given to --set.
  std::uint64_t trace_digest = 0;
  std::uint64_t result_digest = 0;
};

/// Changes applied from the command line before validation: `--set key=value`.
struct Setting {
  std::string key;
  std::string value;  ///< TOML syntax, or a bare word taken as a string.
};

/// Reads one variant ("" = base). Errors: where = "file:line:column", message with a suggestion.
Result<Scenario> load_scenario(const std::string& path,
                               const std::string& variant,
                               const std::vector<Setting>& settings);
/// The base of a scenario file with this text; `path` is what messages call it and where data lie.
Result<Scenario> read_scenario_text(const std::string& text, const std::string& path);
/// Names of the variants, base ("") first, in file order.
Result<std::vector<std::string>> list_variants(const std::string& path);

/// "key=value" in two parts. Errors: no equals sign, or nothing before it.
Result<Setting> parse_setting(const std::string& text);

/// The table `replay` of a reproduction file. Errors: those of load_scenario; a file without the
/// table.
Result<Replay> load_replay(const std::string& path);
/// `text`, a scenario file, with a table `replay` behind it.
std::string with_replay(std::string text, const Replay& replay);
/// The text of the scenario file at `path` with a table `replay` behind it.
Result<std::string> render_reproduction(const std::string& path, const Replay& replay);

/// What running a scenario gives.
struct ScenarioResult {
  Report report;
  sim::SessionResult session;
  std::vector<RankOutcomeValues> ranks;
  double seconds = 0.0;  ///< Filled by the command line, not by the run.
};

struct RunChoices {
  std::optional<std::uint64_t> schedule_seed;  ///< Also selects the random strategy.
  std::string schedule;               ///< Not empty: this strategy, whatever the scenario says.
  sim::Strategy* strategy = nullptr;  ///< Not null: picks in this run, whatever the others say.
  /// Not 0: no more scheduling points without an event than these, if the scenario allows more.
  std::uint64_t livelock_points = 0;
  bool values = false;
  std::size_t address_shift = 0;
};

/// Runs it, companion runs of relation laws included.
Result<ScenarioResult> run_scenario(const Scenario& scenario, const RunChoices& choices);

/// What rank `context.rank()` does in it, on any backend. `more` acts behind the scenario's own
/// bugs.
RankOutcomeValues run_rank(const Scenario& scenario,
                           RankContext& context,
                           LoopHook* more = nullptr);

/// How much of rank 0's step values the relation laws want recorded, 0 = nothing.
std::int64_t step_value_bytes(const Scenario& scenario);

/// The report of a run of the scenario whose events are in `loaded`: all laws, as run_scenario.
Result<ScenarioResult> judge_scenario(const Scenario& scenario, const LoadedTrace& loaded);

/// The values `rank` recorded at the place of `asked`; null when there are none. The first ones
/// when it names no step. Valid as long as the result.
const ValueEvent* recorded_value(const ScenarioResult& result,
                                 const ExpectedValue& asked,
                                 Rank rank);

/// How an expectation was not met.
enum class UnmetKind : std::uint8_t {
  kMissed,      ///< A finding, hang or error that was expected did not come.
  kUnexpected,  ///< A law fired, or the run failed, although all was to be quiet.
  kDiffers,     ///< Values, samples, a metric, restarts or the final state are others.
};

/// One expectation that was not met.
struct Unmet {
  std::string text;  ///< For a reader, with the place of the expectation where it has one.
  UnmetKind kind = UnmetKind::kDiffers;
};

/// What differs between what happened and what the scenario expects; empty = it met its
/// expectations.
std::vector<Unmet> unmet(const Scenario& scenario, const ScenarioResult& result);

}  // namespace lockstep
