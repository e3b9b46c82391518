// `lockstep launch`: programs as ranks, one process each.
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "lockstep/base/text.h"
#include "lockstep/formats/jsonl.h"
#include "lockstep/harness/cli/commands.h"
#include "lockstep/harness/cli/real_ranks.h"
#include "lockstep/real/host/launcher_place.h"
#include "lockstep/real/launch/keeper.h"
#include "lockstep/real/launch/supervisor.h"
#include "lockstep/real/torchrun/words.h"

namespace lockstep::cli {
namespace {

constexpr double kMillisecondsPerSecond = 1000.0;

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(std::llround(seconds * kMillisecondsPerSecond));
}

/// Seconds as people write them; "nan" and "-1" parse, too.
Outcome check_seconds(const LaunchArguments& arguments) {
  constexpr double kMost = 1e9;
  const std::array<std::pair<const char*, double>, 3> given = {
      {{"--grace", arguments.words.shutdown_timeout_s},
       {"--monitor-interval", arguments.words.monitor_interval_s},
       {"--join-timeout", arguments.join_timeout_s.value_or(0.0)}}};
  for (const auto& [option, seconds] : given) {
    if (seconds >= 0.0 && seconds <= kMost) continue;
    return Error{std::string(option) + " is " + exact(seconds) +
                     "; it is a number of seconds, 0 to 1000000000",
                 {}};
  }
  return success();
}

std::optional<std::string> environment(std::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());  // NOLINT(concurrency-mt-unsafe)
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

/// Where srun or mpirun put this launcher, if nothing that was typed says how many machines there are.
/// Returns: what to say about it, or empty. Errors: those of read_launcher_place; mpirun does not
/// say where the first machine is, and --master-addr neither.
Result<std::string> take_place(torchrun::Words& words) {
  const bool says_it =
      words.nnodes != "1" || words.node_rank || words.standalone || !words.rdzv_endpoint.empty();
  if (says_it) return std::string();
  const auto read = read_launcher_place(environment);
  if (!read.ok()) return read.error();
  if (!read.value()) return std::string();
  const LauncherPlace& place = *read.value();
  const torchrun::Words untouched;
  words.nnodes = std::to_string(place.n_nodes);
  words.node_rank = place.node;
  if (words.master_addr == untouched.master_addr) words.master_addr = place.first_host;
  if (words.master_addr.empty()) {
    return Error{place.by + " started a launcher on each of " + words.nnodes +
                     " machines and does not say which is the first; name it: --master-addr HOST",
                 {}};
  }
  if (!words.master_port && place.port > 0) words.master_port = place.port;
  if (words.rdzv_id == untouched.rdzv_id && !place.run_id.empty()) words.rdzv_id = place.run_id;
  return "machine " + std::to_string(place.node + 1) + " of the " + words.nnodes + " on which " +
         place.by + " started a launcher; they meet at " + words.master_addr;
}

Result<torchrun::Reading> read_arguments(const LaunchArguments& arguments) {
  if (Outcome checked = check_seconds(arguments); !checked.ok()) return checked.error();
  torchrun::Words words = arguments.words;
  const Result<std::string> placed = take_place(words);
  if (!placed.ok()) return placed.error();
  Result<torchrun::Reading> read = torchrun::read_words(words, arguments.program, environment);
  if (!read.ok()) return read;
  if (!placed.value().empty()) read.value().notices.push_back(placed.value());
  launch::LaunchOptions& options = read.value().options;
  if (arguments.launcher_port != 0) options.launcher_port = arguments.launcher_port;
  if (arguments.join_timeout_s) options.join_timeout = milliseconds(*arguments.join_timeout_s);
  options.monitor_interval = milliseconds(arguments.words.monitor_interval_s);
  options.grace = milliseconds(arguments.words.shutdown_timeout_s);
  options.backend = arguments.backend;
  options.check_arrivals = arguments.check_arrivals;
  if (!arguments.trace.empty()) {
    options.trace = std::filesystem::absolute(arguments.trace).string();
  }
  const std::string wrong = launch::complaint(options);
  if (!wrong.empty()) return Error{wrong, {}};
  return read;
}

/// Those of an earlier run, of its restarts too: ranks write into the folder as they go.
Outcome remove_traces(const launch::LaunchOptions& options) {
  if (options.trace.empty()) return success();
  Outcome removed = remove_trace(options.trace);
  for (std::int32_t n = 1; n <= options.max_restarts && removed.ok(); ++n) {
    const std::string folder = options.trace + "/restart-" + std::to_string(n);
    if (!std::filesystem::exists(folder)) break;
    removed = remove_trace(folder);
  }
  return removed;
}

}  // namespace

ExitCode launch(const LaunchArguments& arguments, Terminal& terminal) {
  const Result<torchrun::Reading> reading = read_arguments(arguments);
  if (!reading.ok()) {
    return bad_input(terminal, "lockstep launch: " + reading.error().text());
  }
  const launch::LaunchOptions& options = reading.value().options;
  if (!arguments.backend.empty()) {
    const auto refused = refuse_backend("launch", arguments.backend, terminal);
    if (refused) return *refused;
  }
  if (const Outcome removed = remove_traces(options); !removed.ok()) {
    return bad_input(terminal, "lockstep launch: " + removed.error().text());
  }
  for (const std::string& notice : reading.value().notices) {
    terminal.err << "lockstep launch: " << notice << "\n";
  }
  const Result<std::unique_ptr<launch::Keeper>> keeper = launch::Keeper::start();
  if (!keeper.ok()) return bad_input(terminal, "lockstep launch: " + keeper.error().text());
  const Result<launch::LaunchResult> launched =
      launch::launch(options, *keeper.value(), terminal.out, terminal.err);
  if (!launched.ok()) {
    return bad_input(terminal, "lockstep launch: " + launched.error().text());
  }
  const launch::LaunchResult& result = launched.value();
  if (result.ok) return ExitCode::kOk;
  terminal.err << "lockstep launch: ";
  if (result.signal != 0) {
    terminal.err << "stopped by " << launch::status_text(-result.signal) << "\n";
  } else if (result.failures.empty()) {
    terminal.err << result.elsewhere << "\n";
  } else {
    terminal.err << launch::render_failures(
        result.failures, arguments.program.words.front(), options.max_restarts);
  }
  return ExitCode::kFindings;  // 1, as torchrun says it whatever the ranks said.
}

}  // namespace lockstep::cli
