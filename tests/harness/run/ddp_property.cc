// The promises of data-parallel training over random worlds, models, batches, buckets and
// schedules, against a reference that knows nothing of DDP. tests/mutation/ breaks DDP on purpose
// and shows that this suite notices.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/harness/run/training_case.h"

namespace lockstep::testing {

namespace {

TrainingCase any_case(bool exact) {
  TrainingCase c;
  c.exact = exact;
  c.ranks = exact ? std::int32_t{1} << *rc::gen::inRange(0, 7) : *rc::gen::inRange(1, 65);
  const auto n_widths = *rc::gen::inRange<std::size_t>(2, 5);
  c.widths.clear();
  for (std::size_t i = 0; i < n_widths; ++i) {
    c.widths.push_back(exact ? std::int64_t{1} << *rc::gen::inRange(0, 3)
                             : *rc::gen::inRange<std::int64_t>(1, 6));
  }
  c.batch =
      exact ? std::int64_t{1} << *rc::gen::inRange(0, 3) : *rc::gen::inRange<std::int64_t>(1, 6);
  c.steps = *rc::gen::inRange<std::int64_t>(1, 5);
  c.accumulate = *rc::gen::inRange<std::int64_t>(1, 4);
  c.no_sync = *rc::gen::arbitrary<bool>();
  c.view = *rc::gen::arbitrary<bool>();
  c.cap_bytes = *rc::gen::element<std::int64_t>(1, 16, 64, 256, 1 << 20);
  c.seed = *rc::gen::inRange<std::uint64_t>(0, 1'000'000);
  c.schedule_seed = *rc::gen::inRange<std::uint64_t>(0, 1'000);
  c.order = *rc::gen::element<ReductionOrder>(
      ReductionOrder::kRank, ReductionOrder::kGlooRing, ReductionOrder::kPairwise);
  return c;
}

RunResult<RankLog> train(const TrainingCase& c) {
  return run_ranks(run_options(c), [&c](RankContext& context) { return train_rank(c, context); });
}

template <typename F>
void in_one_process(const TrainingCase& c, F body) {
  run_ranks({.ranks = 1, .exact = c.exact, .record = false},
            [&](RankContext& context) { body(context.runtime()); });
}

}  // namespace

RC_GTEST_PROP(DdpProperty, ReplicasStayEqualBitForBit, ()) {
  const TrainingCase c = any_case(false);

  const RunResult<RankLog> run = train(c);

  RC_ASSERT(run.ok());
  for (const auto& log : run.results) {
    RC_ASSERT(log->params == run.results[0]->params);
    RC_ASSERT(log->grads == run.results[0]->grads);
  }
}

RC_GTEST_PROP(DdpProperty, TrainingStartsFromTheWeightsOfRankZero, ()) {
  const TrainingCase c = any_case(false);

  const RunResult<RankLog> run = train(c);

  in_one_process(c, [&](Runtime& runtime) {
    const std::vector<double> expected = flat_params(make_model(c, runtime, c.seed)->parameters());
    for (const auto& log : run.results) RC_ASSERT(log->params[0] == expected);
  });
}

RC_GTEST_PROP(DdpProperty, TheGradientOfAStepIsTheMeanOverRanks, ()) {
  const TrainingCase c = any_case(false);

  const RunResult<RankLog> run = train(c);

  const double factor = error_factor(c);
  in_one_process(c, [&](Runtime& runtime) {
    for (std::size_t step = 0; step < run.results[0]->grads.size(); ++step) {
      const RankLog& log = *run.results[0];
      const Reference expected =
          reference_gradient(c, runtime, static_cast<std::int64_t>(step), log.params[step]);
      for (std::size_t i = 0; i < expected.mean.size(); ++i) {
        const double miss = std::fabs(log.grads[step][i] - expected.mean[i]);
        RC_ASSERT(miss <= factor * expected.mean_abs[i]);
      }
    }
  });
}

RC_GTEST_PROP(DdpProperty, InExactArithmeticManyRanksAreOneProcess, ()) {
  const TrainingCase c = any_case(true);

  const RunResult<RankLog> run = train(c);

  in_one_process(c, [&](Runtime& runtime) {
    const auto model = make_model(c, runtime, c.seed);
    const std::vector<Variable> parameters = model->parameters();
    optim::Sgd optimizer(parameters, {.lr = kLearningRate});
    optimizer.round_each_step({.bits = 4, .limit = 4.0});
    for (std::int64_t step = 0; step < c.steps; ++step) {
      optimizer.zero_grad();
      for (std::int32_t rank = 0; rank < c.ranks; ++rank) {
        for (std::int64_t micro = 0; micro < c.accumulate; ++micro) {
          scale(loss_of(c, *model, runtime, step, micro, rank), 1.0 / c.ranks).backward();
        }
      }
      RC_ASSERT(run.results[0]->grads[static_cast<std::size_t>(step)] == flat_grads(parameters));
      optimizer.step();
    }
    RC_ASSERT(run.results[0]->params.back() == flat_params(parameters));
  });
}

RC_GTEST_PROP(DdpProperty, TheScheduleChangesNothingButTheTrace, ()) {
  TrainingCase c = any_case(false);
  c.schedule_seed = 0;
  const RunResult<RankLog> first = train(c);
  c.schedule_seed = *rc::gen::inRange<std::uint64_t>(1, 1'000'000);

  const RunResult<RankLog> second = train(c);

  RC_ASSERT(first.report.result_digest == second.report.result_digest);
  for (std::size_t rank = 0; rank < first.results.size(); ++rank) {
    RC_ASSERT(first.results[rank]->params == second.results[rank]->params);
  }
}

RC_GTEST_PROP(DdpProperty, ReplayRepeatsTheWholeTrace, ()) {
  TrainingCase c = any_case(false);
  c.schedule_seed = *rc::gen::inRange<std::uint64_t>(1, 1'000'000);
  const RunResult<RankLog> first = train(c);
  RunOptions options = run_options(c);
  options.replay = first.replay_token();

  const RunResult<RankLog> second =
      run_ranks(options, [&c](RankContext& context) { return train_rank(c, context); });

  RC_ASSERT(first.report.trace_digest == second.report.trace_digest);
}

}  // namespace lockstep::testing
