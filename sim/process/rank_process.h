// One process that is a virtual rank: its socket, its memory, how it ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/call_site.h"
#include "lockstep/sim/process/protocol.h"

namespace lockstep::sim {

/// What a rank's process is, to the coordinator.
struct ProcessHandles {
  int socket = -1;  ///< Taken over. SOCK_SEQPACKET.
  int pid = 0;      ///< A child of this process; 0: none (a thread speaks the protocol).
  std::byte* arena = nullptr;
  std::size_t arena_bytes = 0;
};

/// A line that a rank logged.
struct LogLine {
  Rank rank{};
  VirtualTime time;
  std::string text;
};

/// How a process ended, as the kernel says.
struct ProcessExit {
  std::optional<std::int32_t> code{};
  std::optional<std::int32_t> signal{};
};

/// Reads what a process sends and keeps it until it is asked for. Whatever it sends, this never
/// waits for it without a limit, never reads outside of what came, and never throws because of it:
/// nonsense is a `problem()`.
class RankProcess {
 public:
  explicit RankProcess(const ProcessHandles& handles);
  ~RankProcess();
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;
  RankProcess(RankProcess&&) = delete;
  RankProcess& operator=(RankProcess&&) = delete;

  int socket() const { return socket_; }

  int pid() const { return pid_; }

  /// Readable once the process has ended; -1: none.
  int end_descriptor() const { return pidfd_; }

  // -- what it says
  /// Reads what has come, without waiting.
  void read();

  /// It computes no further: it waits for a reply, has ended, or has sent a great deal.
  bool is_due() const { return n_replies_due_ > 0 || gone_ || requests_.size() >= kMostWaiting; }

  bool has_request() const { return !requests_.empty(); }

  /// Requires: has_request().
  Request take();

  /// No more will come: its end of the socket is closed, it has died or it has sent nonsense.
  bool gone() const { return gone_; }

  /// What of it was nonsense, or empty.
  const std::string& problem() const { return problem_; }

  void set_problem(std::string problem);

  // -- what it is given
  /// False: it takes no more.
  bool send(const Reply& reply);

  // -- stacks
  void forget_stack() { stack_.reset(); }

  const std::optional<std::string>& stack() const { return stack_; }

  // -- names
  /// False: the id is out of range or in use.
  bool define(const NameRequest& request);
  /// Lives as long as this. Null: not defined; "" for kNoName.
  const char* name(std::uint32_t id) const;
  /// Errors: names that are not defined.
  Result<CallSite> site(std::uint32_t file, std::int32_t line, std::uint32_t scope) const;

  // -- memory
  /// Errors: a slice that does not lie in the arena, or not where such elements may begin.
  Result<Memory> memory(const ArenaSlice& slice, DType dtype) const;

  // -- its end
  void kill();

  /// What the kernel says, if it has ended; reaps it. Without a process: an exit once it is gone.
  const std::optional<ProcessExit>& poll_exit();

  const std::optional<ProcessExit>& exit() const { return exit_; }

 private:
  static constexpr std::size_t kMostWaiting = 4096;

  void receive(std::string_view packet);
  void keep(Request request);

  int socket_;
  int pid_;
  int pidfd_ = -1;
  std::byte* arena_;
  std::size_t arena_bytes_;
  RequestAssembly assembly_;
  std::deque<Request> requests_;
  std::size_t n_replies_due_ = 0;  // Requests in the queue that expect one, or END.
  bool gone_ = false;
  bool killed_ = false;
  std::string problem_;
  std::optional<std::string> stack_;
  std::map<std::uint32_t, std::string> names_;
  std::optional<ProcessExit> exit_;
  std::vector<char> packet_;
};

}  // namespace lockstep::sim
