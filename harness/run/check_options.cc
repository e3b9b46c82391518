#include "lockstep/harness/run/detail/check_options.h"

#include <fmt/core.h>
#include <stdexcept>

#include "lockstep/base/text.h"

namespace lockstep::detail {

namespace {

constexpr std::int32_t kMostRanks = 1'000'000;
constexpr std::size_t kLeastStack = std::size_t{16} << 10U;
constexpr std::size_t kMostStack = std::size_t{1} << 32U;

[[noreturn]] void refuse(const std::string& text) { throw std::invalid_argument(text); }

void check_not_negative(std::string_view option, std::int64_t value) {
  if (value < 0) refuse(fmt::format("{} is {}; it is not negative", option, value));
}

void check_rank(std::string_view option, std::int32_t rank, std::int32_t n_ranks) {
  if (rank >= 0 && rank < n_ranks) return;
  refuse(fmt::format("{} names rank {}; the world has ranks 0 to {}", option, rank, n_ranks - 1));
}

/// How messages call the options of a link.
struct LinkNames {
  std::string_view latency_ns;
  std::string_view jitter_ns;
  std::string_view gb_per_s;
};

void check_link(const LinkNames& names, const sim::LinkSpec& link) {
  check_not_negative(names.latency_ns, link.latency_ns);
  check_not_negative(names.jitter_ns, link.jitter_ns);
  if (!(link.gb_per_s >= 0.0)) {
    refuse(fmt::format("{} is {}; 0 means no limit", names.gb_per_s, link.gb_per_s));
  }
}

void check_net(const sim::NetOptions& net, std::int32_t n_ranks) {
  check_link({"net.intra.latency_ns", "net.intra.jitter_ns", "net.intra.gb_per_s"}, net.intra);
  check_link({"net.inter.latency_ns", "net.inter.jitter_ns", "net.inter.gb_per_s"}, net.inter);
  check_not_negative("net.ranks_per_node", net.ranks_per_node);
  check_not_negative("net.chunk_bytes", net.chunk_bytes);
  if (!net.places.empty() && net.places.size() != static_cast<std::size_t>(n_ranks)) {
    refuse(fmt::format("net.places has {} entries for {} ranks; it has one for each, or none",
                       net.places.size(),
                       n_ranks));
  }
  for (const std::int32_t place : net.places) check_rank("net.places", place, n_ranks);
  for (const sim::Outage& outage : net.outages) {
    for (const std::int32_t rank : outage.ranks) check_rank("net.outages", rank, n_ranks);
    for (const std::int32_t rank : outage.peers) check_rank("net.outages", rank, n_ranks);
    check_not_negative("net.outages.from_ns", outage.from_ns);
    check_not_negative("net.outages.for_ns", outage.for_ns);
    check_not_negative("net.outages.period_ns", outage.period_ns);
  }
}

void check_compute(const sim::ComputeSpec& compute, std::int32_t n_ranks) {
  check_not_negative("compute.mflops", compute.mflops);
  check_not_negative("compute.jitter_permille", compute.jitter_permille);
  for (const sim::ComputeSpec::Slow& slow : compute.slow) {
    check_rank("compute.slow", slow.rank, n_ranks);
    check_not_negative("compute.slow.permille", slow.permille);
  }
}

void check_fault(const sim::Fault& fault, std::int32_t n_ranks) {
  check_rank("faults", fault.rank, n_ranks);
  check_not_negative("faults.attempt", fault.attempt);
  check_not_negative("faults.nth", fault.nth);
  check_not_negative("faults.delay", fault.delay.ns);
  check_not_negative("faults.element", fault.element);
  check_not_negative("faults.bit", fault.bit);
  check_not_negative("faults.permille", fault.permille);
  if (fault.when == CollectivePhase::kFailed) {
    refuse("faults.when is kFailed; it is kPosted or kCompleted: as a call ends, well or not");
  }
  if (!fault.event && !fault.file_step && !fault.time && !fault.at) {
    refuse(
        fmt::format("the fault '{}' of rank {} has no place; set one of event, file_step, "
                    "time and at",
                    name_of(fault.kind),
                    fault.rank));
  }
}

void check_agent(const sim::AgentOptions& agent) {
  check_not_negative("agent.max_restarts", agent.max_restarts);
  check_not_negative("agent.monitor_interval", agent.monitor_interval.ns);
  for (const std::int32_t n : agent.n_ranks_later) {
    if (n >= 1) continue;
    refuse(fmt::format("a restarted world of {} ranks; it has at least one", n));
  }
}

}  // namespace

void check_options(const RunOptions& options) {
  if (options.ranks < 1) {
    refuse(fmt::format("ranks is {}; a world has at least one", options.ranks));
  }
  if (options.ranks > kMostRanks) {
    refuse(fmt::format("ranks is {}; a world has at most {}", options.ranks, kMostRanks));
  }
  if (options.stack_bytes != 0 &&
      (options.stack_bytes < kLeastStack || options.stack_bytes > kMostStack)) {
    refuse(fmt::format("stack_bytes is {}; it is {} to {}, or 0 for the default",
                       options.stack_bytes,
                       kLeastStack,
                       kMostStack));
  }
  if (options.coverage < 1) {
    refuse(fmt::format("coverage is {}; digests cover 1/coverage of a tensor, 1 is all of it",
                       options.coverage));
  }
  if (!options.faults.empty() && !options.record) {
    refuse("faults strike at recorded events: set record");
  }
  check_not_negative("watchdog", options.watchdog.count());
  check_net(options.net, options.ranks);
  check_compute(options.compute, options.ranks);
  for (const sim::Fault& fault : options.faults) check_fault(fault, options.ranks);
  if (options.agent) check_agent(*options.agent);
  if (options.timeout.count() <= 0) {
    refuse(fmt::format("timeout is {} ms; an operation needs some time", options.timeout.count()));
  }
}

}  // namespace lockstep::detail
