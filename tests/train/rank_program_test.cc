#include "lockstep/train/rank_program.h"

#include <cmath>
#include <gmock/gmock.h>
#include <stdexcept>
#include <utility>

#include <gtest/gtest.h>

#include "lockstep/trace/memory_trace.h"
#include "lockstep/trace/recorder.h"
#include "lockstep/train/evaluate.h"
#include "lockstep/train/micro_step.h"
#include "lockstep/train/rank_epoch.h"

#include "tests/train/one_rank.h"

namespace lockstep::testing {

namespace {

// y = w x with w = 2 on x = 1, y = 1: gradients 2, -2, 2, ... and weights 2, 0, 2, ... at lr 1.
Job swinging_job() {
  Job job;
  job.model = {.kind = ModelKind::kLinear, .widths = {1, 1}, .bias = false};
  job.model.init = {.kind = InitKind::kConstant, .value = 2.0};
  job.train = column_data({1.0}, {1.0});
  job.optimizer.lr = 1.0;
  job.loop.steps = 3;
  return job;
}

class KeepsWeights final : public LoopHook {
 public:
  void after(LoopPoint point, LoopState& state) override {
    if (point == LoopPoint::kStep) weights.push_back(state.model->parameters()[0].data().item());
  }

  std::vector<double> weights;
};

class LeavesOut final : public LoopHook {
 public:
  explicit LeavesOut(LoopPoint point) : point_(point) {}

  void before(LoopPoint point, LoopState& state) override {
    if (point == point_) state.skip = true;
  }

