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
  std::string event = "step";         ///< "wrap" | "epoch" | "forward" | "backward" | "step" | "eval" | "end"
  bool after = true;
};

/// A bug as declared; scenario/bugs/ turns it into a LoopHook.
struct BugSpec {
  std::string kind;
  RankSet ranks;
  std::string tensor;
  double value = 0.0;
  BugPlace at;
  std::string where;                  ///< file:line:column of the declaration.
};

/// One operation of a raw program (docs/scenario_format.md, "Programs").
struct RawOp {
  std::string op;
  std::string tensor;
  std::string reduce = "sum";
  std::string group;
  std::string work;                   ///< `async = "w"` names the work, `wait` refers to it.
  std::string name;
  std::string site;                   ///< "save.py:12"
  std::int32_t root = 0;
  std::int32_t peer = 0;
  std::int32_t tag = 0;
  std::int64_t number = 0;            ///< compute: ns; decision: value
  std::vector<double> equals;
  std::vector<RawOp> body;            ///< repeat
  std::int64_t times = 1;
  std::vector<std::int32_t> ranks;    ///< group
  std::string where;
};
struct RawTensor {
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::optional<double> fill;         ///< Absent: "rank+1".
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
  std::string tensor, field, site, cause;
  std::optional<std::vector<std::int32_t>> ranks, missing;
  std::vector<double> weights, declared;
};
struct ExpectedValue {
  std::optional<std::int64_t> step;
  std::string event;                  ///< "grad.post", "step", "wrap", ...
  std::string tensor;
  std::vector<double> equals;
  std::vector<std::vector<double>> by_rank;
};
struct Expectation {
  std::string outcome = "ok";         ///< "ok" | "findings" | "hang" | "error"
  std::vector<ExpectedFinding> fires;
  bool quiet_rest = true;             ///< quiet = "all" | "rest": nothing else may fire.
  std::vector<std::string> quiet;     ///< Or just these laws.
  std::vector<ExpectedValue> values;
  std::string error;                  ///< Substring of the error.
  struct Metric {
    std::string name;
    std::optional<double> min, max;
  };
  std::optional<Metric> metric;
};

/// One variant of a file, fully merged and validated.
struct Scenario {
  std::string path, title, variant;   ///< variant "" = the file's base.
  std::vector<std::string> origin;
  std::string compat = "2.7";
  std::int32_t n_ranks = 1;
  std::uint64_t seed = 0;
  sim::SessionOptions session;
  /// By rank, because overrides may differ; equal ones share one job.
  std::vector<std::shared_ptr<const Job>> jobs;
  std::vector<BugSpec> bugs;
  std::map<std::string, RawTensor> tensors;
  std::map<std::string, std::vector<std::vector<std::int32_t>>> groups;
  std::vector<RawProgram> programs;   ///< Not empty: raw programs instead of jobs.
  Expectation expect;
};

/// Changes applied from the command line before validation: `--set key=value`.
struct Setting {
  std::string key;
  std::string value;                  ///< TOML syntax, or a bare word taken as a string.
};

/// Reads one variant ("" = base). Errors: where = "file:line:column", message with a suggestion.
Result<Scenario> load_scenario(const std::string& path, const std::string& variant,
                               const std::vector<Setting>& settings);
/// Names of the variants, base ("") first, in file order.
Result<std::vector<std::string>> list_variants(const std::string& path);

/// What running a scenario gives.
struct ScenarioResult {
  Report report;
  sim::SessionResult session;
  std::vector<RankOutcomeValues> ranks;
  double seconds = 0.0;               ///< Filled by the command line, not by the run.
};
struct RunChoices {
  std::optional<std::uint64_t> schedule_seed;   ///< Also selects the random strategy.
  std::vector<sim::ActionId> schedule;
  bool values = false;
  std::size_t address_shift = 0;
};
/// Runs it, companion runs of relation laws included.
Result<ScenarioResult> run_scenario(const Scenario& scenario, const RunChoices& choices);

/// What differs between what happened and what the scenario expects; empty = it met its expectations.
std::vector<std::string> unmet(const Scenario& scenario, const ScenarioResult& result);

}  // namespace lockstep
