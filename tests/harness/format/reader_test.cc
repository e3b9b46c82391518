// What a scenario file may say, and the sentence for everything it may not.
#include <gmock/gmock.h>

#include "lockstep/harness/format/load.h"

#include "tests/support/scenario_files.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

class ReaderTest : public ScenarioFiles {};

TEST_F(ReaderTest, WhatAMistakeQuotesStaysOneLine) {
  for (const std::string& text : {replaced(small_job(), "world", "\"wor\\nld\""),
                                  replaced(small_job(),
                                           "loop = { steps = 1 }",
                                           "loop = { zero_grad = \"no\\nne\", steps = 1 }")}) {
    const std::string complaint = error_of(text);
    EXPECT_EQ(complaint.find('\n'), std::string::npos) << complaint;
    EXPECT_NE(complaint.find("\\n"), std::string::npos) << complaint;
  }
}

TEST_F(ReaderTest, ASmallJobHasTheDocumentedDefaults) {
  const Result<Scenario> scenario = load(small_job());

  ASSERT_TRUE(scenario.ok()) << scenario.error().text();
  const Job& job = *scenario.value().jobs[0];
  EXPECT_EQ(job.model.dtype, DType::kF64);  // Exact mode's default.
  EXPECT_EQ(job.loader.batch, 1);           // Two rows, two ranks.
  EXPECT_EQ(job.loss.normalize, LossDivisor::kLocalSamples);
  EXPECT_TRUE(job.ddp.wrap);
  EXPECT_EQ(scenario.value().jobs[0], scenario.value().jobs[1]);
}

TEST_F(ReaderTest, ASnapshotSaysHowOftenWhereAndOfWhat) {
  const auto with = [](const std::string& keys) {
    return replaced(small_job(), "steps = 1", "steps = 1, snapshot = { " + keys + " }");
  };
  const auto scenario =
      load(with("every_steps = 2, include = [\"model\"], publish = \"in-place\""));
  ASSERT_TRUE(scenario.ok()) << scenario.error().text();
  const SnapshotSpec& snapshot = scenario.value().jobs[0]->loop.snapshot;
  EXPECT_EQ(snapshot.every_steps, 2);
  EXPECT_EQ(snapshot.keep, 2);
  EXPECT_EQ(snapshot.include, std::vector{SnapshotPart::kModel});
  EXPECT_EQ(snapshot.publish, PublishManner::kInPlace);
  EXPECT_EQ(load(small_job()).value().jobs[0]->loop.snapshot.every_steps, 0);
  EXPECT_THAT(
      error_of(with("include = [\"weather\"]")),
      ::testing::HasSubstr(
          "'loop.snapshot.include' does not know 'weather'; it is one of: model, optimizer,"));
}

TEST_F(ReaderTest, BarriersAndRowsOfAnEvaluationAreWords) {
  const auto with = [](const std::string& keys) {
    return replaced(replaced(small_job(), "steps = 1", "steps = 1, " + keys),
                    "data = {",
                    "data = { holdout = 1,");
  };
  const auto scenario = load(
      with("barriers = [\"epoch\", \"save\"], eval = { metric = \"mse\", rows = \"last-batch\" }"));
  ASSERT_TRUE(scenario.ok()) << scenario.error().text();
  const LoopSpec& loop = scenario.value().jobs[0]->loop;
  EXPECT_EQ(loop.barriers, (std::vector{BarrierPlace::kEpoch, BarrierPlace::kSave}));
  EXPECT_EQ(loop.eval.rows, EvalRows::kLastBatch);
  EXPECT_TRUE(load(small_job()).value().jobs[0]->loop.barriers.empty());
  EXPECT_THAT(error_of(with("barriers = [\"epok\"]")), HasSubstr("did you mean 'epoch'?"));
}

TEST_F(ReaderTest, WithoutExactModeModelsAreSinglePrecision) {
  const auto scenario = load(replaced(small_job(), "exact = { grid = 4, clamp = 8.0 }\n", ""));

  ASSERT_TRUE(scenario.ok()) << scenario.error().text();
  EXPECT_EQ(scenario.value().jobs[0]->model.dtype, DType::kF32);
}

TEST_F(ReaderTest, AnUnknownKeyIsReportedAtItsPlaceWithASuggestion) {
  EXPECT_EQ(error_of(replaced(small_job(), "world", "wrold")),
            "job.toml:2:1: unknown key 'wrold'; did you mean 'world'?");
  EXPECT_EQ(error_of(replaced(small_job(), "lr =", "lrr =")),
            "job.toml:7:29: unknown key 'lrr' in 'optimizer'; did you mean 'lr'?");
}

