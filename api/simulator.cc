#include <array>
#include <stdexcept>
#include <string_view>

#include "lockstep/api/lockstep.h"
#include "lockstep/base/text.h"
#include "lockstep/sim/session/session.h"

namespace lockstep {

namespace {

template <typename T, std::size_t kCount>
T parse_or_throw(std::string_view what,
                 std::string_view word,
                 const std::optional<T>& parsed,
                 const std::array<std::string_view, kCount>& known) {
  if (parsed) return *parsed;
  throw std::invalid_argument("unknown " + std::string(what) + " '" + std::string(word) + "'" +
                              did_you_mean(word, known));
}

sim::SessionOptions to_session(const RunOptions& options) {
  constexpr std::array<std::string_view, 5> kOrders = {
      "rank", "gloo-ring", "pairwise", "nccl-ring", "nccl-tree"};
  constexpr std::array<std::string_view, 3> kPairings = {"strict", "nccl_like", "gloo_like"};
  constexpr std::array<std::string_view, 2> kFidelities = {"rendezvous", "message"};
  if (options.ranks < 1) {
    throw std::invalid_argument("ranks is " + std::to_string(options.ranks) +
                                "; a world has at least one");
  }
  sim::SessionOptions session;
  session.n_ranks = options.ranks;
  if (!options.faults.empty() && !options.record) {
    throw std::invalid_argument("faults strike at recorded events: set record");
  }
  if (options.agent) {
    for (const std::int32_t n : options.agent->n_ranks_later) {
      if (n >= 1 && n <= options.ranks) continue;
      throw std::invalid_argument("a restarted world of " + std::to_string(n) +
                                  " ranks; it has 1 to " + std::to_string(options.ranks));
    }
  }
  session.strategy = options.strategy;
  session.schedule_seed = options.schedule_seed;
  session.group.order = parse_or_throw("reduction order",
                                       options.reduction_order,
                                       parse_reduction_order(options.reduction_order),
                                       kOrders);
  session.group.pairing =
      parse_or_throw("pairing", options.pairing, sim::parse_pairing(options.pairing), kPairings);
  session.group.fidelity = parse_or_throw(
      "fidelity", options.fidelity, sim::parse_fidelity(options.fidelity), kFidelities);
  session.group.net = options.net;
  session.group.watchdog = Duration{options.watchdog.count()};
  session.compute = options.compute;
  session.timed = !options.net.is_free() || !options.compute.is_free();
  session.faults = options.faults;
  session.agent = options.agent;
  session.exact = options.exact;
  session.record = options.record;
  session.keep_trace = false;
  session.laws = options.laws;
  session.policy.allow = options.allow;
  session.policy.coverage = options.coverage;
  if (!options.replay.empty()) {
    session.strategy = options.replay;
  }
  return session;
}

// A CommError or a fault is a misfortune of the run and stays in the report; anything else belongs
// to the caller.
void rethrow_foreign(const sim::WorldResult& world) {
  if (!world.first_failure) return;
  const auto rank = static_cast<std::size_t>(*world.first_failure);
  try {
    std::rethrow_exception(world.ends[rank].exception);
  } catch (const CommError&) {
    return;
  } catch (const sim::InjectedFault&) {
    return;
  }
}

}  // namespace

class Simulator::Impl {
 public:
  sim::Session session;
};

Simulator::Simulator() : impl_(std::make_unique<Impl>()) {}

Simulator::~Simulator() = default;

Simulator::Untyped Simulator::run_untyped(const RunOptions& options,
                                          const std::function<void(RankContext&)>& body) {
  Result<sim::SessionResult> run = impl_->session.run(to_session(options), body);
  if (!run.ok()) throw std::invalid_argument(run.error().text());
  sim::SessionResult& result = run.value();
  rethrow_foreign(result.world);
  return {std::move(result.report), std::move(result.schedule)};
}

}  // namespace lockstep