 private:
  LoopPoint point_;
};

RankOutcomeValues run(const Job& job, std::vector<LoopHook*> hooks) {
  OneRank one;
  return run_job(job, one.context(), hooks);
}

}  // namespace

TEST(RankProgramTest, DoesTheStepsOfTheHandComputation) {
  KeepsWeights kept;

  const RankOutcomeValues outcome = run(swinging_job(), {&kept});

  EXPECT_EQ(kept.weights, (std::vector<double>{0.0, 2.0, 0.0}));
  EXPECT_EQ(outcome.losses, (std::vector<double>{1.0, 1.0, 1.0}));
  EXPECT_EQ(outcome.n_steps, 3);
}

TEST(RankProgramTest, AccumulatesGradientsOverMicroSteps) {
  Job job = swinging_job();
  job.train = column_data({1.0, 1.0}, {1.0, 1.0});
  job.loop.accumulate = 2;
  job.loop.steps = 1;
  KeepsWeights kept;

  run(job, {&kept});

  EXPECT_EQ(kept.weights, (std::vector<double>{-2.0}));  // 2 - (2 + 2)
}

TEST(RankProgramTest, KeepsGradientsThatAreNotZeroed) {
  Job job = swinging_job();
  job.loop.zero_grad = ZeroGrad::kNever;
  KeepsWeights kept;

  run(job, {&kept});

  // Gradients 2, then 2 - 2 = 0, then 0 - 2.
  EXPECT_EQ(kept.weights, (std::vector<double>{0.0, 0.0, 2.0}));
}

/// What one rank records of two epochs of two steps each, with an evaluation after each epoch and a
/// snapshot after every second step: the barriers among it, by epoch and number of steps before.
std::vector<std::pair<int, int>> barriers_of(std::vector<BarrierPlace> places) {
  Job job = swinging_job();
  job.train = column_data({1.0, 1.0}, {1.0, 1.0});
  job.holdout = column_data({1.0}, {1.0});
  job.loop.steps.reset();
  job.loop.epochs = 2;
  job.loop.eval.every_epochs = 1;
  job.loop.snapshot.every_steps = 2;
  job.loop.barriers = std::move(places);
  OneRank one;
  MemoryTrace trace{std::make_shared<NameTable>()};
  trace.ensure_ranks(1);
  Recorder recorder(Rank{0}, one.host(), *trace.shared_names(), trace, {});
  one.runtime().set_recorder(&recorder);
  run_job(job, one.context(), {});
  one.runtime().set_recorder(nullptr);
  std::vector<std::pair<int, int>> barriers;
  int n_steps = 0;
  for (const Event& event : trace.events(Rank{0})) {
    if (std::holds_alternative<StepEvent>(event.body)) ++n_steps;
    const auto* const call = std::get_if<CollectiveEvent>(&event.body);
    if (call == nullptr || call->phase != CollectivePhase::kPosted) continue;
    if (call->signature.op != CollectiveOp::kBarrier) continue;
    barriers.emplace_back(event.at.epoch, n_steps);
  }
  return barriers;
}

TEST(RankProgramTest, RanksWaitWhereTheBarriersSay) {
  using Places = std::vector<std::pair<int, int>>;
  EXPECT_EQ(barriers_of({}), Places{});
  EXPECT_EQ(barriers_of({BarrierPlace::kEpoch}), (Places{{0, 0}, {1, 2}}));
  EXPECT_EQ(barriers_of({BarrierPlace::kStep}), (Places{{0, 0}, {0, 1}, {1, 2}, {1, 3}}));
  EXPECT_EQ(barriers_of({BarrierPlace::kEval}), (Places{{0, 2}, {1, 4}}));
  EXPECT_EQ(barriers_of({BarrierPlace::kSchedule}), (Places{{0, 2}, {1, 4}}));
  EXPECT_EQ(barriers_of({BarrierPlace::kSave}), (Places{{0, 2}, {1, 4}}));
  EXPECT_EQ(barriers_of({BarrierPlace::kEval, BarrierPlace::kSchedule}).size(), 4U);
}

TEST(RankProgramTest, AHookMayLeaveOutAStep) {
  KeepsWeights kept;
  LeavesOut leaves_out(LoopPoint::kStep);

  run(swinging_job(), {&leaves_out, &kept});

  EXPECT_EQ(kept.weights, (std::vector<double>{2.0, 2.0, 2.0}));
}

TEST(RankProgramTest, RoundsToTheGridAfterEachStepOfAnExactJob) {
  Job job = swinging_job();
  job.optimizer.lr = 0.30;  // 2 - 0.6 = 1.4, on the grid of halves 1.5
  job.exact = {.on = true, .grid = 1, .clamp = 8.0};
  job.loop.steps = 1;
  KeepsWeights kept;

  run(job, {&kept});

  EXPECT_EQ(kept.weights, (std::vector<double>{1.5}));
}

// Adam's first step is lr * sign(gradient) up to eps, whatever the gradient's size.
TEST(RankProgramTest, TrainsWithAdam) {
  Job job = swinging_job();
  job.model.dtype = DType::kF64;
  job.optimizer = {.kind = OptimizerKind::kAdam, .lr = 0.5, .eps = 0.0};
  job.loop.steps = 1;
  KeepsWeights kept;

  run(job, {&kept});

  EXPECT_EQ(kept.weights, (std::vector<double>{1.5}));
}

// Half a cosine over two epochs: rates lr, lr / 2, 0.
TEST(RankProgramTest, AdvancesTheRateOncePerEpoch) {
  Job job = swinging_job();
  job.scheduler = {.rules = {optim::CosineAnnealingLr{.t_max = 2}}};
  job.loop.steps.reset();
  job.loop.epochs = 3;
  KeepsWeights kept;

  run(job, {&kept});

  ASSERT_EQ(kept.weights.size(), 3U);
  EXPECT_EQ(kept.weights[0], 0.0);  // 2 - 1 * 2
  EXPECT_EQ(kept.weights[1], 1.0);  // 0 + 1/2 * 2
  EXPECT_EQ(kept.weights[2], 1.0);  // The gradient is 0, and the rate too.
}

// Rate 1 twice, then half of it: the weight swings and the loss stays where it is.
TEST(RankProgramTest, LowersTheRateOnAPlateau) {
  Job job = swinging_job();
  job.scheduler.plateau = optim::PlateauOptions{.factor = 0.5, .patience = 0};
  job.scheduler.per = RatePace::kStep;
  job.loop.steps = 3;
  KeepsWeights kept;

  run(job, {&kept});

  ASSERT_EQ(kept.weights.size(), 3U);
  EXPECT_EQ(kept.weights[0], 0.0);  // 2 - 1 * 2; the loss is 1.
  EXPECT_EQ(kept.weights[1], 2.0);  // 0 + 1 * 2; the loss is 1 again.
  EXPECT_EQ(kept.weights[2], 1.0);  // 2 - 1/2 * 2
}

TEST(RankProgramTest, AScalerThatIsNotUpdatedRefusesTheSecondStep) {
  Job job = swinging_job();
  job.scaler = ScalerSpec{.update = false};
  KeepsWeights kept;
  OneRank one;
  std::vector<LoopHook*> hooks = {&kept};

  EXPECT_THAT(([&] { run_job(job, one.context(), hooks); }),
              ::testing::ThrowsMessage<std::runtime_error>(
                  "step() has already been called since the last update()."));
  EXPECT_EQ(kept.weights, (std::vector<double>{0.0}));
}

TEST(RankProgramTest, ScalesUnscalesAndClips) {
  Job job = swinging_job();
  job.scaler = ScalerSpec{.options = {.init_scale = 1024.0}};
  job.clip.value = 0.5;
  job.loop.steps = 1;
  KeepsWeights kept;

  run(job, {&kept});
  EXPECT_EQ(kept.weights, (std::vector<double>{1.5}));  // 2 - 1 * 0.5

  // The twin: clipped while still scaled, the gradient nearly vanishes.
  job.clip.unscale = false;
  KeepsWeights scaled;
  run(job, {&scaled});
  EXPECT_EQ(scaled.weights, (std::vector<double>{2.0 - 0.5 / 1024}));
}

TEST(RankProgramTest, TrainsGroupsWithTheirOwnRates) {
  Job job = swinging_job();
  job.optimizer.groups = {{.tensors = {"weight"}, .lr = 0.25}};
  job.loop.steps = 1;
  KeepsWeights kept;

  run(job, {&kept});

  EXPECT_EQ(kept.weights, (std::vector<double>{1.5}));  // 2 - 0.25 * 2
}

TEST(MicroStepTest, WeighsRowsByTheirTokens) {
  OneRank one;
  Job job;
  job.model = {.kind = ModelKind::kLinear, .widths = {1, 1}, .bias = false, .dtype = DType::kF64};
  job.loss = {.kind = LossKind::kMse, .normalize = LossDivisor::kLocalTokens};
  job.train = column_data({1.0, 2.0}, {0.0, 0.0}, {1, 3});
  const std::vector<std::int64_t> ids = {0, 1};
  Batch batch = make_batch(job, *job.train, one.runtime(), ids);
  const double denominator = loss_denominator(job, batch, one.context());
  weigh_rows(job, *job.train, batch, ids, denominator);

  const Variable loss = micro_loss(job, Variable(batch.x), batch, denominator, 1.0);

  EXPECT_EQ(denominator, 4.0);
  EXPECT_EQ(loss.item(), (1.0 * 1.0 + 3.0 * 4.0) / 4.0);
}

TEST(MicroStepTest, DividesByRowsTimesColumnsAsPyTorchDoes) {
  OneRank one;
  Job job;
  job.model.dtype = DType::kF64;
  job.loss = {.kind = LossKind::kL1};
  job.train = column_data({3.0, 5.0}, {1.0, 1.0});
  const std::vector<std::int64_t> ids = {0, 1};
  const Batch batch = make_batch(job, *job.train, one.runtime(), ids);

  const Variable loss = micro_loss(job, Variable(batch.x), batch, 2.0, 4.0);

  EXPECT_EQ(loss.item(), 4.0 * (2.0 + 4.0) / 2.0);
}

TEST(RankEpochTest, CutsAShareIntoBatchesWithAShortTail) {
  OneRank one;
  Job job;
  job.train = column_data({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, std::vector<double>(10));
  job.loader = {.batch = 2};

  const RankEpoch epoch = plan_epoch(job, one.as(1, 2), 0);

  EXPECT_EQ(epoch.ids, (std::vector<std::int64_t>{1, 3, 5, 7, 9}));
  EXPECT_EQ(epoch.batch_sizes, (std::vector<std::int64_t>{2, 2, 1}));
}

TEST(RankEpochTest, RanksAgreeOnKeyAndOrderAndEpochsDiffer) {
  OneRank one;
  Job job;
  job.train = column_data(std::vector<double>(30), std::vector<double>(30));
  job.loader = {.batch = 2, .shuffle = true, .seed = 5};

  const RankEpoch first = plan_epoch(job, one.as(0, 3), 4);
  const RankEpoch second = plan_epoch(job, one.as(2, 3), 4);
  const RankEpoch later = plan_epoch(job, one.as(2, 3), 5);

  EXPECT_EQ(first.generator_key, 9U);
  EXPECT_EQ(first.order_digest, second.order_digest);
  EXPECT_NE(first.ids, second.ids);
  EXPECT_NE(second.order_digest, later.order_digest);
}

TEST(RankEpochTest, BatchesByRankReadConsecutiveRows) {
  OneRank one;
  Job job;
  job.train = column_data(std::vector<double>(10), std::vector<double>(10));
  job.loader = {.sampler = SamplerKind::kBatchesByRank, .batches_by_rank = {{4, 4}, {2}}};

  const RankEpoch epoch = plan_epoch(job, one.as(1, 2), 0);

  EXPECT_EQ(epoch.ids, (std::vector<std::int64_t>{8, 9}));
  EXPECT_EQ(epoch.batch_sizes, (std::vector<std::int64_t>{2}));
}

TEST(ModelTest, NamesParametersAsAScriptWould) {
  OneRank one;
  const auto names_of = [&](const ModelSpec& spec) {
    std::vector<std::string> names;
    for (const auto& named : build_model(spec, one.runtime(), 0)->named_parameters()) {
      names.push_back(named.name);
    }
    return names;
  };

  EXPECT_EQ(names_of({.kind = ModelKind::kScalar, .widths = {1, 1}, .bias = false}),
            (std::vector<std::string>{"weight"}));
  EXPECT_EQ(names_of({.kind = ModelKind::kMlp, .widths = {2, 3, 1}}),
            (std::vector<std::string>{"0.weight", "0.bias", "2.weight", "2.bias"}));
  EXPECT_EQ(names_of({.kind = ModelKind::kTwoHead, .widths = {2, 3, 1}, .bias = false}),
            (std::vector<std::string>{"trunk.weight", "head_a.weight", "head_b.weight"}));
}

TEST(ModelTest, SeedsByRankOnlyWhenAsked) {
  OneRank one;
  ModelSpec spec{.kind = ModelKind::kLinear, .widths = {4, 4}};
  const auto first_weight = [&](std::int32_t rank) {
    return build_model(spec, one.runtime(), rank)->parameters()[0].data().at(0);
  };

  EXPECT_EQ(first_weight(0), first_weight(1));
  spec.init.seed_by_rank = true;
  EXPECT_NE(first_weight(0), first_weight(1));
}

TEST(ModelTest, FrozenParametersNeedNoGradient) {
  OneRank one;

  const auto model = build_model(
      {.kind = ModelKind::kMlp, .widths = {2, 2, 1}, .freeze = {"0.weight"}}, one.runtime(), 0);

  EXPECT_FALSE(model->named_parameters()[0].variable.requires_grad());
  EXPECT_TRUE(model->named_parameters()[1].variable.requires_grad());
}

TEST(EvaluateTest, CountsEachHeldOutRowOnce) {
  OneRank one;
  Job job = swinging_job();
  job.holdout = column_data({1.0, 2.0, 3.0}, {2.0, 4.0, 7.0});
  job.loop.eval = {.every_epochs = 1, .metric = EvalMetric::kMse};
  const auto model = build_model(job.model, one.runtime(), 0);

  const EvalResult result = evaluate(job, *model, one.context(), {});

  EXPECT_EQ(result.numerator, 1.0);  // Predictions 2, 4, 6.
  EXPECT_EQ(result.denominator, 3.0);
  EXPECT_TRUE(model->is_training());
}

TEST(EvaluateTest, MayLookAtTheLastTrainingBatchInstead) {
  OneRank one;
  Job job = swinging_job();
  job.train = column_data({5.0, 1.0, 3.0}, {10.0, 1.0, 3.0});
  job.holdout = column_data({1.0, 2.0, 3.0}, {2.0, 4.0, 7.0});
  job.loop.eval = {.every_epochs = 1, .metric = EvalMetric::kMse, .rows = EvalRows::kLastBatch};
  const auto model = build_model(job.model, one.runtime(), 0);
  const std::int64_t last_batch[] = {1, 2};

  const EvalResult result = evaluate(job, *model, one.context(), {.last_batch = last_batch});

  EXPECT_EQ(result.numerator, 10.0);  // Predictions 2 and 6 of 1 and 3.
  EXPECT_EQ(result.denominator, 2.0);
}

}  // namespace lockstep::testing