TEST_F(ReaderTest, AWrongTypeIsReportedWithWhatWasMeant) {
  EXPECT_EQ(error_of(replaced(small_job(), "ranks = 2", "ranks = \"two\"")),
            "job.toml:2:19: 'world.ranks' must be an integer, not a string");
  EXPECT_EQ(error_of(replaced(small_job(), "loop = { steps = 1 }", "loop = 3")),
            "job.toml:8:8: 'loop' must be a table, not an integer");
}

TEST_F(ReaderTest, NumbersHaveRanges) {
  EXPECT_EQ(error_of(replaced(small_job(), "ranks = 2", "ranks = 0")),
            "job.toml:2:19: 'world.ranks' is 0; it must be between 1 and 1000000");
  EXPECT_EQ(error_of(replaced(small_job(), "lr = 0.25", "lr = -1.0")),
            "job.toml:7:34: 'optimizer.lr' is -1; it must be at least 0");
}

TEST_F(ReaderTest, AnUnknownWordGetsASuggestionOrTheList) {
  EXPECT_EQ(error_of(replaced(small_job(), "\"mse\"", "\"msse\"")),
            "job.toml:6:17: 'loss.kind' does not know 'msse'; did you mean 'mse'?");
  EXPECT_THAT(error_of(replaced(small_job(), "\"mse\"", "\"quantile\"")),
              HasSubstr("does not know 'quantile'; it is one of: mse, l1, cross-entropy"));
}

TEST_F(ReaderTest, WordsOfTheSchemaThatDoNothingYetAreErrorsToo) {
  EXPECT_EQ(error_of(replaced(small_job(), "\"mse\"", "\"hinge\"")),
            "job.toml:6:17: 'loss.kind = \"hinge\"' is not supported yet");
  EXPECT_EQ(error_of(small_job() + "loader = { sampler = \"weighted\" }\n"),
            "job.toml:9:22: 'loader.sampler = \"weighted\"' is not supported yet");
}

TEST_F(ReaderTest, WorkersThatPersistHaveToExist) {
  EXPECT_EQ(error_of(small_job() + "loader = { persistent = true }\n"),
            "job.toml:9:25: persistent_workers option needs num_workers > 0");
  EXPECT_EQ(error_of(small_job() + "loader = { workers = 2, persistent = true }\n"), "no error");
  EXPECT_EQ(error_of(small_job() + "loader = { augment = { stream = \"worker\" } }\n"), "no error");
  EXPECT_THAT(error_of(small_job() + "loader = { sampler = \"batches_by_rank\", "
                                     "batches_by_rank = [[1], [1]], augment = {} }\n"),
              HasSubstr("'loader.augment' needs a sampler whose batches have one size"));
}

TEST_F(ReaderTest, OnlyAStreamIsDividedByItsReaders) {
  const std::string sharded = replaced(small_job(), "data = {", "data = { shard = \"rank\",");
  EXPECT_THAT(error_of(sharded), HasSubstr("'data.shard' divides a stream"));
  EXPECT_EQ(error_of(sharded + "loader = { sampler = \"stream\" }\n"), "no error");
  EXPECT_THAT(error_of(sharded + "loader = { sampler = \"stream\", batch = 2 }\n"),
              HasSubstr("(2 rows, 2 readers)"));
}

TEST_F(ReaderTest, SchedulesScalersAndClippingAreRead) {
  const auto scenario = load(
      replaced(small_job(), "kind = \"sgd\"", "kind = \"rmsprop\", alpha = 0.5") +
      "scheduler = { kind = \"sequential\", per = \"step\", milestones = [3], parts = [ { kind = "
      "\"linear\", total_iters = 3 }, { kind = \"step\", step_size = 2 } ] }\n"
      "scaler = { init = 8, growth_interval = 4 }\nclip = { norm = 1.0, norm_type = inf }\n");

  ASSERT_TRUE(scenario.ok()) << scenario.error().text();
  const Job& job = *scenario.value().jobs[0];
  EXPECT_EQ(job.optimizer.alpha, 0.5);
  ASSERT_EQ(job.scheduler.rules.size(), 2U);
  EXPECT_EQ(std::get<optim::LinearLr>(job.scheduler.rules[0]).total_iters, 3);
  EXPECT_EQ(std::get<optim::StepLr>(job.scheduler.rules[1]).step_size, 2);
  EXPECT_EQ(job.scaler->options.init_scale, 8.0);
  EXPECT_EQ(job.scaler->options.growth_interval, 4);
  EXPECT_TRUE(job.scaler->update);
  EXPECT_EQ(*job.clip.norm, 1.0);
}

