#include "lockstep/real/launch/launch_options.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>

#include "lockstep/base/text.h"

namespace lockstep::launch {

namespace {

constexpr std::int64_t kBoth = 3;

Error not_streams(std::string_view text) {
  return Error{"'" + std::string(text) +
                   "' names no streams; use 0 (none), 1 (stdout), 2 (stderr) or 3 (both), for all "
                   "ranks or as RANK:STREAMS,RANK:STREAMS",
               {}};
}

}  // namespace

bool StreamChoice::contains(std::int32_t local_rank, std::int32_t stream) const {
  const auto own = by_rank.find(local_rank);
  const auto bits = static_cast<std::uint32_t>(own == by_rank.end() ? all : own->second);
  return (bits >> static_cast<std::uint32_t>(stream) & 1U) != 0;
}

bool StreamChoice::any() const {
  return all != 0 || std::any_of(by_rank.begin(), by_rank.end(), [](const auto& entry) {
           return entry.second != 0;
         });
}

Result<StreamChoice> parse_streams(std::string_view text) {
  StreamChoice choice;
  if (text.find(':') == std::string_view::npos) {
    const auto streams = parse_int(text);
    if (!streams || *streams < 0 || *streams > kBoth) return not_streams(text);
    choice.all = static_cast<std::int32_t>(*streams);
    return choice;
  }
  for (const std::string_view entry : split(text, ',')) {
    const std::size_t colon = entry.find(':');
    if (colon == std::string_view::npos) return not_streams(text);
    const auto rank = parse_int(entry.substr(0, colon));
    const auto streams = parse_int(entry.substr(colon + 1));
    if (!rank || *rank < 0 || !streams || *streams < 0 || *streams > kBoth) {
      return not_streams(text);
    }
    choice.by_rank[static_cast<std::int32_t>(*rank)] = static_cast<std::int32_t>(*streams);
  }
  return choice;
}

namespace {

/// "SIGTERM" and the like, by number; empty where there is none.
std::vector<std::string> signal_names() {
  constexpr int kMost = 31;  // Real-time signals have no names.
  std::vector<std::string> names(kMost + 1);
  for (int signal = 1; signal <= kMost; ++signal) {
    if (const char* name = sigabbrev_np(signal)) names[static_cast<std::size_t>(signal)] = name;
  }
  for (std::string& name : names) {
    if (!name.empty()) name.insert(0, "SIG");
  }
  return names;
}

}  // namespace

Result<std::vector<int>> parse_signals(std::string_view text) {
  const std::vector<std::string> names = signal_names();
  std::vector<int> signals;
  for (const std::string_view word : split(text, ',')) {
    const auto found = std::find(names.begin() + 1, names.end(), word);
    if (word.empty() || found == names.end()) {
      constexpr std::array<std::string_view, 6> kUsual = {
          "SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"};
      return Error{"'" + std::string(word) + "' is not a signal" + did_you_mean(word, kUsual), {}};
    }
    const auto signal = static_cast<int>(found - names.begin());
    if (signal == SIGKILL || signal == SIGSTOP || signal == SIGCHLD) {
      return Error{std::string(word) + " cannot be passed on to the ranks" +
                       (signal == SIGCHLD ? ": the system uses it to report that one has ended"
                                          : ": no process can catch it"),
                   {}};
    }
    signals.push_back(signal);
  }
  return signals;
}

std::vector<std::string> command_of(const LaunchOptions& options, std::int32_t local_rank) {
  std::vector<std::string> command = options.command;
  if (options.local_rank_place) {
    const auto place = command.begin() + static_cast<std::ptrdiff_t>(*options.local_rank_place);
    command.insert(place, "--local-rank=" + std::to_string(local_rank));
  }
  return command;
}

namespace {

// The run id names a folder among the logs, and stands in lines of text.
bool names_one_folder(std::string_view id) {
  const bool plain = std::all_of(id.begin(), id.end(), [](char letter) {
    const auto code = static_cast<unsigned char>(letter);
    return code > 0x20U && code < 0x7FU && letter != '/';
  });
  return plain && !id.empty() && id != "." && id != ".." && id.size() <= 200;
}

constexpr std::int32_t kMostProcesses = 1 << 22;  // Linux's PID_MAX_LIMIT.

/// Of ranks and machines.
std::string complaint_about_size(const LaunchOptions& options) {
  const auto number = [](auto value) { return std::to_string(value); };
  if (options.n_per_node < 1)
    return "--nproc-per-node is " + number(options.n_per_node) + "; it must be at least 1";
  if (options.n_per_node > kMostProcesses)
    return "--nproc-per-node is " + number(options.n_per_node) + "; Linux runs at most " +
           number(kMostProcesses) + " processes on a machine";
  if (options.n_nodes < 1)
    return "--nnodes is " + number(options.n_nodes) + "; it must be at least 1";
  if (options.node_rank < 0 || options.node_rank >= options.n_nodes) {
    return "--node-rank " + number(options.node_rank) + " of " + number(options.n_nodes) +
           " machines; they count from 0";
  }
  return {};
}

}  // namespace

std::int32_t launcher_port(const LaunchOptions& options) {
  return options.launcher_port > 0 ? options.launcher_port : options.master_port + 1;
}

std::string complaint_about_run_id(const std::string& run_id) {
  if (names_one_folder(run_id)) return {};
  return "--rdzv-id '" + run_id +
         "' cannot name a folder; use letters, digits and signs other than '/'";
}

std::string complaint(const LaunchOptions& options) {
  const auto number = [](auto value) { return std::to_string(value); };
  if (options.command.empty()) {
    return "no program to launch; name a Python script, or put any program after --";
  }
  if (std::string size = complaint_about_size(options); !size.empty()) return size;
  if (options.max_restarts < 0) return "--max-restarts must not be negative";
  if (!options.run_id.empty()) {
    if (std::string wrong = complaint_about_run_id(options.run_id); !wrong.empty()) return wrong;
  }
  if (options.monitor_interval.count() <= 0) return "--monitor-interval must be positive";
  if (options.master_port < 0 || options.master_port > 65535) {
    return "--master-port " + number(options.master_port) + "; a port is between 0 and 65535";
  }
  if (options.n_nodes > 1 && options.any_port) return "--standalone is for one machine";
  if (const auto signals = parse_signals(options.signals); !signals.ok()) {
    return "--signals-to-handle: " + signals.error().message;
  }
  const std::int32_t meeting = launcher_port(options);
  if (options.n_nodes > 1 && (meeting > 65535 || meeting == options.master_port)) {
    return "--launcher-port " + number(meeting) +
           "; a port between 1 and 65535 other than --master-port";
  }
  return {};
}

}  // namespace lockstep::launch
