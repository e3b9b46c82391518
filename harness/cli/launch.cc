// `lockstep launch`: programs as ranks, one process each.
#include <cmath>
#include <filesystem>

#include "lockstep/harness/cli/commands.h"
#include "lockstep/harness/cli/real_ranks.h"
#include "lockstep/real/launch/supervisor.h"

namespace lockstep::cli {
namespace {

constexpr double kMillisecondsPerSecond = 1000.0;

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(std::llround(seconds * kMillisecondsPerSecond));
}

Result<launch::LaunchOptions> options_of(const LaunchArguments& arguments) {
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