TEST_F(ReaderTest, AutocastIsOffWhereItIsAbsentAndOnWhereItIsATable) {
  const std::string job = replaced(small_job(), "\"scalar\"", "\"scalar\", dtype = \"f32\"");
  const auto autocast = [&](const std::string& line) {
    return load(job + line).value().jobs[0]->autocast;
  };

  EXPECT_FALSE(autocast("").enabled);
  EXPECT_EQ(autocast("autocast = {}\n"), AutocastOptions());
  EXPECT_EQ(autocast("autocast = { dtype = \"f16\", cache_enabled = false }\n"),
            (AutocastOptions{.dtype = DType::kF16, .cache_enabled = false}));
  EXPECT_FALSE(autocast("autocast.enabled = false\n").enabled);
  EXPECT_THAT(
      error_of(job + "autocast = { dtype = \"f32\" }\n"),
      HasSubstr("job.toml:9:22: 'autocast.dtype' does not know 'f32'; did you mean 'f16'?"));
}

TEST_F(ReaderTest, WhatGoesWithoutSixteenBitsIsRefused) {
  const auto with_model = [&](const std::string& dtype) {
    return replaced(
        small_job(), "kind = \"scalar\"", "kind = \"scalar\", dtype = \"" + dtype + "\"");
  };

  EXPECT_EQ(load(with_model("bf16")).value().jobs[0]->model.dtype, DType::kBF16);
  EXPECT_THAT(error_of(with_model("f64") + "autocast = {}\n"),
              HasSubstr("autocast leaves f64 alone: set model.dtype = \"f32\""));
  EXPECT_THAT(error_of(with_model("f16") + "ddp = { hook = \"powersgd\" }\n"),
              HasSubstr("the hook 'powersgd' takes f32 gradients"));
}

TEST_F(ReaderTest, ACommunicationHookBelongsToTheWrapper) {
  EXPECT_EQ(load(small_job() + "ddp = { hook = \"fp16\" }\n").value().jobs[0]->ddp.hook.kind,
            HookKind::kFp16);
  EXPECT_THAT(
      error_of(small_job() + "ddp = { wrap = false, average = \"none\", hook = \"fp16\" }\n"),
      HasSubstr("'ddp.hook' takes the place of the wrapper's all-reduce: set wrap = true"));
}

