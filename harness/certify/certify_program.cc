#include <stdexcept>
#include <utility>

#include "lockstep/certify.h"
#include "lockstep/harness/certify/detail/weigh.h"
#include "lockstep/sim/session/session.h"

namespace lockstep {
namespace {

using Loop = std::function<void(RankContext&, Probe&)>;
using TokensByRank = std::vector<std::vector<std::int64_t>>;

/// Where each rank's samples begin among the columns; nothing: all share one.
struct ColumnPlan {
  std::vector<std::int64_t> first;
  std::int64_t n_columns = 1;
};

ColumnPlan plan_columns(const TokensByRank& tokens) {
  ColumnPlan plan{.first = {}, .n_columns = 0};
  for (const std::vector<std::int64_t>& own : tokens) {
    plan.first.push_back(plan.n_columns);
    plan.n_columns += static_cast<std::int64_t>(own.size());
  }
  if (plan.n_columns == 0) throw std::runtime_error("certify: the loop takes no samples");
  return plan;
}

/// Calls the loop on every rank. Returns the trace; `tokens` is what each rank took.
std::shared_ptr<MemoryTrace> run_loop(const CertifyOptions& options,
                                      const Loop& loop,
                                      const ColumnPlan& plan,
                                      TokensByRank& tokens) {
  sim::SessionOptions session_options;
  session_options.n_ranks = options.ranks;
  session_options.values = true;
  tokens.assign(static_cast<std::size_t>(options.ranks), {});
  sim::Session session;
  auto run = session.run(session_options, [&](RankContext& rank) {
    const auto r = static_cast<std::size_t>(rank.rank());
    Probe probe(rank, plan.first.empty() ? -1 : plan.first[r], plan.n_columns);
    loop(rank, probe);
    tokens[r] = probe.tokens();
  });
  if (!run.ok()) throw std::runtime_error("certify: " + run.error().text());
  const std::string why = why_unfinished(run.value());
  if (!why.empty()) throw std::runtime_error("certify: the loop does not finish (" + why + ")");
  return run.value().trace;
}

}  // namespace

Certificate certify(const CertifyOptions& options, const Loop& loop) {
  if (options.ranks < 1) throw std::invalid_argument("certify: there must be at least one rank");
  const bool by_rank = options.objective.kind == ObjectiveKind::kRankWeights;
  const auto n_ranks = static_cast<std::size_t>(options.ranks);
  if (by_rank && options.objective.by_rank.size() != n_ranks) {
    throw std::invalid_argument("certify: the objective has " +
                                std::to_string(options.objective.by_rank.size()) + " weights for " +
                                std::to_string(n_ranks) + " ranks");
  }
  TokensByRank tokens;
  run_loop(options, loop, {}, tokens);
  const ColumnPlan plan = plan_columns(tokens);
  const TokensByRank planned = tokens;
  const auto trace = run_loop(options, loop, plan, tokens);
  if (tokens != planned) {
    throw std::runtime_error(
        "certify: the loop consumed different samples in a second run: it must be deterministic");
  }
  ProbedRun run;
  run.ranks = windows_of(*trace, options.ranks);
  run.sample = [&](std::int32_t rank, std::int64_t id) {
    const auto r = static_cast<std::size_t>(rank);
    return ProbedSample{plan.first[r] + id, tokens[r][static_cast<std::size_t>(id)]};
  };
  Certificate certificate = weigh(run, options.objective);
  name_faults(certificate);
  return certificate;
}

}  // namespace lockstep
