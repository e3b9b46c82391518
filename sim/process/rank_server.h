// The program of a virtual rank whose code runs in another process: it does what that asks for.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "lockstep/comm/rank_context.h"
#include "lockstep/sim/fiber/world.h"
#include "lockstep/sim/process/detail/rank_groups.h"
#include "lockstep/sim/process/detail/rank_store.h"
#include "lockstep/sim/process/rank_process.h"

namespace lockstep::sim {

class Serving;  // detail/serving.h

/// A process that ended with an error of its own.
class ProcessFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Carries out one process's requests on its rank's groups, store and clock, one after another.
///
/// Requires: made and run on the rank's fiber; the context's host is the rank's RankHandle.
class RankServer {
 public:
  RankServer(Serving& serving, RankContext& context, RankProcess& process);
  ~RankServer() = default;
  RankServer(const RankServer&) = delete;
  RankServer& operator=(const RankServer&) = delete;
  RankServer(RankServer&&) = delete;
  RankServer& operator=(RankServer&&) = delete;

  /// Returns once the process has ended without an error.
  /// Errors: ProcessFailed, CommError if its call had failed before, RankKilled if it died, was
  ///     killed or stopped, or sent nonsense.
  void run();

 private:
  /// A call whose end the process has not asked for yet.
  struct Ticket {
    Work work{};
    std::optional<CallProblem> problem{};  // It was not posted, because ...
    std::string text{};                    // ... of this.
  };

  struct CommFailure {
    CommStatus status;
    Signature signature;
    std::string text;
  };

  std::optional<Request> next();
  void serve(const Request& request);
  void carry_out(const Request& request);
  void refuse(const Request& request, CallProblem problem, const std::string& text);
  void finish(const EndRequest& end);
  void stop(const RankKilled& killed);
  void end_without_a_word();
  [[noreturn]] void die(const std::string& reason);

  void post(const Request& request);
  void wait(std::uint32_t ticket);
  void test(std::uint32_t ticket);
  void sleep(const Request& request);

  void done(std::uint32_t ticket, std::uint16_t status, std::int32_t peer, std::string_view text);
  void value(const Request& request, Answer answer);
  void reply(ReplyKind kind, std::uint16_t status, std::uint32_t ticket, std::string body);

  Serving* serving_;
  RankProcess* process_;
  RankHandle* handle_;
  std::int64_t n_posts_ = 0;
  RankGroups groups_;
  std::map<std::uint32_t, Ticket> tickets_;
  std::optional<CommFailure> comm_failure_;
  std::optional<std::string> injected_;  // For the next request that has an answer.
  RankStore store_;
  bool ended_ = false;
};

}  // namespace lockstep::sim
