// The commands of `lockstep`, one a file: what each takes and what it answers the shell.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace lockstep::cli {

/// What the shell is told (docs/commands.md). Stable: scripts depend on it.
enum class ExitCode : int {
  kOk = 0,         ///< All laws hold; `test`: every expectation met; `diff`: equal.
  kFindings = 1,   ///< A law is broken, expected or not; `test`: an expectation was not met.
  kBadInput = 2,   ///< A file, an option or a word that makes no sense.
  kRunFailed = 3,  ///< A real run failed: a process died, a device error.
  kInternal = 70,  ///< A bug in Lockstep.
};

/// Where a command writes.
struct Terminal {
  std::ostream& out;
  std::ostream& err;
  bool color = false;
};

struct RunArguments {
  std::string file;
  std::string variant;
  std::string backend = "sim";
  std::optional<std::uint64_t> schedule_seed;
  std::vector<std::string> settings;  ///< "key=value"
  std::string trace;                  ///< Folder, or empty.
  std::string report;                 ///< FILE.json or FILE.xml, or empty.
  std::string repro;                  ///< FILE, or empty.
  bool values = false;
  bool twice = false;
  bool quiet = false;
};

ExitCode run(const RunArguments& arguments, Terminal& terminal);

struct TestArguments {
  std::vector<std::string> files;
};

ExitCode test(const TestArguments& arguments, Terminal& terminal);

struct ReplayArguments {
  std::string file;
  bool quiet = false;
};

ExitCode replay(const ReplayArguments& arguments, Terminal& terminal);

struct CheckArguments {
  std::vector<std::string> folders;
  std::vector<std::string> laws;   ///< Empty = all trace laws.
  std::vector<std::string> allow;  ///< "LAW" or "LAW@TENSOR"
  bool json = false;
};

ExitCode check(const CheckArguments& arguments, Terminal& terminal);

struct DiffArguments {
  std::string left;
  std::string right;
};

ExitCode diff(const DiffArguments& arguments, Terminal& terminal);

struct ExportArguments {
  std::string folder;
  std::string perfetto;  ///< FILE.json
};

ExitCode export_trace(const ExportArguments& arguments, Terminal& terminal);

ExitCode laws(Terminal& terminal);

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

/// Writes "lockstep: what" or "place: what" to stderr.
ExitCode bad_input(Terminal& terminal, const std::string& text);

}  // namespace lockstep::cli
