// `lockstep launch`: programs as ranks, one process each.
#include <array>
#include <cmath>
#include <filesystem>

#include "lockstep/base/text.h"
#include "lockstep/formats/jsonl.h"
#include "lockstep/harness/cli/commands.h"
#include "lockstep/harness/cli/real_ranks.h"
#include "lockstep/real/launch/supervisor.h"

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
      {{"--grace", arguments.grace_s},
       {"--monitor-interval", arguments.monitor_interval_s},
       {"--join-timeout", arguments.join_timeout_s}}};
  for (const auto& [option, seconds] : given) {
    if (seconds >= 0.0 && seconds <= kMost) continue;
    return Error{std::string(option) + " is " + exact(seconds) +
                     "; it is a number of seconds, 0 to 1000000000",
                 {}};
  }
  return success();
}

Result<launch::LaunchOptions> options_of(const LaunchArguments& arguments) {
  if (Outcome checked = check_seconds(arguments); !checked.ok()) return checked.error();
  launch::LaunchOptions options;
  options.n_per_node = arguments.nproc_per_node;
  options.n_nodes = arguments.nnodes;
  options.node_rank = arguments.node_rank;
  options.master_addr = arguments.master_addr;
  options.master_port = arguments.master_port;
  options.launcher_port = arguments.launcher_port;
  options.join_timeout = milliseconds(arguments.join_timeout_s);
  options.standalone = arguments.standalone;
  options.max_restarts = arguments.max_restarts;
  options.monitor_interval = milliseconds(arguments.monitor_interval_s);
  options.grace = milliseconds(arguments.grace_s);
  options.run_id = arguments.run_id;
  options.log_dir = arguments.log_dir;
  options.backend = arguments.backend;
  options.check_arrivals = arguments.check_arrivals;
  if (!arguments.trace.empty()) {
    options.trace = std::filesystem::absolute(arguments.trace).string();
  }
  options.command = arguments.command;
  for (const auto& [text, choice] : {std::pair{&arguments.redirects, &options.redirects},
                                     std::pair{&arguments.tee, &options.tee}}) {
    const Result<launch::StreamChoice> parsed = launch::parse_streams(*text);
    if (!parsed.ok()) return parsed.error();
    *choice = parsed.value();
  }
  const std::string wrong = launch::complaint(options);
  if (!wrong.empty()) return Error{wrong, {}};
  return options;
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
  const Result<launch::LaunchOptions> options = options_of(arguments);
  if (!options.ok()) {
    return bad_input(terminal, "lockstep launch: " + options.error().text());
  }
  if (!arguments.backend.empty()) {
    const auto refused = refuse_backend("launch", arguments.backend, terminal);
    if (refused) return *refused;
  }
  if (const Outcome removed = remove_traces(options.value()); !removed.ok()) {
    return bad_input(terminal, "lockstep launch: " + removed.error().text());
  }
  const Result<launch::LaunchResult> launched =
      launch::launch(options.value(), terminal.out, terminal.err);
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
        result.failures, arguments.command.front(), arguments.max_restarts);
  }
  return ExitCode::kFindings;  // 1, as torchrun says it whatever the ranks said.
}

}  // namespace lockstep::cli