TEST_F(ReaderTest, OptionsOfTheWrapperHaveTheirNamesInPyTorch) {
  const auto scenario =
      load(small_job() + "ddp = { static_graph = true, device_ids = [0, 1], output_device = 1 }\n");

  ASSERT_TRUE(scenario.ok()) << scenario.error().text();
  const DdpOptions& options = scenario.value().jobs[0]->ddp.options;
  EXPECT_TRUE(options.static_graph);
  EXPECT_EQ(options.device_ids, (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(options.output_device, 1);
}

TEST_F(ReaderTest, WhatTheWrapperLacksIsRefusedByName) {
  EXPECT_EQ(error_of(small_job() + "ddp = { mixed_precision = { param_dtype = \"f16\" } }\n"),
            "job.toml:9:27: 'ddp.mixed_precision' is not supported yet");
}

TEST_F(ReaderTest, LayersOfAnMlpMayBeCheckpointed) {
  const std::string key = "checkpoint = \"reentrant\", init";
  EXPECT_THAT(error_of(replaced(small_job(), "init", key)),
              HasSubstr("'model.checkpoint' is for the layers of an mlp"));
  const std::string mlp = replaced(small_job(), "\"scalar\"", "\"mlp\", widths = [1, 1]");
  EXPECT_EQ(load(replaced(mlp, "init", key)).value().jobs[0]->model.checkpoint,
            CheckpointKind::kReentrant);
}

TEST_F(ReaderTest, StrategiesAreNamesOrSchedules) {
  for (const char* name : {"random:seed=7", "pct:depth=2", "@", "@0-5=1,t3=2/9/random"}) {
    EXPECT_EQ(error_of(small_job() + "sim.strategy = \"" + name + "\"\n"), "no error") << name;
  }
  EXPECT_EQ(error_of(small_job() + "sim.strategy = \"randem\"\n"),
            "job.toml:9:16: 'sim.strategy': unknown strategy 'randem'; did you mean 'random'?");
  EXPECT_THAT(error_of(small_job() + "sim.strategy = \"@0=1\"\n"), HasSubstr("'0=1' is not a"));
}

TEST_F(ReaderTest, OptionsOfOptimizersAndSchedulesBelongToTheirKind) {
  EXPECT_THAT(error_of(replaced(small_job(), "lr =", "alpha = 0.5, lr =")),
              HasSubstr("unknown key 'alpha' in 'optimizer'"));
  EXPECT_THAT(error_of(small_job() + "scheduler = { kind = \"step\", t_max = 3 }\n"),
              HasSubstr("unknown key 't_max' in 'scheduler'"));
  EXPECT_THAT(error_of(small_job() + "scheduler = { kind = \"sequential\", parts = [] }\n"),
              HasSubstr("'scheduler.parts' are one schedule or more"));
  EXPECT_THAT(error_of(small_job() + "clip = { norm = 1.0, value = 1.0 }\n"),
              HasSubstr("'clip' needs either 'norm' or 'value'"));
  EXPECT_THAT(error_of(small_job() + "clip = { norm = 1.0, when = \"before-sync\" }\n"),
              HasSubstr("is for hand-written loops: set ddp.wrap = false"));
  EXPECT_THAT(error_of(small_job() + "scaler = { growth = 1.0 }\n"),
              HasSubstr("The growth factor must be > 1.0."));
}

TEST_F(ReaderTest, AMissingFileIsReportedByItsName) {
  const Result<Scenario> scenario = load_scenario("nowhere.toml", "", {});

  ASSERT_FALSE(scenario.ok());
  EXPECT_EQ(scenario.error().text(),
            "nowhere.toml: cannot read this file: No such file or directory");
}

TEST_F(ReaderTest, WidthsMustFitTheData) {
  EXPECT_THAT(error_of(replaced(small_job(), "x = [1]", "x = [1, 2]")),
              HasSubstr("all rows need the same number of x and y"));
  EXPECT_THAT(error_of(replaced(small_job(), "kind = \"scalar\"", "kind = \"linear\", in = 3")),
              HasSubstr("the model takes 3 features, the data have 1"));
}

TEST_F(ReaderTest, ABatchMustNotExceedARanksShare) {
  EXPECT_EQ(error_of(small_job() + "loader = { batch = 2 }\n"),
            "job.toml:9:10: a batch of 2 is larger than a rank's share of 1 (2 rows, 2 ranks)");
}

TEST_F(ReaderTest, NotANumberInACsvIsReportedInTheCsv) {
  write("x,y\n1,2\n3,nan\n", "rows.csv");
  const std::string job = replaced(small_job(),
                                   "rows = [ { x = [1], y = [0] }, { x = [2], y = [0] } ]",
                                   "kind = \"csv\", path = \"rows.csv\", targets = [\"y\"]");

  EXPECT_THAT(error_of(job), HasSubstr("rows.csv:3:"));
}

TEST_F(ReaderTest, AMissingDataFileIsReportedByItsName) {
  const std::string job = replaced(small_job(),
                                   "rows = [ { x = [1], y = [0] }, { x = [2], y = [0] } ]",
                                   "kind = \"csv\", path = \"gone.csv\", targets = [\"y\"]");

  EXPECT_THAT(error_of(job), HasSubstr("gone.csv"));
}

TEST_F(ReaderTest, BugsAreKnownByNameAndTensor) {
  EXPECT_EQ(error_of(small_job() + "bug = [ { kind = \"write-tenser\" } ]\n"),
            "job.toml:9:18: unknown bug 'write-tenser'; did you mean 'write-tensor'?");
  EXPECT_EQ(error_of(small_job() + "bug = [ { kind = \"write-tensor\", tensor = \"wieght\" } ]\n"),
            "job.toml:9:9: the model has no tensor 'wieght'; did you mean 'weight'?");
  EXPECT_EQ(error_of(small_job() + "bug = [ { kind = \"skip-step\", ranks = [2] } ]\n"),
            "job.toml:9:40: rank 2 does not exist: the world has ranks 0 to 1");
  EXPECT_EQ(error_of(small_job() + "bug = [ { kind = \"skip-step\", factor = 2 } ]\n"),
            "job.toml:9:31: unknown key 'factor' in 'bug'");
}

TEST_F(ReaderTest, LawsInExpectationsAreKnownByName) {
  EXPECT_THAT(
      error_of(small_job() +
               "expect = { outcome = \"findings\", fires = [ { law = \"replicas-eqal\" } ] }\n"),
      HasSubstr("unknown law 'replicas-eqal'; did you mean 'replicas-equal'?"));
}

TEST_F(ReaderTest, CausesInExpectationsAreKnownByName) {
  const auto error = [&](const std::string& cause) {
    return error_of(small_job() +
                    "expect = { outcome = \"findings\", fires = [ { law = \"replicas-equal\", "
                    "cause = \"" +
                    cause + "\" } ] }\n");
  };
  EXPECT_THAT(error("lr-pre-rank"),
              HasSubstr("unknown cause 'lr-pre-rank'; did you mean 'lr-per-rank'?"));
  EXPECT_THAT(error("lr-per-rank"), ::testing::Not(HasSubstr("unknown cause")));
  EXPECT_THAT(error(""), ::testing::Not(HasSubstr("unknown cause")));
}

TEST_F(ReaderTest, OutcomesInExpectationsAreKnownByName) {
  EXPECT_THAT(error_of(small_job() + "expect = { outcome = \"hnag\" }\n"),
              HasSubstr("'expect.outcome' does not know 'hnag'; did you mean 'hang'?"));
}

TEST_F(ReaderTest, AnExpectationMustNotContradictItself) {
  EXPECT_THAT(error_of(small_job() +
                       "expect = { outcome = \"ok\", fires = [ { law = \"init-equal\" } ] }\n"),
              HasSubstr("contradict each other"));
}

TEST_F(ReaderTest, ALawCannotBothFireAndBeQuiet) {
  EXPECT_THAT(error_of(small_job() +
                       "expect = { outcome = \"findings\", quiet = [\"init-equal\"], fires = [ { "
                       "law = \"init-equal\" } ] }\n"),
              HasSubstr("cannot both fire and be quiet"));
}

TEST_F(ReaderTest, WhatRanksTakeFromSnapshotsAndLaunchersIsRead) {
  const std::string job =
      replaced(replaced(small_job(),
                        "{ steps = 1 }",
                        "{ steps = 1, snapshot = { rng = \"rank0\", writer = \"local-rank0\", "
                        "resize = \"keep-batches\" } }"),
               "{ ranks = 2 }",
               "{ nodes = 2, ranks_per_node = 1, environment = [ { ranks = [1], set = { GROUP_RANK "
               "= \"0\" } } ] }") +
      "override = [ { ranks = [1], set = { \"loop.snapshot.load\" = [\"model\"] } } ]\n";
  const Result<Scenario> scenario = load(job);
  ASSERT_TRUE(scenario.ok()) << scenario.error().text();
  const SnapshotSpec& first = scenario.value().jobs[0]->loop.snapshot;
  EXPECT_EQ(first.rng, SnapshotRng::kRank0);
  EXPECT_EQ(first.writer, SnapshotWriter::kLocalRank0);
  EXPECT_EQ(first.resize, SnapshotResize::kKeepBatches);
  EXPECT_EQ(first.load, first.include);
  EXPECT_EQ(scenario.value().jobs[1]->loop.snapshot.load, std::vector{SnapshotPart::kModel});
  std::vector<std::string> variables;  // Those of its nodes are the session's (launcher_test.cc).
  for (const sim::RankVariable& variable : scenario.value().session.environment) {
    variables.push_back(std::to_string(variable.rank) + " " + variable.name + "=" + variable.value);
  }
  EXPECT_EQ(variables, (std::vector<std::string>{"1 GROUP_RANK=0"}));

  EXPECT_THAT(error_of(replaced(job, "[\"model\"]", "[\"modle\"]")),
              HasSubstr("does not know 'modle'; did you mean 'model'?"));
  EXPECT_THAT(error_of(replaced(job, "\"0\" } } ]", "0 } } ]")), HasSubstr("GROUP_RANK"));
}

TEST_F(ReaderTest, OperationsOfProgramsAreChecked) {
  const std::string head = "format = 1\nworld = { ranks = 2 }\ntensor.x = { shape = [2] }\n";

  EXPECT_EQ(
      error_of(head + "program = [ { body = [ { op = \"all_reduse\", tensor = \"x\" } ] } ]\n"),
      "job.toml:4:31: unknown operation 'all_reduse'; did you mean 'all_reduce'?");
  EXPECT_EQ(
      error_of(head + "program = [ { body = [ { op = \"all_reduce\", tensor = \"y\" } ] } ]\n"),
      "job.toml:4:54: no tensor 'y' is declared; did you mean 'x'?");
  EXPECT_EQ(error_of(head + "program = [ { body = [ { op = \"all_reduce\" } ] } ]\n"),
            "job.toml:4:24: operation 'all_reduce' needs 'tensor'");
  EXPECT_EQ(
      error_of(head + "program = [ { body = [ { op = \"barrier\", site = \"save.py\" } ] } ]\n"),
      "job.toml:4:49: a site is a file and a line, such as \"save.py:12\", not 'save.py'");
  EXPECT_THAT(error_of(head + "model = {}\nprogram = [ { body = [] } ]\n"),
              HasSubstr("either a 'program' or a job"));
}

TEST_F(ReaderTest, BodiesOfRepeatAreReadToAnyDepth) {
  const auto scenario = load(
      "format = 1\nworld = { ranks = 1 }\n"
      "program = [ { body = [ { op = \"repeat\", times = 2, body = [ { op = \"repeat\", times = 3, "
      "body = [ { op = \"barrier\" } ] } ] } ] } ]\n");

  ASSERT_TRUE(scenario.ok()) << scenario.error().text();
  const RawOp& outer = scenario.value().programs[0].body[0];
  EXPECT_EQ(outer.times, 2);
  EXPECT_EQ(outer.body[0].times, 3);
  EXPECT_EQ(outer.body[0].body[0].op, RawOpKind::kBarrier);
}

TEST_F(ReaderTest, ACnnHasImagesThatLastForItsStages) {
  const std::string job = replaced(
      replaced(replaced(small_job(), "kind = \"scalar\"", "kind = \"cnn\", widths = [2, 1], IMAGE"),
               "x = [1]",
               "x = [1, 2, 3, 4]"),
      "x = [2]",
      "x = [2, 3, 4, 5]");
  const auto with = [&](const std::string& image) { return replaced(job, "IMAGE", image); };

  const auto scenario = load(with("image = [1, 2, 2]"));

  ASSERT_TRUE(scenario.ok()) << scenario.error().text();
  const ModelSpec& model = scenario.value().jobs[0]->model;
  EXPECT_EQ(model.image, (std::vector<std::int64_t>{1, 2, 2}));
  EXPECT_EQ(model.kernel, 3);
  EXPECT_FALSE(model.batch_norm);
  EXPECT_THAT(error_of(with("image = [1, 1, 4]")), HasSubstr("of at least 2 by 2"));
  EXPECT_THAT(error_of(with("kernel = 3")), HasSubstr("needs 'model.image ="));
  EXPECT_THAT(error_of(with("image = [1, 2, 2], kernel = 2")), HasSubstr("must be odd"));
  EXPECT_THAT(error_of(with("image = [2, 2, 2]")), HasSubstr("takes 8 features, the data have 4"));
  EXPECT_THAT(error_of(replaced(small_job(), "\"scalar\"", "\"mlp\", kernel = 3")),
              HasSubstr("'model.kernel' belongs to kind = \"cnn\""));
}

TEST_F(ReaderTest, PlacesOfMicroStepsAndSamplerRanksAreChecked) {
  EXPECT_THAT(error_of(small_job() + "bug = [ { kind = \"skip-step\", at = { micro = 1 } } ]\n"),
              HasSubstr("only 'forward' and 'backward' have micro-steps"));
  EXPECT_THAT(error_of(small_job() + "loader = { rank = 2 }\n"),
              HasSubstr("'loader.rank' is one of the 2"));
  EXPECT_THAT(error_of(small_job() + "loader = { rank = 1, sampler = \"sequential\" }\n"),
              HasSubstr("'loader.rank' is one of the 2"));
  EXPECT_THAT(error_of(small_job() + "torch_detail = \"quiet\"\n"), HasSubstr("torch_detail"));
}

TEST_F(ReaderTest, EveryKindOfModelHasItsNumberOfWidths) {
  const std::string job = replaced(small_job(),
                                   "kind = \"scalar\", init = { kind = \"constant\", value = 1.0 }",
                                   "kind = \"KIND\", widths = [1, 1, 1, 1]");

  EXPECT_THAT(error_of(replaced(job, "KIND", "twohead")), HasSubstr("must be three positive"));
  EXPECT_THAT(error_of(replaced(job, "KIND", "linear")), HasSubstr("must be two positive"));
  EXPECT_TRUE(load(replaced(job, "KIND", "mlp")).ok());
  EXPECT_TRUE(load(replaced(replaced(job, "KIND", "twohead"), "[1, 1, 1, 1]", "[1, 1, 1]")).ok());
}

}  // namespace
}  // namespace lockstep
