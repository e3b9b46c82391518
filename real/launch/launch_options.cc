#include "lockstep/real/launch/launch_options.h"

#include <algorithm>

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
    return "--nproc-per-node is " + number(options.n_per_node) +
           "; a machine runs at least one rank";
  if (options.n_per_node > kMostProcesses)
    return "--nproc-per-node is " + number(options.n_per_node) + "; Linux runs at most " +
           number(kMostProcesses) + " processes on a machine";
  if (options.n_nodes < 1)
    return "--nnodes is " + number(options.n_nodes) + "; there is at least one machine";
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

std::string complaint(const LaunchOptions& options) {
  const auto number = [](auto value) { return std::to_string(value); };
  if (options.command.empty()) return "no program to launch; put it after --";
  if (std::string size = complaint_about_size(options); !size.empty()) return size;
  if (options.max_restarts < 0) return "--max-restarts is below 0";
  if (!names_one_folder(options.run_id)) {
    return "--rdzv-id '" + options.run_id +
           "' cannot name a folder; use letters, digits and signs other than '/'";
  }
  if (options.monitor_interval.count() <= 0) return "--monitor-interval is not above 0 seconds";
  if (options.master_port < 0 || options.master_port > 65535) {
    return "--master-port " + number(options.master_port) + "; a port is between 0 and 65535";
  }
  if (options.n_nodes > 1 && options.standalone) return "--standalone is for one machine";
  const std::int32_t meeting = launcher_port(options);
  if (options.n_nodes > 1 && (meeting > 65535 || meeting == options.master_port)) {
    return "--launcher-port " + number(meeting) +
           "; a port between 1 and 65535 other than --master-port";
  }
  return {};
}

}  // namespace lockstep::launch
