#include "lockstep/harness/explore/jobs/random_jobs.h"

#include <set>

#include <gtest/gtest.h>

#include "lockstep/harness/format/load.h"

namespace lockstep {
namespace {

constexpr std::uint64_t kSpace = 7;

const Setting kBug = {
    "bug",
    R"([{ kind = "scale-gradient", ranks = [1], factor = 3.0, at = { event = "backward" } }])"};

TEST(RandomJobsTest, NoLawComplainsOfACorrectJob) {
  const RandomJobsResult result = try_random_jobs({.seed = kSpace, .n_jobs = 300});

  EXPECT_EQ(result.n_jobs, 300U);
  EXPECT_EQ(result.n_thorough, 19U);
  for (const FalseAlarm& alarm : result.false_alarms) {
    ADD_FAILURE() << "job " << alarm.index << ": " << alarm.complaint << "\n"
                  << to_toml(alarm.sketch);
  }
}

// The negative twin: the same jobs, one rank of which steps with gradients three times as large.
// Not with a sharded optimizer, whose ranks all take over what the wrong step made (docs/laws.md),
// and not where the norm is clipped, which undoes a factor.
TEST(RandomJobsTest, ABrokenJobIsComplainedOf) {
  int n_broken = 0;
  for (std::uint64_t i = 0; i < 100; ++i) {
    const JobSketch sketch = draw_job(kSpace, i);
    const bool apart = sketch.hook == HookKind::kPostLocalSgd || sketch.averager;
    if (sketch.ranks == 1 || !sketch.wrap || apart || sketch.zero || sketch.clip == ClipKind::kNorm)
      continue;
    ++n_broken;
    EXPECT_NE(complaint_about(sketch, {.settings = {kBug}}), "") << i << "\n" << to_toml(sketch);
  }
  EXPECT_GT(n_broken, 40);
}

TEST(RandomJobsTest, AFindingIsMadeSimpleWhateverTheThreads) {
  RandomJobsOptions options = {.seed = kSpace, .n_jobs = 12, .thorough_every = 0};
  options.settings = {kBug};
  options.n_simplified = 2;
  const RandomJobsResult one = try_random_jobs(options);
  options.n_threads = 3;
  const RandomJobsResult three = try_random_jobs(options);

  ASSERT_GE(one.false_alarms.size(), 3U);
  ASSERT_EQ(three.false_alarms.size(), one.false_alarms.size());
  for (std::size_t i = 0; i < one.false_alarms.size(); ++i) {
    const FalseAlarm& alarm = one.false_alarms[i];
    EXPECT_EQ(three.false_alarms[i].index, alarm.index);
    EXPECT_EQ(three.false_alarms[i].sketch, alarm.sketch);
    EXPECT_EQ(alarm.n_tries > 0, i < 2);
    if (i < 2) {
      EXPECT_EQ(alarm.sketch.ranks, 2) << alarm.complaint;
    }
  }
}

TEST(RandomJobsTest, JobsThatCannotHaveASettingAreNotCounted) {
  RandomJobsOptions options = {.seed = kSpace, .n_jobs = 60, .thorough_every = 4};
  options.settings = {{"optimizer.momentum", "0.5"}};
  std::uint64_t n_fitting = 0;
  std::uint64_t n_thorough = 0;
  for (std::uint64_t i = 0; i < options.n_jobs; ++i) {
    const Inspection how = inspection_of(options, i);
    if (!scenario_of(draw_job(kSpace, i), how).ok()) continue;
    ++n_fitting;
    n_thorough += how.thorough ? 1 : 0;
  }
  ASSERT_TRUE(0 < n_fitting && n_fitting < options.n_jobs) << n_fitting;
  const RandomJobsResult result = try_random_jobs(options);
  EXPECT_EQ(result.n_jobs, n_fitting);
  EXPECT_EQ(result.n_thorough, n_thorough);
  EXPECT_TRUE(check_settings(options).ok());
}

TEST(RandomJobsTest, ASettingThatNoJobCanHaveIsAnError) {
  RandomJobsOptions options = {.seed = kSpace, .n_jobs = 3};
  options.settings = {{"optimiser.lr", "0.5"}};
  const Outcome checked = check_settings(options);
  ASSERT_FALSE(checked.ok());
  EXPECT_NE(checked.error().text().find("did you mean 'optimizer'"), std::string::npos)
      << checked.error().text();
}

TEST(RandomJobsTest, JobsDifferAndAreAFunctionOfTheirSeed) {
  std::set<std::string> texts;
  for (std::uint64_t i = 0; i < 200; ++i) {
    texts.insert(to_toml(draw_job(kSpace, i)));
    EXPECT_EQ(draw_job(kSpace, i), draw_job(kSpace, i));
  }
  EXPECT_EQ(texts.size(), 200U);
}

// What PyTorch's users would not write, or no law could judge; and nothing more is taken out.
TEST(RandomJobsTest, FeaturesThatDoNotFitAreNotDrawnTogether) {
  std::set<std::string_view> words;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    const JobSketch s = draw_job(kSpace, i);
    const bool plateau = s.scheduler == ScheduleKind::kPlateau;
    EXPECT_TRUE(!plateau || s.eval) << "a plateau is one of an evaluation's loss";
    if (s.scheduler && !s.eval) words.insert("a schedule without an evaluation");
    const bool by_epoch = !s.scheduler || plateau || s.scheduler == ScheduleKind::kOnecycle;
    EXPECT_FALSE(s.per_step && by_epoch) << "a metric comes with an epoch";
    const bool crash = s.fault == SketchFault::kCrash;
    EXPECT_TRUE(!crash || s.snapshot_every > 0) << "who crashes goes on from a snapshot";
    if (crash && s.snapshot_every == 1) words.insert("a crash with a snapshot of every step");
    EXPECT_FALSE(s.augment && s.snapshot_every > 0 && s.persistent);
    if (s.augment && s.persistent) words.insert("augmentation of persistent workers");
    EXPECT_TRUE(!s.autocast || !is_narrow(s.dtype) || *s.autocast == s.dtype);
  }
  EXPECT_EQ(words.size(), 3U);
}

TEST(RandomJobsTest, EveryFeatureIsDrawn) {
  std::set<std::string_view> words;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    const JobSketch s = draw_job(kSpace, i);
    words.insert({name_of(s.model),
                  name_of(s.sampler),
                  name_of(s.optimizer),
                  name_of(s.hook),
                  name_of(s.fault),
                  name_of(s.pairing),
                  name_of(s.fidelity),
                  name_of(s.checkpoint),
                  name_of(s.dtype)});
    if (s.scheduler) words.insert(name_of(*s.scheduler));
    if (s.clip) words.insert(name_of(*s.clip));
    if (s.order == ReductionOrder::kNcclTree) words.insert("nccl-tree");
    if (s.join) words.insert("join");
    if (s.zero) words.insert("zero");
    if (s.averager) words.insert("averager");
    if (!s.wrap) words.insert("by hand");
    if (s.static_graph) words.insert("static graph");
    if (s.per_step) words.insert("per step");
    if (s.autocast) words.insert("autocast");
    if (s.dtype == DType::kF16) words.insert("f16 model");
    if (s.dtype == DType::kBF16) words.insert("bf16 model");
  }
  for (const char* word : {"mlp",       "linear",         "scalar",
                           "bn",        "twohead",        "cnn",
                           "gpt",       "stream",         "batches_by_rank",
                           "adam",      "adamw",          "adagrad",
                           "rmsprop",   "plateau",        "onecycle",
                           "powersgd",  "post-local-sgd", "quantize-per-channel",
                           "crash",     "late",           "slow",
                           "delay",     "clock-skew",     "nccl-tree",
                           "gloo_like", "message",        "reentrant",
                           "value",     "join",           "zero",
                           "averager",  "by hand",        "static graph",
                           "per step",  "autocast",       "f16 model",
                           "bf16 model"}) {
    EXPECT_TRUE(words.contains(word)) << word;
  }
}

TEST(SimplestTest, TakesAwayWhatDoesNotMatter) {
  for (std::uint64_t i = 0; i < 50; ++i) {
    JobSketch drawn = draw_job(kSpace, i);
    const JobSketch found = simplest(drawn, [](const JobSketch& s) { return s.epochs >= 2; });
    if (drawn.epochs < 2) continue;
    EXPECT_EQ(found.epochs, 2);
    EXPECT_LE(found.ranks, 2);
    EXPECT_EQ(found.fault, SketchFault::kNone);
    EXPECT_EQ(found.hook, HookKind::kNone);
    EXPECT_TRUE(scenario_of(found).ok());
  }
}

// What complains is kept: a simplification that loses it is not taken.
TEST(SimplestTest, KeepsWhatMatters) {
  for (std::uint64_t i = 0; i < 200; ++i) {
    const JobSketch drawn = draw_job(kSpace, i);
    const auto complains = [](const JobSketch& s) {
      return s.hook == HookKind::kFp16 && s.ranks == 3;
    };
    if (!complains(drawn)) continue;
    EXPECT_TRUE(complains(simplest(drawn, complains)));
  }
}

}  // namespace
}  // namespace lockstep
