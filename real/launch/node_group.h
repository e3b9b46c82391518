// How the launchers of a job's machines agree on what all of them do: start, stop, start again,
// end.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/real/launch/failure_report.h"
#include "lockstep/real/launch/launch_options.h"

namespace lockstep::launch {

/// What every launcher does as soon as its own ranks are gone.
enum class NextMove : std::uint8_t {
  kUndecided,
  kStart,  ///< Starts its ranks, as attempt().
  kEnd,    ///< The job is over.
};

/// This launcher among those of the job, one per machine. Node 0 leads: the others connect to it,
/// tell it what became of their ranks, and do what it says. A job of one machine is a leader
/// without followers.
///
/// Nothing waits: its owner polls handles(), and calls serve() when something has come in or
/// time has passed. One that is destroyed counts as gone.
class NodeGroup {
 public:
  virtual ~NodeGroup() = default;
  NodeGroup() = default;
  NodeGroup(const NodeGroup&) = delete;
  NodeGroup& operator=(const NodeGroup&) = delete;
  NodeGroup(NodeGroup&&) = delete;
  NodeGroup& operator=(NodeGroup&&) = delete;

  /// Of sockets to poll for reading.
  virtual std::vector<int> handles() const = 0;
  /// Reads and answers what has come in.
  virtual void serve() = 0;
  /// A rank of this machine failed.
  virtual void report_failure(const WorkerFailure& failure) = 0;
  /// All ranks of this machine are gone, by themselves or because they had to.
  virtual void report_ended() = 0;
  /// This launcher was asked to stop, and will not continue.
  virtual void report_stopped(int signal) = 0;
  /// Who has not come yet: "nodes 1, 3". Only before the first start.
  virtual std::string missing() const = 0;

  NextMove next() const { return next_; }

  /// Of kStart, from 0.
  std::int32_t attempt() const { return attempt_; }

  /// The move has been made.
  void begin() { next_ = NextMove::kUndecided; }

  /// This machine's ranks have to go, because of another machine or of the whole job.
  bool must_stop() const { return must_stop_; }

  /// Why ranks have to go, or the job is over: "exit code 3 of rank 5". Empty when all is well.
  const std::string& reason() const { return reason_; }

  /// Why the attempt before this one ended.
  const std::string& restart_reason() const { return restart_reason_; }

  /// Not empty: this launcher does not belong to the job.
  const std::string& refused() const { return refused_; }

 protected:
  NextMove next_ = NextMove::kUndecided;
  std::int32_t attempt_ = -1;
  bool must_stop_ = false;
  std::string reason_;
  std::string restart_reason_;
  std::string refused_;
};

/// Errors: the leader's port is taken, the leader's address does not exist.
Result<std::unique_ptr<NodeGroup>> make_node_group(const LaunchOptions& options);

}  // namespace lockstep::launch
