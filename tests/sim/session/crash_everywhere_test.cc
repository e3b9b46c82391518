// A crash at every event and every file step of every rank, each followed by a restart: the job
// must end with the bits of the undisturbed run, and no snapshot may ever be damaged.
#include <gmock/gmock.h>

#include "lockstep/sim/session/session.h"
#include "lockstep/tensor/digest.h"
#include "lockstep/train/rank_program.h"
#include "lockstep/train/snapshots/snapshot_files.h"

#include "tests/train/one_rank.h"

namespace lockstep::sim {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Two ranks, three epochs of three steps, so that snapshots fall into and between epochs.
Job small_job() {
  Job job;
  job.model.kind = ModelKind::kMlp;
  job.model.widths = {1, 3, 1};
  job.train = lockstep::testing::column_data({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12},
                                             {2, 1, 4, 3, 6, 5, 8, 7, 10, 9, 12, 11});
  job.loader = {.batch = 2, .shuffle = true, .seed = 3};
  job.optimizer.kind = OptimizerKind::kAdam;
  job.optimizer.lr = 0.05;
  job.scheduler = {.per = RatePace::kStep, .rules = {optim::StepLr{.step_size = 3}}};
  job.loop.steps = 5;
  job.loop.snapshot = {.every_steps = 2, .path = "ckpt", .keep = 2};
  return job;
}

/// What a rank ends with: a digest of all parameters and the rate.
class FinalState final : public LoopHook {
 public:
  explicit FinalState(std::vector<std::uint64_t>& digests) : digests_(&digests) {}

  void before(LoopPoint point, LoopState& state) override {
    if (point != LoopPoint::kEnd) return;
    std::uint64_t digest = 0;
    for (const NamedVariable& named : state.model->named_parameters()) {
      const Tensor& data = named.variable.data();
      digest = mix64(digest ^ sm64(data.raw(), data.n_elems(), data.dtype()));
    }
    const double lr = state.optimizer->lr();
    digest = mix64(digest ^ sm64(&lr, 1, DType::kF64));
    (*digests_)[static_cast<std::size_t>(state.context->rank())] = digest;
  }

 private:
  std::vector<std::uint64_t>* digests_;
};

struct JobRun {
  SessionResult result;

  std::size_t n_restarts() const { return result.attempts.size() - 1; }

  bool ok() const { return result.attempts.back().finished; }

  std::vector<std::uint64_t> digests;
  std::vector<std::string> damaged;   ///< Manifests that a restart found damaged.
  std::vector<std::int64_t> resumed;  ///< Rank 0's first step, by attempt.
};

class Jobs {
 public:
  JobRun run(const Job& job, SessionOptions options) {
    JobRun run;
    Disks disks;
    options.disks = &disks;
    VirtualDisk& disk = disks.of_node(0);
    auto result = session_.run(options, [&](RankContext& context) {
      run.digests.resize(static_cast<std::size_t>(context.world_size()));
      if (context.rank() == 0 && !run.resumed.empty()) look(disk, run.damaged);
      if (context.rank() == 0) run.resumed.push_back(-1);
      FinalState end(run.digests);
      LoopHook* hooks[] = {&end};
      const RankOutcomeValues values = run_job(job, context, hooks);
      if (context.rank() == 0) run.resumed.back() = values.first_step;
    });
    EXPECT_TRUE(result.ok());
    look(disk, run.damaged);
    run.result = std::move(result).value();
    return run;
  }

 private:
  static void look(VirtualDisk& disk, std::vector<std::string>& damaged) {
    const auto found = SnapshotFiles(disk, "ckpt", PublishManner::kAtomic).damaged();
    ASSERT_TRUE(found.ok());
    damaged.insert(damaged.end(), found.value().begin(), found.value().end());
  }

