// Whole jobs on an accelerator and the same jobs on the processor: what they compute, and that
// host code waits before it reads what kernels have not written yet.
#include <ostream>

#include "lockstep/comm/loopback_group.h"
#include "lockstep/tensor/digest.h"
#include "lockstep/trace/trace_digest.h"
#include "lockstep/train/rank_program.h"

#include "tests/gpu/cuda/beside_cpu.h"

namespace lockstep::testing {
namespace {

/// What a run leaves: everything recorded and the trained values as one number each, and losses.
struct Trained {
  std::uint64_t result = 0;
  std::int64_t n_events = 0;
  std::uint64_t values = 0;
  std::vector<double> losses;

  friend bool operator==(const Trained&, const Trained&) = default;
};

std::ostream& operator<<(std::ostream& out, const Trained& trained) {
  out << trained.n_events << " events " << trained.result << ", values " << trained.values;
  for (const double loss : trained.losses) out << ", " << loss;
  return out;
}

class KeepsValues final : public LoopHook {
 public:
  void before(LoopPoint point, LoopState& state) override {
    if (point != LoopPoint::kEnd) return;
    for (const Variable& parameter : state.model->parameters()) {
      const Tensor& data = parameter.data();
      digest = mix64(digest + sm64(data.raw(), data.n_elems(), data.dtype()));
    }
  }

  std::uint64_t digest = 0;
};

enum class Watched : std::uint8_t {
  kNo,   ///< Only what the loop itself reads makes it wait.
  kYes,  ///< Digests of everything are taken, which wait as well.
};

Trained train(const Job& job, Machine& machine, Watched watched) {
  Runtime& runtime = machine.runtime();
  const std::unique_ptr<ProcessGroup> group = make_loopback_group(runtime);
  NameTable names;
  TraceDigest digest;
  Recorder recorder(Rank{0}, runtime.host(), names, digest, {});
  if (watched == Watched::kYes) runtime.set_recorder(&recorder);
  RankContext context(Rank{0}, 1, runtime, *group);
  KeepsValues kept;
  LoopHook* const hook = &kept;
  const RankOutcomeValues outcome = run_job(job, context, {&hook, 1});
  runtime.set_recorder(nullptr);
  return {digest.result(), digest.n_events(), kept.digest, outcome.losses};
}

std::shared_ptr<const data::Dataset> rows(std::int64_t size,
                                          std::int64_t columns,
                                          std::int64_t classes,
                                          std::int64_t targets) {
  data::DatasetParts parts{.name = "rows", .size = size, .feature_columns = columns};
  for (std::int64_t i = 0; i < size * columns; ++i) {
    const double thirds = static_cast<double>((i * 7919) % 101 - 50) / 30.0;
    parts.features.push_back(targets > 1 ? static_cast<double>((i * 31) % classes) : thirds);
  }
  if (targets == 0) {
    for (std::int64_t i = 0; i < size; ++i) parts.labels.push_back(i * 31 % classes);
  }
  parts.target_columns = targets;
  for (std::int64_t i = 0; i < size * targets; ++i) {
    parts.targets.push_back(targets > 1 ? static_cast<double>((i * 37) % classes)
                                        : static_cast<double>(i % 13) / 7.0);
  }
  return std::make_shared<const data::Dataset>(data::Dataset::make(std::move(parts)).value());
}

Job job_of(ModelSpec model, std::shared_ptr<const data::Dataset> dataset, LossKind loss) {
  Job job;
  job.model = std::move(model);
  job.train = std::move(dataset);
  job.loader = {.batch = 4, .shuffle = true};
  job.loss.kind = loss;
  job.optimizer = {.lr = 0.05, .momentum = 0.9};
  job.loop.steps = 4;
  job.loop.eval = {.every_epochs = 1, .metric = parse_enum<EvalMetric>(name_of(loss)).value()};
  job.holdout = job.train;
  return job;
}

/// Nothing but sums, products and square roots: the device's bits are the processor's.
std::vector<Job> strict_jobs() {
  Job mlp =
      job_of({.kind = ModelKind::kMlp, .widths = {6, 16, 5, 1}}, rows(24, 6, 0, 1), LossKind::kMse);
  Job bn = job_of({.kind = ModelKind::kBn, .widths = {6, 8, 1}}, rows(24, 6, 0, 1), LossKind::kL1);
  bn.optimizer = {.kind = OptimizerKind::kAdamW, .lr = 0.01, .weight_decay = 0.1};
  bn.clip.norm = 0.1;
  Job clipped = mlp;
  clipped.optimizer = {
      .kind = OptimizerKind::kRmsprop, .lr = 0.01, .momentum = 0.9, .centered = true};
  clipped.clip.value = 0.01;
  clipped.scaler = ScalerSpec{.options = {.init_scale = 8.0}};
  clipped.loop.accumulate = 2;
  Job hooked = mlp;
  hooked.ddp.hook.kind = HookKind::kFp16;
  hooked.optimizer = {.kind = OptimizerKind::kAdagrad, .lr = 0.01};
  Job low_rank = mlp;
  low_rank.ddp.hook = {.kind = HookKind::kPowerSgd,
                       .power_sgd = {.rank = 1, .start_iter = 2, .min_compression_rate = 0.5}};
  Job alone = mlp;
  alone.ddp.wrap = false;
  alone.ddp.average = AverageBy::kNone;
  // Products from 64^3 multiplications on: strict ones add as the processor does.
  Job wide = job_of(
      {.kind = ModelKind::kMlp, .widths = {64, 97, 80, 1}}, rows(160, 64, 0, 1), LossKind::kMse);
  wide.loader.batch = 70;
  return {mlp, bn, clipped, hooked, low_rank, alone, wide};
}

/// With functions of the C library, which differ between the device and the processor.
std::vector<Job> library_jobs() {
  Job cnn =
      job_of({.kind = ModelKind::kCnn, .widths = {3, 4, 5}, .image = {1, 8, 8}, .batch_norm = true},
             rows(16, 64, 5, 0),
             LossKind::kCrossEntropy);
  Job gpt = job_of(
      {.kind = ModelKind::kGpt,
       .gpt = {.vocab = 7, .context = 6, .layers = 2, .heads = 2, .width = 8, .dropout = 0.1}},
      rows(16, 6, 7, 6),
      LossKind::kCrossEntropy);
  gpt.optimizer = {.kind = OptimizerKind::kAdam, .lr = 0.01};
  Job bent =
      job_of({.kind = ModelKind::kMlp, .widths = {6, 16, 3}, .activation = ActivationKind::kTanh},
             rows(24, 6, 3, 0),
             LossKind::kCrossEntropy);
  bent.loop.snapshot = {.every_steps = 2};
  return {cnn, gpt, bent};
}

class TrainingTest : public BesideCpu {
 protected:
  void expect_same_training(const std::vector<Job>& jobs, cuda::Arithmetic arithmetic) {
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      for (const Watched watched : {Watched::kNo, Watched::kYes}) {
        Machine cpu;
        Machine machine(accelerator(arithmetic));
        const Trained wanted = train(jobs[i], cpu, watched);
        ASSERT_EQ(wanted.losses.size(), 4U);
        EXPECT_EQ(wanted.n_events > 0, watched == Watched::kYes);
        EXPECT_EQ(train(jobs[i], machine, watched), wanted) << "job " << i;
      }
    }
  }
};

TEST_P(TrainingTest, JobsWithoutTheLibrarysFunctionsEndWithTheProcessorsBits) {
  expect_same_training(strict_jobs(), {.cublas = false});
}

TEST_P(TrainingTest, AllJobsEndWithTheProcessorsBitsInStrictArithmetic) {
  expect_same_training(strict_jobs(), cuda::kStrict);
  expect_same_training(library_jobs(), cuda::kStrict);
}

TEST_P(TrainingTest, LibraryJobsHaveTheProcessorsBitsOnTheHostAndComeCloseOnTheDevice) {
  if (GetParam() != cuda::ExecutionTarget::kDevice) {
    return expect_same_training(library_jobs(), {.cublas = false});
  }
  for (const Job& job : library_jobs()) {
    Machine cpu;
    Machine machine(accelerator());
    const Trained wanted = train(job, cpu, Watched::kYes);
    const Trained got = train(job, machine, Watched::kYes);
    EXPECT_EQ(got.n_events, wanted.n_events);
    ASSERT_EQ(got.losses.size(), wanted.losses.size());
    for (std::size_t i = 0; i < got.losses.size(); ++i) {
      EXPECT_NEAR(got.losses[i], wanted.losses[i], 1e-4 * std::abs(wanted.losses[i]));
    }
  }
}

TEST_P(TrainingTest, TrainingIsDeterministic) {
  for (const Job& job : library_jobs()) {
    Machine first(accelerator());
    Machine second(accelerator());
    EXPECT_EQ(train(job, first, Watched::kNo), train(job, second, Watched::kNo));
  }
}

LOCKSTEP_ON_EVERY_PLACE(TrainingTest);

/// Runs late, and ignores one of the calls to wait.
class Hasty final : public Accelerator {
 public:
  explicit Hasty(std::int64_t ignored_call) : ignored_call_(ignored_call) {}

