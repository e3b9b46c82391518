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
#include "lockstep/harness/scenario/bug_spec.h"
#include "lockstep/laws/trace_check.h"
#include "lockstep/sim/session/session.h"
#include "lockstep/train/rank_program.h"

namespace lockstep {

/// What an operation of a raw program does.
enum class RawOpKind : std::uint8_t {
  kAllReduce,
  kBroadcast,
  kReduce,
  kAllGather,
  kGather,
  kScatter,
  kReduceScatter,
  kAllToAll,
  kBarrier,
  kSend,
  kRecv,
  kWait,
  kRead,
  kWrite,
  kCompute,
  kDecision,
  kGroup,
  kRepeat,
  kExpect,
  kThrow,
  kExit,
  kLog,
};
template <>
inline constexpr EnumNames<22> kEnumNames<RawOpKind> = {
    "all_reduce",     "broadcast",  "reduce",  "all_gather", "gather", "scatter",
    "reduce_scatter", "all_to_all", "barrier", "send",       "recv",   "wait",
    "read",           "write",      "compute", "decision",   "group",  "repeat",
    "expect",         "throw",      "exit",    "log"};

/// One operation of a raw program (docs/scenario_format.md, "Programs").
struct RawOp {
  RawOpKind op = RawOpKind::kBarrier;
  std::string tensor;
  ReduceOp reduce = ReduceOp::kSum;
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

/// Memory that a raw program names.
struct RawTensor {
  std::string view;         ///< A part of this tensor's memory, or empty: its own memory.
  std::int64_t offset = 0;  ///< Of a view, in elements.
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::optional<double> fill;  ///< Absent: "rank+1".
  std::vector<double> values;
  std::vector<std::vector<double>> by_rank;
};

/// What some ranks of a raw scenario do, operation by operation.
struct RawProgram {
  RankSet ranks;
  std::vector<RawOp> body;
};

/// One expected finding. Absent fields match anything.
struct ExpectedFinding {
  std::string law;
  std::optional<std::int64_t> step;
  std::optional<std::int64_t> seq;
  std::string tensor, field, site, where;
  Cause cause = Cause::kNone;
  std::optional<std::vector<std::int32_t>> ranks, missing;
  std::vector<double> weights, declared;
};

/// Numbers that a tensor has at a place of the trace. Absent fields match anything.
struct ExpectedValue {
  std::optional<std::int64_t> step;
  ValuePoint event = ValuePoint::kStep;
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

/// What a run of the scenario must come to.
struct Expectation {
  RunOutcome outcome = RunOutcome::kOk;
  std::vector<ExpectedFinding> fires;
  /// Laws that must check the run, too. Laws that `fires` does not name must be quiet anyway.
  std::vector<std::string> quiet;
  /// "A-straggler": just what laws must advise, reports on their own coverage aside. Absent:
  /// anything.
  std::optional<std::vector<std::string>> advice;
  std::vector<ExpectedValue> values;
  std::vector<ExpectedSamples> samples;
  std::string error;  ///< Substring of the error.

  /// A reported number, and what it may be.
  struct Metric {
    std::string name;
    std::optional<double> min, max, equals, denominator;
  };

  std::optional<Metric> metric;
  std::optional<std::int64_t> restarts;
  std::optional<std::string> final_state;  ///< A variant ("" = base) that ends with the same bits.
};

/// Something that a campaign of runs should reach: all that is given, in one run.
struct MarkSpec {
  std::string name;
  std::optional<sim::Occasion> event;               ///< A rank records one of these ...
  std::string text;                                 ///< ... with this in its line of the trace ...
  std::optional<std::int64_t> rank, step, attempt;  ///< ... there.
  std::string law;                                  ///< A law is broken; empty: whatever they say.
  std::optional<RunOutcome> outcome;
  std::string where;  ///< file:line:column of the declaration.
};

/// One variant of a file, fully merged and validated.
struct Scenario {
  std::string path, title, variant;  ///< variant "" = the file's base.
  std::string command;  ///< What runs it: "lockstep run FILE --variant NAME --set 'key=value'".
  std::vector<std::string> origin;
  std::string torch_detail;  ///< What PyTorch's DETAIL mode did with this bug, empty = not run.
  Compat compat = Compat::kTorch2;
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
  std::vector<MarkSpec> marks;
  /// Strategies that law deterministic compares with besides its own, if it is checked.
  std::vector<std::string> also;
  std::string digest;  ///< Of the file's text, for traces and reproductions.
};

}  // namespace lockstep
