#include "lockstep/sim/process/rank_server.h"

#include <csignal>
#include <fmt/core.h>
#include <utility>

#include "lockstep/sim/process/calls.h"
#include "lockstep/sim/process/detail/serving.h"
#include "lockstep/sim/process/detail/well_formed.h"

namespace lockstep::sim {

namespace {

constexpr std::size_t kMostTickets = 1U << 20U;
constexpr std::size_t kMostLines = 1U << 20U;

}  // namespace

RankServer::RankServer(Serving& serving, RankContext& context, RankProcess& process)
    : serving_(&serving),
      process_(&process),
      handle_(&static_cast<RankHandle&>(context.host())),
      groups_(serving, context, process),
      store_(serving, *handle_, process) {}

void RankServer::run() {
  try {
    while (!ended_) {
      const std::optional<Request> request = next();
      if (!request) return end_without_a_word();
      serve(*request);
    }
  } catch (const Nonsense& nonsense) {
    process_->set_problem(nonsense.what());
    end_without_a_word();
  } catch (const RankKilled& killed) {
    if (!process_->gone()) stop(killed);
    throw;
  }
}

// A verdict or an interrupt lets it end in its own way. Any other death is sudden.
void RankServer::stop(const RankKilled& killed) {
  serving_->stopped[to_index(handle_->rank())] = 1;
  const bool sudden = serving_->verdict.empty() && serving_->outside.interrupted() == 0;
  const std::string& reason = serving_->verdict.empty() ? killed.reason() : serving_->verdict;
  const Reply last{.kind = ReplyKind::kStop, .now = handle_->now(), .body = reason};
  if (sudden) serving_->failures.push_back(to_int(handle_->rank()));  // A fault killed it.
  if (sudden || !process_->send(last)) process_->kill();
}

// What it has sent without waiting is done with the request that it waits for: then it computes no
// more, whichever rank is let run in between. Null: nothing will come any more.
std::optional<Request> RankServer::next() {
  while (!process_->is_due()) {
    if (serving_->serial && serving_->outside.wait_for(handle_->rank())) break;
    serving_->outside.expect(handle_->rank());
    try {
      handle_->block({.what = Outside::kWhat});
    } catch (const InjectedFault& fault) {
      injected_ = fault.what();
    }
  }
  if (!process_->has_request()) return std::nullopt;
  ++serving_->n_requests;
  return process_->take();
}

// It is gone, or sent nonsense, without END.
void RankServer::end_without_a_word() {
  const Rank self = handle_->rank();
  const std::string& problem = process_->problem();
  if (!problem.empty()) process_->kill();
  serving_->outside.see_off(self);
  const ProcessExit exit = process_->exit().value_or(ProcessExit{});
  if (problem.empty() && exit.code == 0) return serving_->note_progress();
  serving_->failures.push_back(to_int(self));
  if (!problem.empty()) die("its process sent what is not a request: " + problem);
  if (exit.code)
    throw ProcessFailed(fmt::format("its process ended with exit code {}", *exit.code));
  die(exit.signal ? fmt::format("its process was ended by signal {}", *exit.signal)
                  : "its process is gone");
}

void RankServer::die(const std::string& reason) {
  handle_->world().kill(handle_->rank(), reason);
  for (;;) handle_->point({});
}

void RankServer::serve(const Request& request) {
  try {
    if (injected_ && expects_reply(request)) {
      const std::string text = *std::exchange(injected_, std::nullopt);
      return refuse(request, CallProblem::kInjected, text);
    }
    carry_out(request);
  } catch (const ContractViolation& broken) {
    refuse(request, CallProblem::kContract, broken.what());
  } catch (const InjectedFault& fault) {
    refuse(request, CallProblem::kInjected, fault.what());
  }
}

void RankServer::refuse(const Request& request, CallProblem problem, const std::string& text) {
  const bool waits = request.has(RequestFlag::kWaits);
  if (request.kind == RequestKind::kPost && !waits) {
    tickets_[request.ticket] = Ticket{.problem = problem, .text = text};
  } else if (request.kind == RequestKind::kPost || request.kind == RequestKind::kWait) {
    done(request.ticket, static_cast<std::uint16_t>(problem), -1, text);
  } else if (expects_reply(request)) {
    const bool contract = problem == CallProblem::kContract;
    value(request, {contract ? ValueStatus::kContract : ValueStatus::kInjected, text});
  } else if (problem == CallProblem::kInjected) {
    injected_ = text;
  }
}

void RankServer::carry_out(const Request& request) {
  switch (request.kind) {
    case RequestKind::kName:
      if (!process_->define(well_formed(decode_name(request.body))))
        throw Nonsense("a name's id is too large, or defined already");
      return;
    case RequestKind::kPost:
      return post(request);
    case RequestKind::kWait:
      return wait(request.ticket);
    case RequestKind::kTest:
      return test(request.ticket);
    case RequestKind::kOpenGroup:
      return value(request, groups_.open(request));
    case RequestKind::kCloseGroup:
      return groups_.close(request);
    case RequestKind::kStore:
      return value(request, store_.ask(request));
    case RequestKind::kSleep:
      return sleep(request);
    case RequestKind::kPoint:
      handle_->point(well_formed(decode_point(request.body)).point);
      return value(request, {});
    case RequestKind::kEnd:
      return finish(well_formed(decode_end(request.body)));
    case RequestKind::kLog:
      if (serving_->log.size() < kMostLines)
        serving_->log.push_back({handle_->rank(), handle_->now(), request.body});
      return;
    case RequestKind::kForget:
      tickets_.erase(request.ticket);
      return;
    case RequestKind::kStack:
      return;
  }
}

void RankServer::finish(const EndRequest& end) {
  ended_ = true;
  serving_->note_progress();
  if (end.exit_code == 0) return;
  const std::string text =
      end.text.empty() ? fmt::format("ended with exit code {}", end.exit_code) : end.text;
  if (comm_failure_) throw CommError(comm_failure_->status, comm_failure_->signature, text);
  serving_->failures.push_back(to_int(handle_->rank()));
  throw ProcessFailed(text);
}

void RankServer::post(const Request& request) {
  const Result<PostRequest> decoded = decode_post(request.body);
  const PostRequest& asked = well_formed(decoded);
  for (const SlowCalls& slow : serving_->slow) {
    if (Rank{slow.rank} != handle_->rank() || n_posts_ < slow.first_call) continue;
    if (n_posts_ == slow.first_call) {
      serving_->slowed.push_back(
          fmt::format("rank {}: slow from collective {} on", slow.rank, slow.first_call));
    }
    handle_->sleep(slow.delay);
  }
  ++n_posts_;
  serving_->note_progress();
  ProcessGroup& group = groups_.at(asked.group);
  require(tickets_.size() < kMostTickets && !tickets_.contains(request.ticket),
          fmt::format("ticket {} is in use, or too many are", request.ticket));
  const bool expires = serving_->expires || request.has(RequestFlag::kExpires);
  tickets_[request.ticket].work = sim::post(group, asked, *process_, expires);
  if (request.has(RequestFlag::kWaits)) wait(request.ticket);
}

void RankServer::wait(std::uint32_t ticket) {
  const auto found = tickets_.find(ticket);
  require(found != tickets_.end(), fmt::format("there is no ticket {}", ticket));
  const Ticket waited = std::move(found->second);
  tickets_.erase(found);
  if (waited.problem) {
    return done(ticket, static_cast<std::uint16_t>(*waited.problem), -1, waited.text);
  }
  const CommStatus status = waited.work.wait();
  serving_->note_progress();
  const Signature& signature = waited.work.signature();
  if (status != CommStatus::kOk) {
    comm_failure_ = CommFailure{status, signature, waited.work.detail()};
  }
  done(ticket, static_cast<std::uint16_t>(status), signature.peer, waited.work.detail());
}

void RankServer::test(std::uint32_t ticket) {
  const auto found = tickets_.find(ticket);
  require(found != tickets_.end(), fmt::format("there is no ticket {}", ticket));
  const Ticket& tested = found->second;
  const bool over = tested.problem || tested.work.is_completed();
  if (!over) serving_->note_nap(handle_->world());
  reply(ReplyKind::kValue, 0, ticket, std::string(1, over ? '\1' : '\0'));
}

void RankServer::sleep(const Request& request) {
  const Result<std::int64_t> decoded = decode_i64(request.body);
  const std::int64_t ns = well_formed(decoded);
  require(ns >= 0, "a rank cannot sleep for a negative time");
  serving_->note_nap(handle_->world());
  handle_->sleep(Duration{ns});
  value(request, {});
}

void RankServer::done(std::uint32_t ticket,
                      std::uint16_t status,
                      std::int32_t peer,
                      std::string_view text) {
  reply(ReplyKind::kDone, status, ticket, encode_i32(peer) + std::string(text));
}

void RankServer::value(const Request& request, Answer answer) {
  reply(ReplyKind::kValue,
        static_cast<std::uint16_t>(answer.status),
        request.ticket,
        std::move(answer.body));
}

void RankServer::reply(ReplyKind kind,
                       std::uint16_t status,
                       std::uint32_t ticket,
                       std::string body) {
  // One that takes nothing any more is found gone when its next request is waited for.
  (void)process_->send({.kind = kind,
                        .status = status,
                        .ticket = ticket,
                        .now = handle_->now(),
                        .body = std::move(body)});
}

}  // namespace lockstep::sim