  Session session_;
};

constexpr Duration kPatience{1'000'000'000};

// With the laws that are cheap: a run takes half a millisecond.
SessionOptions two_ranks(std::vector<Fault> faults = {}) {
  SessionOptions options;
  options.n_ranks = 2;
  options.faults = std::move(faults);
  options.agent = AgentOptions{.max_restarts = 1};
  options.disk_seed = 1;
  options.keep_trace = false;
  options.laws = {"progress",
                  "collectives-match",
                  "init-equal",
                  "replicas-equal",
                  "optimizer-equal",
                  "checkpoint-whole",
                  "decisions-uniform"};
  options.group.watchdog = kPatience;
  return options;
}

void expect_same(const JobRun& run, const JobRun& whole, const Fault& fault) {
  EXPECT_TRUE(run.ok()) << describe(fault) << ": " << run.result.attempts.back().root_cause;
  EXPECT_EQ(run.result.report.n_findings(), 0U) << render_text(run.result.report, false);
  EXPECT_EQ(run.digests, whole.digests) << describe(fault);
  EXPECT_THAT(run.damaged, IsEmpty()) << describe(fault);
}

class CrashEverywhere : public ::testing::TestWithParam<CrashFate> {};

TEST_P(CrashEverywhere, ResumesWithTheSameBitsAfterACrashAtAnyEvent) {
  Jobs jobs;
  const Job job = small_job();
  const JobRun whole = jobs.run(job, two_ranks());
  ASSERT_EQ(whole.result.attempts.size(), 1U);
  std::size_t n_restarts = 0;
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    const auto n = whole.result.attempts[0].n_events[static_cast<std::size_t>(rank)];
    for (std::uint64_t event = 0; event < n; ++event) {
      const Fault fault{.rank = rank, .event = event, .fate = GetParam()};
      const JobRun run = jobs.run(job, two_ranks({fault}));
      expect_same(run, whole, fault);
      n_restarts += run.n_restarts();
    }
  }
  EXPECT_GT(n_restarts, 150U);
}

TEST_P(CrashEverywhere, ResumesWithTheSameBitsAfterACrashAtAnyFileStep) {
  Jobs jobs;
  const Job job = small_job();
  const JobRun whole = jobs.run(job, two_ranks());
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    const auto n = whole.result.attempts[0].n_file_steps[static_cast<std::size_t>(rank)];
    EXPECT_GE(n, rank == 0 ? 20U : 8U);
    for (std::uint64_t step = 0; step < n; ++step) {
      for (const FaultKind kind : {FaultKind::kSigkill, FaultKind::kTornWrite}) {
        const Fault fault{.kind = kind, .rank = rank, .file_step = step, .fate = GetParam()};
        const JobRun run = jobs.run(job, two_ranks({fault}));
        expect_same(run, whole, fault);
        EXPECT_EQ(run.n_restarts(), 1U) << describe(fault);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Fates,
    CrashEverywhere,
    ::testing::Values(CrashFate::kKept, CrashFate::kLost, CrashFate::kTorn, CrashFate::kReordered));

// The same over schedules, with any kind of fault in each of three attempts.
TEST(Crashes, RandomFaultPlansNeverCorruptASnapshot) {
  Jobs jobs;
  const Job job = small_job();
  SessionOptions options = two_ranks();
  const JobRun whole = jobs.run(job, options);
  options.strategy = "random";
  options.agent->max_restarts = 3;
  std::size_t n_restarts = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    options.schedule_seed = options.disk_seed = seed;
    options.faults =
        swarm({.seed = seed, .n_ranks = 2, .n_events = whole.result.attempts[0].n_events[0]});
    const JobRun run = jobs.run(job, options);
    expect_same(run, whole, options.faults[0]);
    n_restarts += run.n_restarts();
  }
  EXPECT_GT(n_restarts, 300U);
}

TEST(Crashes, RestartsAreCountedAndTheirCauseNamedAsTorchrunDoes) {
  Jobs jobs;
  SessionOptions options = two_ranks();
  options.agent->max_restarts = 2;
  for (std::int32_t attempt = 0; attempt < 3; ++attempt) {
    options.faults.push_back({.kind = FaultKind::kExit,
                              .rank = 1,
                              .attempt = attempt,
                              .step = 1,
                              .at = EventKind::kForward});
  }
  const JobRun run = jobs.run(small_job(), options);
  EXPECT_FALSE(run.ok());
  EXPECT_EQ(run.n_restarts(), 2U);
  EXPECT_EQ(run.result.attempts[2].root_cause,
            "rank 1: injected fault: rank 1: exit at forward 0 of step 1");
}

// No rank fails, none proceeds: only a watchdog ends such an attempt.
TEST(Crashes, AHangNeedsAWatchdog) {
  Jobs jobs;
  const Job job = small_job();
  const JobRun whole = jobs.run(job, two_ranks());
  const Fault fault{.kind = FaultKind::kHang, .rank = 0, .step = 3, .at = EventKind::kForward};
  SessionOptions options = two_ranks({fault});
  expect_same(jobs.run(job, options), whole, fault);
  options.group.watchdog = {};
  const JobRun stuck = jobs.run(job, options);
  EXPECT_EQ(stuck.result.attempts.size(), 1U);
  EXPECT_TRUE(stuck.result.attempts[0].stuck);
  EXPECT_EQ(name_of(stuck.result.report.outcome), "hang");
}

// Training continues without the snapshot; the older ones stay.
TEST(Crashes, AFullDiskCostsASnapshotNotTheRun) {
  Jobs jobs;
  const Job job = small_job();
  const JobRun whole = jobs.run(job, two_ranks());
  for (std::uint64_t step = 0; step < 12; ++step) {
    const Fault fault{.kind = FaultKind::kDiskFull, .rank = 0, .file_step = step};
    const JobRun run = jobs.run(job, two_ranks({fault}));
    expect_same(run, whole, fault);
    EXPECT_EQ(run.n_restarts(), 0U);
  }
}

// Another number of ranks: the epoch in progress starts again, the state is that of the snapshot.
TEST(Crashes, ASmallerWorldResumesAfterTheLossOfANode) {
  Jobs jobs;
  SessionOptions options = two_ranks({{.rank = 1, .step = 3, .at = EventKind::kForward}});
  options.agent->n_ranks_later = {1};
  const JobRun run = jobs.run(small_job(), options);
  EXPECT_TRUE(run.ok());
  EXPECT_THAT(run.resumed, ::testing::ElementsAre(-1, 2));
  EXPECT_EQ(run.result.attempts[1].n_ranks, 1);
  EXPECT_THAT(run.damaged, IsEmpty());
}

TEST(Crashes, ResumesWithTheSameBitsAfterAnException) {
  Jobs jobs;
  const Job job = small_job();
  const JobRun whole = jobs.run(job, two_ranks());
  for (std::uint64_t event = 0; event < whole.result.attempts[0].n_events[1]; event += 7) {
    const Fault fault{.kind = FaultKind::kException, .rank = 1, .event = event};
    expect_same(jobs.run(job, two_ranks({fault})), whole, fault);
  }
}

// -- state besides parameters and optimizer

/// PowerSGD that has compressed twice when the first snapshot is taken, in a wrapper that keeps the
/// buckets of its construction.
Job compressing_job() {
  Job job = small_job();
  job.model.widths = {1, 6, 6, 1};
  job.loop.steps = 7;
  job.loop.snapshot.every_steps = 4;
  job.ddp.options.find_unused_parameters = true;
  job.ddp.hook.kind = HookKind::kPowerSgd;
  job.ddp.hook.power_sgd = {.start_iter = 2, .min_compression_rate = 0.5};
  return job;
}

/// Workers that draw signs, from a generator of the rank's own or one that they inherit.
Job augmented_job(AugmentStream stream, std::int64_t n_workers) {
  Job job = small_job();
  job.loader.augment = {.stream = stream, .seed = 5};
  job.loader.workers = n_workers;
  job.loop.steps = 8;
  return job;
}

/// Ranks that go their own ways from the second step on, and meet every third.
Job local_sgd_job() {
  Job job = small_job();
  job.loop.steps = 7;
  job.loop.snapshot.every_steps = 1;
  job.ddp.hook.kind = HookKind::kPostLocalSgd;
  job.ddp.hook.local_sgd = {.subgroup = 1, .start_iter = 2};
  job.optimizer.averager = AveragerSpec{.period = 3};
  return job;
}

SessionOptions options_for(const Job& job) {
  SessionOptions options = two_ranks();
  if (job.optimizer.averager) std::erase(options.laws, "replicas-equal");
  if (job.optimizer.averager) std::erase(options.laws, "optimizer-equal");
  return options;
}

/// How many crashes before a forward of either rank end in another state, of how many.
std::pair<int, int> different_ends(const Job& job) {
  Jobs jobs;
  SessionOptions options = options_for(job);
  const JobRun whole = jobs.run(job, options);
  EXPECT_EQ(name_of(whole.result.report.outcome), "ok") << render_text(whole.result.report, false);
  std::pair<int, int> counts{0, 0};
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    for (std::int64_t step = 0; step < *job.loop.steps; ++step) {
      options.faults = {{.rank = rank, .step = step, .at = EventKind::kForward}};
      const JobRun run = jobs.run(job, options);
      EXPECT_EQ(run.n_restarts(), 1U);
      EXPECT_THAT(run.damaged, IsEmpty());
      counts.first += run.ok() && run.digests == whole.digests ? 0 : 1;
      ++counts.second;
      if (counts.first > 0) continue;
      EXPECT_EQ(run.result.report.n_findings(), 0U) << render_text(run.result.report, false);
    }
  }
  return counts;
}

TEST(CrashesWithHooks, PowerSgdContinuesWithWhatItRemembers) {
  Job job = compressing_job();
  EXPECT_EQ(different_ends(job), std::pair(0, 14));
  job.ddp.hook.power_sgd.warm_start = false;  // Each step's Q is drawn: the stream moves on.
  EXPECT_EQ(different_ends(job), std::pair(0, 14));
  std::erase(job.loop.snapshot.include, SnapshotPart::kHook);
  EXPECT_EQ(different_ends(job), std::pair(6, 14));  // Steps 4, 5 and 6 of both ranks.
}

// The errors of a bucket lie in the order of its gradients: those of the rebuilt buckets do not fit
// the buckets of the new wrapper's construction.
TEST(CrashesWithHooks, PowerSgdCannotContinueWhereBucketsAreRebuilt) {
  Job job = compressing_job();
  job.ddp.options.find_unused_parameters = false;
  EXPECT_EQ(different_ends(job), std::pair(6, 14));
}

TEST(CrashesWithHooks, LocalSgdKeepsEachRanksOwnStateAndItsCounts) {
  Job job = local_sgd_job();
  EXPECT_EQ(different_ends(job), std::pair(0, 14));
  std::erase(job.loop.snapshot.include, SnapshotPart::kHook);
  EXPECT_GT(different_ends(job).first, 0);
}

TEST(CrashesWithHooks, AugmentationContinuesInItsStreams) {
  for (const std::int64_t n_workers : {0, 2}) {
    for (const AugmentStream stream : {AugmentStream::kWorker, AugmentStream::kInherited}) {
      Job job = augmented_job(stream, n_workers);
      EXPECT_EQ(different_ends(job), std::pair(0, 16));
      std::erase(job.loop.snapshot.include, SnapshotPart::kRng);
      // An inherited copy never moves on, so there is nothing to restore.
      const bool moves = n_workers == 0 || stream == AugmentStream::kWorker;
      EXPECT_EQ(different_ends(job).first > 0, moves) << n_workers;
    }
  }
}

// Resuming really happens in the middle of an epoch, and from what was saved last.
TEST(Crashes, ResumeFromTheNewestSnapshot) {
  Jobs jobs;
  const Fault fault{.rank = 1, .step = 4, .at = EventKind::kForward};
  const JobRun run = jobs.run(small_job(), two_ranks({fault}));
  EXPECT_THAT(run.resumed, ::testing::ElementsAre(-1, 4));
  EXPECT_THAT(run.result.attempts[0].root_cause, HasSubstr("sigkill"));
}

// -- negative twins: what the tests above would notice

/// Whether some crash while or after rank 0 saves makes a run end differently, or leaves damage.
struct Noticed {
  bool damage = false;
  bool lost_progress = false;
  bool different = false;
};

Noticed crash_at_file_steps(const Job& job, CrashFate fate) {
  Jobs jobs;
  Noticed noticed;
  const JobRun whole = jobs.run(job, two_ranks());
  const auto n = whole.result.attempts[0].n_events[0];
  for (std::uint64_t event = 2 * n / 3; event < n; ++event) {
    const JobRun run = jobs.run(job, two_ranks({{.rank = 0, .event = event, .fate = fate}}));
    noticed.damage = noticed.damage || !run.damaged.empty();
    noticed.different = noticed.different || run.digests != whole.digests;
    if (run.resumed.size() == 2) {
      noticed.lost_progress = noticed.lost_progress || run.resumed.back() < 2;
    }
  }
  return noticed;
}

TEST(CrashTwins, AnUnsyncedSnapshotIsLost) {
  Job job = small_job();
  EXPECT_FALSE(crash_at_file_steps(job, CrashFate::kLost).lost_progress);
  job.loop.snapshot.publish = PublishManner::kUnsynced;
  const Noticed noticed = crash_at_file_steps(job, CrashFate::kLost);
  EXPECT_TRUE(noticed.lost_progress);
  EXPECT_TRUE(crash_at_file_steps(job, CrashFate::kTorn).damage);
}

TEST(CrashTwins, ASnapshotWrittenInPlaceIsTorn) {
  Job job = small_job();
  job.loop.snapshot.publish = PublishManner::kInPlace;
  EXPECT_TRUE(crash_at_file_steps(job, CrashFate::kTorn).damage);
}

TEST(CrashTwins, EveryPartOfASnapshotIsNeeded) {
  for (const SnapshotPart part : {SnapshotPart::kModel,
                                  SnapshotPart::kOptimizer,
                                  SnapshotPart::kScheduler,
                                  SnapshotPart::kSampler}) {
    Job job = small_job();
    std::erase(job.loop.snapshot.include, part);
    EXPECT_TRUE(crash_at_file_steps(job, CrashFate::kKept).different) << name_of(part);
  }
}

}  // namespace
}  // namespace lockstep::sim
