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
  ~RankServer();
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
  void open_group(const Request& request);
  void close_group(const Request& request);
  void ask_store(const Request& request);
  void await_keys(const Request& request, const StoreRequest& asked);
  void sleep(const Request& request);
  void answer_store(const Request& request, const StoreRequest& asked);

  void done(std::uint32_t ticket, std::uint16_t status, std::int32_t peer, std::string_view text);
  void value(const Request& request, ValueStatus status, std::string body);
  void reply(ReplyKind kind, std::uint16_t status, std::uint32_t ticket, std::string body);

  Serving* serving_;
  RankContext* context_;
  RankProcess* process_;
  RankHandle* handle_;
  std::int64_t n_posts_ = 0;
  std::vector<std::unique_ptr<ProcessGroup>> own_groups_;
  std::vector<ProcessGroup*> groups_;  // By handle; null: closed.
  std::map<std::uint32_t, Ticket> tickets_;
  std::optional<CommFailure> comm_failure_;
  std::optional<std::string> injected_;  // For the next request that has an answer.
  std::int64_t n_store_waits_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // For timers that come too late.
  bool ended_ = false;
};

}  // namespace lockstep::sim