  Kernels& kernels() override { return late_->kernels(); }

  void* allocate(std::size_t n_bytes) override { return late_->allocate(n_bytes); }

  void release(void* data, std::size_t n_bytes) override { late_->release(data, n_bytes); }

  void settle() override {
    if (n_calls_++ != ignored_call_) late_->settle();
  }

 private:
  std::unique_ptr<Accelerator> late_ =
      cuda::make_accelerator(cuda::ExecutionTarget::kHostLate, cuda::Arithmetic{.cublas = false});
  std::int64_t n_calls_ = 0;
  std::int64_t ignored_call_;
};

TEST(HastyTest, HostCodeThatDoesNotWaitIsNoticed) {
  Job job = strict_jobs()[0];
  job.ddp.wrap = false;  // Reductions wait by themselves.
  job.ddp.average = AverageBy::kNone;
  Machine cpu;
  const Trained wanted = train(job, cpu, Watched::kNo);
  std::int64_t n_noticed = 0;
  for (std::int64_t call = 0; call < 300; ++call) {
    Machine hasty(std::make_unique<Hasty>(call));
    if (!(train(job, hasty, Watched::kNo) == wanted)) ++n_noticed;
  }
  // Most calls find nothing queued, or something that is never read; each step reads its loss.
  EXPECT_GE(n_noticed, job.loop.steps.value());
}

}  // namespace
}  // namespace lockstep::testing
