// The options of `lockstep launch`.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::launch {

/// Which of a rank's two output streams something applies to: 0 none, 1 stdout, 2 stderr, 3 both.
struct StreamChoice {
  std::int32_t all = 0;                          ///< Of ranks that `by_rank` does not name.
  std::map<std::int32_t, std::int32_t> by_rank;  ///< By local rank.

  /// `stream` 0 is stdout, 1 is stderr.
  bool contains(std::int32_t local_rank, std::int32_t stream) const;

  /// True when it applies to anything at all.
  bool any() const;
};

/// "3", or by local rank "0:1,1:3". Errors: anything else.
Result<StreamChoice> parse_streams(std::string_view text);

/// Numbers of signals, of "SIGTERM,SIGUSR1".
/// Errors: a name that is none; one that a process cannot catch, or that the launcher needs itself.
Result<std::vector<int>> parse_signals(std::string_view text);

struct LaunchOptions {
  std::int32_t n_per_node = 1;
  std::int32_t n_nodes = 1;
  std::int32_t node_rank = 0;
  std::string master_addr = "127.0.0.1";
  std::int32_t master_port = 29500;
  std::int32_t launcher_port = 0;  ///< Where launchers of several machines connect; 0: the next.
  std::chrono::milliseconds join_timeout{300'000};  ///< For the launchers of all machines to come.
  bool any_port = false;  ///< One machine; a port that is free then, instead of master_port.
  std::int32_t max_restarts = 0;  ///< Of all ranks together.
  std::chrono::milliseconds monitor_interval{100};
  std::chrono::milliseconds grace{30'000};  ///< Between SIGTERM and SIGKILL.
  /// Ranks that give no sign for this long after one has ended, or ten times as long before, are
  /// ended: neither an event in `trace` nor an end. 0: no bound.
  std::chrono::milliseconds silence{0};
  std::string run_id = "none";  ///< Empty: a new one, which no other run has.
  std::string role = "default";
  /// Every rank finds LOCAL_RANK=0 and, as its only device, that with its own index.
  bool virtual_local_rank = false;
  /// Signals that are passed on to the ranks.
  std::string signals = "SIGTERM,SIGINT,SIGHUP,SIGQUIT";
  /// Of redirected streams and error files. Empty: a fresh folder, which stays if streams go there.
  std::string log_dir;
  StreamChoice redirects;  ///< Into files instead of the terminal.
  StreamChoice tee;        ///< Into files as well; of streams that `redirects` names, too.
  /// Local ranks whose lines the terminal shows; nothing: all.
  std::optional<std::set<std::int32_t>> shown;
  /// By stream: lines of `tee` that contain one of these go into a file of all ranks, too.
  std::array<std::vector<std::string>, 2> duplicates;
  /// In front of every line, with ${role_name}, ${local_rank}, ${rank} and ${hostname}.
  std::string prefix = "[rank ${rank}] ";
  std::string backend;  ///< Becomes LOCKSTEP_BACKEND; empty: what the environment says.
  std::string trace;    ///< Becomes LOCKSTEP_TRACE.
  /// Becomes LOCKSTEP_CHECK_ARRIVALS=1; off: what the environment says.
  bool check_arrivals = false;
  bool notices = true;  ///< Say what is decided for the ranks.
  std::vector<std::string> command;
  /// Before which word of `command` each rank gets --local-rank=LOCAL_RANK; nothing: it gets none.
  std::optional<std::size_t> local_rank_place;
};

/// The program of one rank, with its arguments.
std::vector<std::string> command_of(const LaunchOptions& options, std::int32_t local_rank);

/// Where the launchers connect: what the options say, or the port after the ranks' own.
std::int32_t launcher_port(const LaunchOptions& options);

/// What is wrong with a run id, or empty.
std::string complaint_about_run_id(const std::string& run_id);

/// What makes no sense in the options, or empty.
std::string complaint(const LaunchOptions& options);

}  // namespace lockstep::launch
