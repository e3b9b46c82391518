#include "lockstep/harness/cli/real_ranks.h"

#include <filesystem>
#include <memory>

#include "lockstep/base/text.h"
#include "lockstep/harness/backends/backends.h"
#include "lockstep/harness/cli/settings.h"
#include "lockstep/harness/format/load.h"
#include "lockstep/real/launch/keeper.h"
#include "lockstep/real/launch/supervisor.h"
#include "lockstep/real/session/backend.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

/// This command again, as one rank.
std::vector<std::string> rank_command(const RealRequest& request) {
  std::vector<std::string> command = {fs::read_symlink("/proc/self/exe").string(),
                                      "rank",
                                      request.file,
                                      "--timeout",
                                      std::to_string(request.timeout_s)};
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) command.push_back(std::string(name) + "=" + value);
  };
  add("--variant", request.variant);
  for (const std::string& setting : request.settings) add("--set", setting);
  add("--flip-bit", request.flip_bit);
  if (request.values) command.emplace_back("--values");
  if (request.digests_only) command.emplace_back("--digests-only");
  return command;
}

launch::LaunchOptions options_of(const RealRequest& request,
                                 const Scenario& scenario,
                                 const std::string& trace) {
  launch::LaunchOptions options;
  options.n_per_node = scenario.n_ranks;
  options.any_port = true;
  options.master_addr = "localhost";
  options.run_id.clear();
  options.notices = false;
  options.grace = std::chrono::seconds(5);
  options.backend = request.backend;
  options.check_arrivals = request.check_arrivals;
  options.trace = trace;
  options.command = rank_command(request);
  // A rank's own operations end after the timeout; then it says so, and its trace grows.
  options.silence = std::chrono::seconds(request.timeout_s) + options.grace;
  return options;
}

}  // namespace

std::optional<ExitCode> refuse_backend(const std::string& command,
                                       const std::string& backend,
                                       Terminal& terminal) {
  const Result<Backend> found = find_backend(backend);
  if (!found.ok()) {
    std::string text = "lockstep " + command + ": " + found.error().text();
    return bad_input(terminal, text);
  }
  const std::string obstacle = obstacle_of(found.value());
  if (obstacle.empty()) return std::nullopt;
  terminal.err << "lockstep " << command << ": " << obstacle << "\n";
  return ExitCode::kRunFailed;
}

Result<Scenario> load_request(RealRequest& request, std::int32_t nproc) {
  if (nproc > 0) request.settings.push_back("world.ranks=" + std::to_string(nproc));
  const Result<std::vector<Setting>> settings = parse_settings(request.settings);
  if (!settings.ok()) return settings.error();
  Result<Scenario> scenario = load_scenario(request.file, request.variant, settings.value());
  if (!scenario.ok()) return scenario;
  const Outcome others = check_other_variants(request.file, request.variant);
  if (!others.ok()) return others.error();
  return scenario;
}

RealRun run_on_processes(const RealRequest& request, const Scenario& scenario, Terminal& terminal) {
  const auto failed = [&](const std::string& text, ExitCode code) {
    terminal.err << "lockstep " << request.command << ": " << text << "\n";
    return RealRun{.failed = code, .loaded = std::nullopt};
  };
  // It stays until the trace has been read.
  const Result<std::unique_ptr<launch::Keeper>> keeper = launch::Keeper::start();
  if (!keeper.ok()) return failed(keeper.error().text(), ExitCode::kRunFailed);
  std::unique_ptr<launch::KeptFolder> temporary;
  if (request.trace.empty()) {
    Result<std::unique_ptr<launch::KeptFolder>> made =
        launch::KeptFolder::make(*keeper.value(), launch::below_tmpdir("lockstep-trace-"));
    if (!made.ok()) return failed(made.error().text(), ExitCode::kRunFailed);
    temporary = std::move(made).value();
  }
  const std::string trace =
      temporary != nullptr ? temporary->path() : fs::absolute(request.trace).string();
  if (Outcome removed = remove_trace(trace); !removed.ok()) {
    return failed(removed.error().text(), ExitCode::kBadInput);
  }
  const Result<launch::LaunchResult> launched = launch::launch(
      options_of(request, scenario, trace), *keeper.value(), terminal.err, terminal.err);
  if (!launched.ok()) return failed(launched.error().text(), ExitCode::kRunFailed);
  if (const int signal = launched.value().signal; signal != 0) {
    return failed("stopped by " + launch::status_text(-signal) + "; no report is written",
                  ExitCode::kRunFailed);
  }
  RealRun run;
  if (!launched.value().ok) {
    terminal.err << "lockstep " << request.command << ": "
                 << launch::render_failures(launched.value().failures, "a rank", 0);
    run.failed = ExitCode::kRunFailed;
  }
  Result<LoadedTrace> loaded = read_jsonl(trace);
  if (!loaded.ok() && !run.failed) return failed(loaded.error().text(), ExitCode::kRunFailed);
  if (loaded.ok()) run.loaded = std::move(loaded).value();
  return run;
}

}  // namespace lockstep::cli
