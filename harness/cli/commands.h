// The commands of `lockstep`, one per file: what each takes and which exit code it returns.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "lockstep/real/torchrun/words.h"

namespace lockstep {
class ReportFile;
}  // namespace lockstep

namespace lockstep::cli {

/// Exit codes (docs/commands.md). Stable: scripts depend on it.
enum class ExitCode : int {
  kOk = 0,         ///< All laws hold; `test`: every expectation met; `diff`: equal.
  kFindings = 1,   ///< A law is broken, expected or not; `test`: an expectation was not met.
  kBadInput = 2,   ///< A file, an option or a word that is invalid.
  kRunFailed = 3,  ///< A real run failed: a process died, a device error.
  kInternal = 70,  ///< A bug in Lockstep.
};

/// Where a command writes.
struct Terminal {
  std::ostream& out;
  std::ostream& err;
  bool color = false;
  bool progress = false;         ///< Stderr is a terminal.
  std::ostream* line = nullptr;  ///< Stderr for a line that is written over; null: `err`.
};

struct RunArguments {
  std::string file;
  std::string variant;
  std::string backend = "sim";
  std::optional<std::uint64_t> schedule_seed;
  std::vector<std::string> settings;  ///< "key=value"
  std::string trace;                  ///< Folder, or empty.
  std::string report;                 ///< FILE, or empty (report_file.h).
  std::string repro;                  ///< FILE, or empty.
  bool values = false;
  bool twice = false;
  bool quiet = false;
  bool laws = false;            ///< Prints every law, not only how many hold.
  std::int32_t nproc = 0;       ///< Ranks instead of the scenario's, 0 = as it says.
  std::int32_t timeout_s = 60;  ///< Real ranks: of connecting and of each operation.
  bool check_arrivals = false;  ///< Real ranks: compare what arrives with what was sent.
};

ExitCode run(const RunArguments& arguments, Terminal& terminal);
/// The same with one process per rank; `backend` is not "sim".
ExitCode run_real(const RunArguments& arguments, ReportFile& file, Terminal& terminal);

/// What `run --backend` starts once per rank.
struct RankArguments {
  std::string file;
  std::string variant;
  std::vector<std::string> settings;
  std::string flip_bit;
  std::int32_t timeout_s = 60;
  bool values = false;
  bool digests_only = false;  ///< No values for laws that need them.
};

ExitCode rank(const RankArguments& arguments, Terminal& terminal);

struct CrosscheckArguments {
  std::string file;
  std::string against;
  std::string variant;
  std::vector<std::string> settings;
  std::string trace;
  std::string flip_bit;  ///< RANK:STEP:TENSOR, for tests.
  bool laws = false;     ///< Also prints what every law says about the real run.
  std::int32_t nproc = 0;
  std::int32_t timeout_s = 60;
};

ExitCode crosscheck(const CrosscheckArguments& arguments, Terminal& terminal);

struct LaunchArguments {
  torchrun::Words words;                 ///< Those that torchrun has, too.
  std::int32_t launcher_port = 0;        ///< 0: the one after the ranks' own.
  std::optional<double> join_timeout_s;  ///< Nothing: what --rdzv-conf says.
  std::string backend;
  std::string trace;
  bool check_arrivals = false;
  torchrun::Program program;
};

ExitCode launch(const LaunchArguments& arguments, Terminal& terminal);

struct TestArguments {
  std::vector<std::string> files;
  std::vector<std::string> settings;  ///< "key=value", for every variant of every file.
  std::string report;                 ///< FILE, or empty.
  bool laws = false;                  ///< Prints every law below its variant.
};

ExitCode test(const TestArguments& arguments, Terminal& terminal);

struct ZooArguments {
  std::string folder;  ///< Of scenarios, or empty: the project's own.
  bool json = false;
  std::string shard;  ///< "2/8", or empty: everything.
  std::string part;   ///< FILE for what the shard found.
};

ExitCode zoo(const ZooArguments& arguments, Terminal& terminal);

struct ExploreArguments {
  std::string file;  ///< Empty: random jobs.
  std::string variant;
  std::vector<std::string> settings;  ///< "key=value"
  std::string strategy = "random";
  std::string out = "lockstep-out";
  std::string regressions;  ///< Folder, or empty: `regressions` in `out`.
  std::uint64_t runs = 1000;
  std::uint64_t seeds = 1;
  std::uint64_t threads = 1;
  bool vary = false;
  bool json = false;
  std::optional<std::uint64_t> jobs;  ///< Without a file: random jobs to run; else as `threads`.
  std::uint64_t first = 0;            ///< The first random job,
  std::uint64_t seed = 0;             ///< of this space.
  std::uint64_t thorough_every = 16;  ///< Jobs apart, those that run several times; 0: none.
  std::string shard;                  ///< "2/8", or empty: everything.
  std::string part;                   ///< FILE for what the shard found.
};

ExitCode explore(const ExploreArguments& arguments, Terminal& terminal);
/// What it does without a file.
ExitCode explore_jobs(const ExploreArguments& arguments, Terminal& terminal);

/// Parts that the shards of `explore` or `zoo` left.
struct MergeArguments {
  std::vector<std::string> parts;
  std::string out = "lockstep-out";
  std::string regressions;  ///< Folder, or empty: `regressions` in `out`.
  bool json = false;
};

/// Prints and writes what one process would have that did all of it, and returns its exit code.
ExitCode merge(const MergeArguments& arguments, Terminal& terminal);

struct ReplayArguments {
  std::string file;
  bool quiet = false;
  bool laws = false;  ///< Prints every law, not only how many hold.
};

ExitCode replay(const ReplayArguments& arguments, Terminal& terminal);

struct CheckArguments {
  std::vector<std::string> folders;
  std::vector<std::string> laws;   ///< Empty = all trace laws.
  std::vector<std::string> allow;  ///< "LAW" or "LAW@TENSOR"
  std::string report;              ///< FILE, or empty.
  bool json = false;
  bool all_laws = false;  ///< Prints every law, not only how many hold.
  bool times = false;     ///< Prints where the time went.
};

ExitCode check(const CheckArguments& arguments, Terminal& terminal);

struct DiffArguments {
  std::string left;
  std::string right;
  bool json = false;
};

ExitCode diff(const DiffArguments& arguments, Terminal& terminal);

struct ExplainDiffArguments {
  std::string left;
  std::string right;
  std::vector<std::string> contributions;  ///< One file per rank, in rank order.
  bool mean = false;                       ///< The results are means, not sums.
  std::optional<double> factor = {};       ///< The results are sums times this.
  bool json = false;
};

/// Exit codes: 0 equal, or rounding explains it; 1 nothing does, or contributions are missing.
ExitCode explain_diff(const ExplainDiffArguments& arguments, Terminal& terminal);

struct BisectArguments {
  std::vector<std::string> folders;  ///< One: its ranks; two: the runs.
};

ExitCode bisect(const BisectArguments& arguments, Terminal& terminal);

struct AnalyzeArguments {
  std::string file;
  std::string variant;
  std::vector<std::string> settings;
  bool json = false;
};

ExitCode analyze(const AnalyzeArguments& arguments, Terminal& terminal);

struct CertifyArguments {
  std::string file;
  std::string variant;
  std::vector<std::string> settings;
  std::string objective;  ///< Empty: what the scenario declares.
};

/// Exit codes: 0 certified, 1 not.
ExitCode certify(const CertifyArguments& arguments, Terminal& terminal);

struct WhatIfArguments {
  std::string file;
  std::string variant;
  std::vector<std::string> settings;
  std::vector<std::string> sweep;      ///< "key=value,value"; empty: kUsualBucketCaps.
  std::vector<std::string> calibrate;  ///< Trace folders and outputs of nccl-tests.
  bool json = false;
};

ExitCode whatif(const WhatIfArguments& arguments, Terminal& terminal);

/// Exactly one of the forms to write is given.
struct ExportArguments {
  std::string from;             ///< A trace folder, or a file of tensors.
  std::string perfetto;         ///< FILE.json
  std::string flight_recorder;  ///< Folder.
  std::string safetensors;      ///< FILE
  std::string torch;            ///< FILE
};

ExitCode export_trace(const ExportArguments& arguments, Terminal& terminal);

struct LawsArguments {
  std::string name;  ///< Empty: all of them.
};

ExitCode laws(const LawsArguments& arguments, Terminal& terminal);

struct ExplainArguments {
  std::string cause;  ///< Its id; empty: lists all of them.
};

/// What a cause is, and the lines of a PyTorch script that bring it about and repair it.
ExitCode explain(const ExplainArguments& arguments, Terminal& terminal);

/// `lockstep help COMMAND`, which the command line answers itself.
struct HelpArguments {
  std::string command;
};

struct SamplerArguments {
  std::int64_t size = 0;
  std::int64_t replicas = 1;
  std::optional<std::int64_t> rank;
  std::int64_t epoch = 0;
  std::int64_t seed = 0;
  bool shuffle = true;
  bool drop_last = false;
};

ExitCode sampler(const SamplerArguments& arguments, Terminal& terminal);

struct NcclLogArguments {
  std::vector<std::string> files;  ///< Of one communicator.
};

ExitCode nccl_log(const NcclLogArguments& arguments, Terminal& terminal);

/// Writes "lockstep: what" or "place: what" to stderr.
ExitCode bad_input(Terminal& terminal, const std::string& text);

}  // namespace lockstep::cli
