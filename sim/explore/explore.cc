#include "lockstep/sim/explore/explore.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "lockstep/sim/strategy/strategy_kind.h"
#include "lockstep/sim/strategy/uniform.h"

namespace lockstep::sim {

namespace {

/// Gives each run its strategy.
class Source {
 public:
  virtual ~Source() = default;
  /// Of the next run; null: there is none left.
  virtual Strategy* next(std::uint64_t seed) = 0;

  virtual void finish(Exploration& /*result*/) {}
};

class SeededSource final : public Source {
 public:
  Strategy* next(std::uint64_t seed) override {
    strategy_ = make_random(seed);
    return strategy_.get();
  }

 private:
  std::unique_ptr<Strategy> strategy_;
};

class PctSource final : public Source {
 public:
  PctSource(std::int32_t depth, std::uint64_t n_steps) : depth_(depth), n_steps_(n_steps) {}

  Strategy* next(std::uint64_t seed) override {
    note();
    strategy_ =
        make_pct({.depth = depth_, .steps = std::max<std::uint64_t>(n_steps_, 1), .seed = seed});
    return strategy_.get();
  }

  void finish(Exploration& result) override {
    note();
    result.n_processes = n_processes_;
    result.n_steps = n_steps_;
    result.bound = pct_bound(n_processes_, n_steps_, depth_);
  }

 private:
  void note() {
    if (strategy_ == nullptr) return;
    n_processes_ = std::max(n_processes_, strategy_->n_processes());
    n_steps_ = std::max(n_steps_, strategy_->n_steps());
  }

  std::int32_t depth_;
  std::uint64_t n_steps_;
  std::uint64_t n_processes_ = 0;
  std::unique_ptr<PctStrategy> strategy_;
};

class UniformSource final : public Source {
 public:
  explicit UniformSource(RankLengths lengths) : lengths_(std::move(lengths)) {}

  Strategy* next(std::uint64_t seed) override {
    strategy_ = make_uniform({.seed = seed, .lengths = lengths_});
    return strategy_.get();
  }

 private:
  RankLengths lengths_;
  std::unique_ptr<Strategy> strategy_;
};

class ExhaustiveSource final : public Source {
 public:
  Strategy* next(std::uint64_t /*seed*/) override {
    complete_ = !search_->next();
    return complete_ ? nullptr : search_.get();
  }

  void finish(Exploration& result) override {
    // A budget that ends with the last schedule leaves nothing out.
    result.complete = complete_ || !search_->next();
    result.exhaustive = search_->counts();
  }

 private:
  std::unique_ptr<Exhaustive> search_ = make_exhaustive({});
  bool complete_ = false;
};

// The length of a run, for the first of PCT's.
Result<std::uint64_t> count_steps(const SessionOptions& options,
                                  Session& session,
                                  const Session::Body& body) {
  const auto plain = make_replay(Schedule{});
  const auto run = session.run(options, *plain.value(), body);
  if (!run.ok()) return run.error();
  return run.value().world.n_choices;
}

Result<std::unique_ptr<Source>> make_source(const ExploreOptions& options,
                                            Session& session,
                                            const Session::Body& body) {
  using Made = std::unique_ptr<Source>;
  if (options.strategy == name_of(StrategyKind::kExhaustive)) {
    return Made(std::make_unique<ExhaustiveSource>());
  }
  if (options.strategy == name_of(StrategyKind::kUniform)) {
    auto lengths = count_lengths([&](LengthCounter& counter) -> Outcome {
      const auto run = session.run(options.session, counter, body);
      return run.ok() ? success() : Outcome(run.error());
    });
    if (!lengths.ok()) return lengths.error();
    return Made(std::make_unique<UniformSource>(std::move(lengths).value()));
  }
  const auto named = make_strategy(options.strategy, options.first_seed);
  if (!named.ok()) return named.error();
  if (const auto* pct = dynamic_cast<const PctStrategy*>(named.value().get())) {
    const auto n_steps = count_steps(options.session, session, body);
    if (!n_steps.ok()) return n_steps.error();
    return Made(std::make_unique<PctSource>(pct->options().depth, n_steps.value()));
  }
  if (named.value()->describe().starts_with("random")) {
    return Made(std::make_unique<SeededSource>());
  }
  return Error{"'" + options.strategy +
                   "' makes one schedule; many come from random, pct, uniform or exhaustive",
               {}};
}

void count_end(const Judgement& judgement, const std::string& schedule, Exploration& result) {
  const auto known = std::find_if(result.ends.begin(), result.ends.end(), [&](const EndState& end) {
    return end.digest == judgement.end_state;
  });
  if (known == result.ends.end()) {
    result.ends.push_back({judgement.end_state, 1, schedule});
  } else {
    ++known->n_schedules;
  }
}

}  // namespace

Judgement judge_by_report(const SessionResult& result) {
  const Report& report = result.report;
  if (report.ok()) return {"", report.result_digest};
  const std::string outcome(name_of(report.outcome));
  return {report.error.empty() ? outcome : outcome + ": " + report.error, report.result_digest};
}

Result<Exploration> explore(const ExploreOptions& options,
                            const Session::Body& body,
                            const Judge& judge) {
  Session session;
  const auto source = make_source(options, session, body);
  if (!source.ok()) return source.error();
  Exploration result;
  while (result.n_schedules < options.n_schedules) {
    Strategy* strategy = source.value()->next(options.first_seed + result.n_schedules);
    if (strategy == nullptr) break;
    const auto run = session.run(options.session, *strategy, body);
    if (!run.ok()) return run.error();
    ++result.n_schedules;
    const Judgement judgement = judge(run.value());
    count_end(judgement, run.value().schedule, result);
    if (judgement.failure.empty() || result.failure) continue;
    result.failure = {result.n_schedules, judgement.failure, run.value().schedule};
    if (options.stop_at_failure) break;
  }
  source.value()->finish(result);
  return result;
}

}  // namespace lockstep::sim
