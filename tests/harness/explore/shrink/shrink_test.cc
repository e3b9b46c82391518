// Failing scenarios become small and stay the same failure.
#include "lockstep/harness/explore/shrink/shrink.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/text.h"
#include "lockstep/harness/explore/search/paths.h"
#include "lockstep/harness/explore/search/variations.h"
#include "lockstep/harness/explore/search/world_edits.h"
#include "lockstep/harness/explore/shrink/reproduction.h"
#include "lockstep/harness/format/load.h"
#include "lockstep/harness/run/expect.h"
#include "lockstep/harness/run/run_scenario.h"

#include "tests/support/scenarios.h"

namespace lockstep::explore {
namespace {

using testing::document_of;

Shrunk shrunk_from(const std::string& text, const std::string& schedule = "") {
  const TrialRunner runner("job.toml");
  Result<Shrunk> shrunk = shrink(runner, document_of(text), schedule, {});
  EXPECT_TRUE(shrunk.ok()) << (shrunk.ok() ? "" : shrunk.error().text());
  return shrunk.ok() ? std::move(shrunk).value() : Shrunk{};
}

TEST(MinimizeTest, KeepsWhatIsNeededAndNothingElse) {
  const auto has = [](const std::vector<std::size_t>& kept, std::size_t wanted) {
    return std::find(kept.begin(), kept.end(), wanted) != kept.end();
  };
  const auto needs_3_and_7 = [&](const std::vector<std::size_t>& kept) {
    return has(kept, 3) && has(kept, 7);
  };

  EXPECT_EQ(minimize(10, needs_3_and_7), (std::vector<std::size_t>{3, 7}));
  EXPECT_EQ(minimize(10, [](const auto& /*kept*/) { return true; }), std::vector<std::size_t>{});
  EXPECT_EQ(minimize(3, [](const auto& /*kept*/) { return false; }),
            (std::vector<std::size_t>{0, 1, 2}));
  EXPECT_EQ(minimize(0, needs_3_and_7), std::vector<std::size_t>{});
}

TEST(KeepRanksTest, EverythingThatNamesRanksFollows) {
  const TomlNode document = document_of(
      "world = { nodes = 2, ranks_per_node = 2, groups = { a = [[0, 3], [1]] } }\n"
      "sim = { strategy = \"@0-5=1,3-2=2,t3=3\" }\n"
      "loader = { batches_by_rank = [[1], [2], [3], [4]] }\n"
      "bug = [ { kind = \"k\", ranks = [1] }, { kind = \"k\", ranks = [1, 3], factor = 0.25 } ]\n"
      "tensor.x = { shape = [8], by_rank = [[0], [1], [2], [3]] }\n"
      "program = [ { ranks = [0], body = [ { op = \"send\", peer = 1 }, { op = \"send\", peer = "
      "3 }, { op = \"all_gather\", tensor = \"y\", output = \"x\" }, { op = \"reduce\", root = 2 "
      "} ] } ]\n");
  const TomlNode expected = document_of(
      "world = { groups = { a = [[0, 1]] }, ranks = 2 }\n"
      "sim = { strategy = \"@t3=1\" }\n"
      "loader = { batches_by_rank = [[1], [4]] }\n"
      "bug = [ { kind = \"k\", ranks = [1], factor = 0.5 } ]\n"
      "tensor.x = { shape = [4], by_rank = [[0], [3]] }\n"
      "program = [ { ranks = [0], body = [ { op = \"send\", peer = 1 },"
      " { op = \"all_gather\", tensor = \"y\", output = \"x\" }, { op = \"reduce\", root = 0 } ] } "
      "]\n");

  EXPECT_EQ(render_toml(keep_ranks(document, {0, 3})), render_toml(expected));
}

TEST(ShrinkTest, ABugOfOneRankOfEightNeedsTwo) {
  const Shrunk shrunk = shrunk_from(testing::kNudged);

  EXPECT_EQ(shrunk.after.failure, shrunk.before.failure);
  EXPECT_EQ(shrunk.after.failure->law, "replicas-equal");
  EXPECT_EQ(shrunk.after.cost.ranks, 2);
  EXPECT_EQ(shrunk.after.cost.disturbances, 1);
  EXPECT_LT(shrunk.after.cost.events * 5, shrunk.before.cost.events);
  EXPECT_LT(shrunk.after.cost.volume * 20, shrunk.before.cost.volume);
  for (const char* gone : {"sim", "ddp", "loss"}) {
    EXPECT_EQ(shrunk.document.find(gone), nullptr) << gone;
  }
  const TomlNode* bugs = shrunk.document.find("bug");
  ASSERT_EQ(bugs->items.size(), 1U);
  EXPECT_EQ(bugs->items[0].find("kind")->text, "write-tensor");
}

TEST(ShrinkTest, ShrinkingIsDeterministic) {
  const Shrunk first = shrunk_from(testing::kNudged);
  const Shrunk second = shrunk_from(testing::kNudged);

  EXPECT_EQ(render_toml(first.document), render_toml(second.document));
  EXPECT_EQ(first.n_tries, second.n_tries);
  EXPECT_EQ(first.after.trace_digest, second.after.trace_digest);
}

TEST(ShrinkTest, ABudgetOfTriesIsKept) {
  const TrialRunner runner("job.toml");
  const Result<Shrunk> shrunk = shrink(runner, document_of(testing::kNudged), "", {.n_tries = 10});

  ASSERT_TRUE(shrunk.ok()) << shrunk.error().text();
  EXPECT_EQ(shrunk.value().n_tries, 10U);
  EXPECT_EQ(shrunk.value().after.failure, shrunk.value().before.failure);
}

TEST(ShrinkTest, AFailureOfSomeSchedulesKeepsAFewDeviations) {
  const TrialRunner runner("job.toml");
  const TomlNode document = document_of(testing::kImpatient);
  ASSERT_FALSE(runner.run(document, {}).value().failure) << "by default it is quiet";

  const Shrunk shrunk = shrunk_from(testing::kImpatient, "random:seed=0");

  EXPECT_EQ(name_of(shrunk.after.failure->outcome), "hang");
  EXPECT_LE(shrunk.after.cost.ranks, 3);
  EXPECT_LE(shrunk.after.cost.deviations, 3);
  // Strictly repeated, from the text alone.
  const Result<Scenario> again = read_scenario_text(render_toml(shrunk.document), "job.toml");
  ASSERT_TRUE(again.ok()) << again.error().text();
  const Result<ScenarioResult> run = run_scenario(again.value(), {});
  ASSERT_TRUE(run.ok()) << run.error().text();
  EXPECT_EQ(name_of(run.value().report.outcome), "hang");
}

TEST(ShrinkTest, WhatAcceptsAnyFailureIsNoticed) {
  const TrialRunner runner("job.toml");
  const TomlNode document = document_of(testing::kCounts);
  const auto any = [](const Failure& /*wanted*/, const Failure& /*got*/) { return true; };

  const Result<Shrunk> strict = shrink(runner, document, "", {});
  const Result<Shrunk> careless = shrink(runner, document, "", {.same = any});

  ASSERT_TRUE(strict.ok()) << strict.error().text();
  EXPECT_EQ(strict.value().after.failure->law, "collectives-match");
  ASSERT_FALSE(careless.ok());
  EXPECT_NE(careless.error().message.find("different failure"), std::string::npos)
      << careless.error().message;
}

TEST(ShrinkTest, AHealthyRunIsRefused) {
  const TrialRunner runner("job.toml");
  const Result<Shrunk> shrunk =
      shrink(runner, document_of("format = 1\nworld = { ranks = 2 }\nprogram = []\n"), "", {});

  EXPECT_FALSE(shrunk.ok());
}

/// Every known bug: the file's base, where it fails.
TEST(ShrinkTest, EveryBugOfTheZooFitsOnThreeRanks) {
  std::vector<std::string> files;
  const std::string folder = std::string(LOCKSTEP_SOURCE_DIR) + "/scenarios/zoo";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  int n_shrunk = 0;
  for (const std::string& file : files) {
    SCOPED_TRACE(file);
    const Result<TomlNode> document = load_document(file, "", {});
    ASSERT_TRUE(document.ok()) << document.error().text();
    const TrialRunner runner(file);
    if (!runner.run(document.value(), {}).value().failure) continue;
    const Result<Shrunk> shrunk = shrink(runner, document.value(), "", {});
    ASSERT_TRUE(shrunk.ok()) << shrunk.error().text();
    EXPECT_EQ(shrunk.value().after.failure, shrunk.value().before.failure);
    EXPECT_LE(shrunk.value().after.cost.ranks, 3);
    EXPECT_LE(shrunk.value().after.cost.ranks, shrunk.value().before.cost.ranks);
    EXPECT_LT(shrunk.value().after.cost.leaves, shrunk.value().before.cost.leaves);
    ++n_shrunk;
  }
  EXPECT_GT(n_shrunk, 30);
}

TEST(VaryTest, ReportsWhatWasTriedAndTheResult) {
  const TrialRunner runner("job.toml");
  const TomlNode document = document_of(
      "format = 1\nworld = { ranks = 2 }\nmodel = { kind = \"scalar\" }\n"
      "data = { kind = \"synthetic\", size = 64, features = 1 }\nloop = { steps = 1 }\n"
      "bug = [ { kind = \"bypass-wrapper\" } ]\n");
  const Failure failure = runner.run(document, {}).value().failure.value();
  const std::vector<Variation> variations = vary(runner, document, failure);

  const auto at = std::find_if(variations.begin(), variations.end(), [](const Variation& v) {
    return v.what == "the number of ranks";
  });
  ASSERT_NE(at, variations.end());
  const Variation* ranks = &*at;
  EXPECT_EQ(ranks->healthy, std::vector<std::string>{"1"});
  EXPECT_EQ(ranks->same, (std::vector<std::string>{"3", "4", "5", "8"}));
  EXPECT_EQ(sentences({*ranks}).front(),
            "did not matter: the number of ranks, from 2: the same failure with 3, 4, 5, 8; "
            "none with 1");
}

TEST(VaryTest, OnlyWhatNeverMatteredIsCalledThat) {
  const Variation tried = {"it", {"1", "2"}, {"3"}, {}};
  const Variation all = {"that", {"4"}, {}, {}};
  const Variation gap = {"a number", {"2", "8"}, {}, {"4"}, 3};
  EXPECT_EQ(
      sentences({tried, gap, all}),
      (std::vector<std::string>{"did not matter: that: the same failure with 4",
                                "matters: it: the same failure with 1, 2; another one with 3",
                                "matters: a number: the same failure with 2, 8; none with 4"}));
}

TEST(ReproductionTest, TheFileRunsByItselfAndNamesItsDigests) {
  const Shrunk shrunk = shrunk_from(testing::kCounts);
  const Reproduction about = {.origin = "job.toml", .folder = "/", .title = "t", .remarks = {"r"}};

  const Result<std::string> text = render_scenario(shrunk, about);

  ASSERT_TRUE(text.ok()) << text.error().text();
  const Result<Scenario> scenario = read_scenario_text(text.value(), "elsewhere/other.toml");
  ASSERT_TRUE(scenario.ok()) << scenario.error().text();
  const ScenarioResult run = run_scenario(scenario.value(), {}).value();
  EXPECT_NE(text.value().find(hex64(run.report.trace_digest)), std::string::npos);
  EXPECT_EQ(unmet(scenario.value(), run).size(), 0U);
}

TEST(ReproductionTest, TheTestIsCalledAfterTheLawThatBreaks) {
  const Shrunk shrunk = shrunk_from(testing::kCounts);
  ASSERT_TRUE(shrunk.after.failure);
  ASSERT_EQ(shrunk.after.failure->law, "collectives-match");

  const std::string test =
      render_test(shrunk, {.origin = "x", .folder = "", .title = "t", .remarks = {}});

  EXPECT_NE(test.find("CollectivesMatch"), std::string::npos) << test;
}

TEST(ReproductionTest, NothingInAScenarioEndsTheTestsString) {
  Shrunk shrunk = shrunk_from(testing::kCounts);
  const std::string title = "a title of \"quotes\",\na line and (the end)toml";

  const std::string test =
      render_test(shrunk, {.origin = "x", .folder = "", .title = title, .remarks = {}});

  EXPECT_NE(test.find("R\"tomlx("), std::string::npos) << test;
}

}  // namespace
}  // namespace lockstep::explore
