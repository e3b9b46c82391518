// Many runs of a scenario: findings do not depend on threads, and claims are true.
#include "lockstep/harness/explore/search/search.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "lockstep/harness/explore/search/regressions.h"
#include "lockstep/harness/format/load.h"
#include "lockstep/harness/run/run_scenario.h"

#include "tests/support/scenarios.h"
#include "tests/support/temp_folder.h"

namespace lockstep::explore {
namespace {

class SearchTest : public ::testing::Test {
 protected:
  std::string write(const std::string& text, const std::string& name = "job.toml") const {
    const std::string path = folder_.path() + "/" + name;
    std::ofstream(path) << text;
    return path;
  }

  static SearchResult found(const std::string& path, const SearchOptions& options) {
    Result<SearchResult> result = search(path, options);
    EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().text());
    return result.ok() ? std::move(result).value() : SearchResult{};
  }

  std::string kept() const { return folder_.path() + "/kept"; }

 private:
  lockstep::testing::TempFolder folder_;
};

/// The race of testing::kImpatient, with a patience that few schedules exceed.
std::string patient() {
  std::string text = testing::kImpatient;
  return text.replace(text.find("points = 40"), 11, "points = 58");
}

const char* const kHealthy =
    "format = 1\nworld = { ranks = 2 }\ntensor.x = { shape = [4] }\n"
    "program = [ { body = [ { op = \"all_reduce\", tensor = \"x\" } ] } ]\n";

TEST_F(SearchTest, ThreadsChangeNothing) {
  const std::string path = write(patient());

  for (const char* strategy : {"random", "pct:depth=3"}) {
    SCOPED_TRACE(strategy);
    const SearchResult one = found(path, {.strategy = strategy, .n_runs = 400, .n_jobs = 1});
    for (const std::uint64_t n_jobs : {2U, 3U, 16U}) {
      const SearchResult many =
          found(path, {.strategy = strategy, .n_runs = 400, .n_jobs = n_jobs});
      EXPECT_EQ(many.n_runs, one.n_runs);
      EXPECT_EQ(many.n_ends, one.n_ends);
      EXPECT_EQ(many.n_steps, one.n_steps);
      EXPECT_EQ(many.bound, one.bound);
      ASSERT_EQ(many.failure.has_value(), one.failure.has_value());
      if (!one.failure) continue;
      EXPECT_EQ(many.failure->number, one.failure->number);
      EXPECT_EQ(many.failure->attempt.schedule, one.failure->attempt.schedule);
      EXPECT_EQ(many.failure->trial.trace_digest, one.failure->trial.trace_digest);
    }
  }
}

TEST_F(SearchTest, FindsWhatOnlySomeSchedulesShowAndRepeatsIt) {
  const std::string path = write(testing::kImpatient);

  const SearchResult result = found(path, {.n_runs = 400});

  ASSERT_TRUE(result.failure);
  EXPECT_GT(result.failure->number, 1U) << "the scenario as it is shows nothing";
  const Scenario scenario = load_scenario(path, "", {}).value();
  RunChoices choices;
  choices.schedule = result.failure->attempt.schedule;
  const ScenarioResult again = run_scenario(scenario, choices).value();
  EXPECT_EQ(name_of(again.report.outcome), "hang");
  EXPECT_EQ(again.report.trace_digest, result.failure->trial.trace_digest);
}

TEST_F(SearchTest, OnlyACompleteSearchIsAProof) {
  const std::string path = write(kHealthy);

  const SearchResult all = found(path, {.strategy = "exhaustive", .n_runs = 10'000});
  EXPECT_TRUE(all.complete);
  EXPECT_TRUE(all.proof());
  EXPECT_EQ(all.n_ends, 1U);
  EXPECT_EQ(all.exhaustive.n_explored + all.exhaustive.n_redundant, all.n_runs);
  ASSERT_GT(all.n_runs, 1U);

  const SearchResult cut = found(path, {.strategy = "exhaustive", .n_runs = all.n_runs - 1});
  EXPECT_FALSE(cut.complete);
  EXPECT_FALSE(cut.proof());
  EXPECT_FALSE(found(path, {.n_runs = all.n_runs}).proof()) << "random schedules are not a proof";
}

TEST_F(SearchTest, PctReportsItsBound) {
  const SearchResult result = found(write(kHealthy), {.strategy = "pct:depth=3", .n_runs = 20});

  const auto n = static_cast<double>(result.n_processes);
  const auto k = static_cast<double>(result.n_steps);
  EXPECT_GE(n, 3.0) << "two ranks and a transfer";
  EXPECT_DOUBLE_EQ(result.bound, 1.0 / (n * k * k));
}

TEST_F(SearchTest, SeedsOfTheJobChangeItsEndAndSchedulesDoNot) {
  const std::string path = write(
      "format = 1\nworld = { ranks = 2 }\nmodel = { kind = \"linear\", in = 2, out = 1 }\n"
      "data = { kind = \"synthetic\", size = 8, features = 2 }\nloop = { steps = 2 }\n");

  EXPECT_EQ(found(path, {.n_runs = 30}).n_ends, 1U);
  const SearchResult seeds = found(path, {.n_runs = 30, .n_seeds = 3});
  EXPECT_EQ(seeds.n_seeds, 3U);
  EXPECT_EQ(seeds.n_ends, 3U);
  EXPECT_FALSE(seeds.diverging_runs);
}

/// A healthy job of two steps; in the third one, which it does not reach, a replica is overwritten.
const char* const kShort =
    "format = 1\nworld = { ranks = 2 }\nmodel = { kind = \"linear\", in = 2, out = 1 }\n"
    "data = { kind = \"synthetic\", size = 32, features = 2 }\nloop = { steps = 2 }\n"
    "bug = [ { kind = \"write-tensor\", ranks = [1], tensor = \"weight\", value = 7.0, at = { step "
    "= 2 } } ]\n";

TEST_F(SearchTest, SmallChangesOfTheScenarioFindWhatItHides) {
  const std::string path = write(kShort);

  EXPECT_FALSE(found(path, {.n_runs = 60}).failure);
  const SearchResult varied = found(path, {.n_runs = 60, .vary = true});
  ASSERT_TRUE(varied.failure);
  EXPECT_GT(varied.n_changes, 10U);
  const std::vector<Setting>& change = varied.failure->attempt.settings;
  ASSERT_EQ(change.size(), 1U);
  EXPECT_EQ(change[0].key + "=" + change[0].value, "loop.steps=3");
}

// One lesson is correct for its number of rows alone: without `drop_last`, others leave ranks with
// last batches of different sizes, whose gradients count the same. Another takes snapshots that
// suffice at the end of an epoch alone.
TEST_F(SearchTest, ARobustJobSurvivesSmallChanges) {
  const std::string folder = std::string(LOCKSTEP_SOURCE_DIR) + "/scenarios/lessons/";
  const auto law_broken_in = [&](const std::string& lesson) -> std::string {
    const SearchResult result = found(folder + lesson, {.n_runs = 30, .vary = true});
    EXPECT_GT(result.n_changes, 5U);
    return result.failure ? result.failure->trial.failure->law : "";
  };

  EXPECT_EQ(law_broken_in("weights_2_and_200.toml"), "");
  EXPECT_EQ(law_broken_in("printed_transcript.toml"), "");
  EXPECT_EQ(law_broken_in("iterable_dataset.toml"), "gradient-mean");
  EXPECT_EQ(law_broken_in("snapshot_of_model_and_epoch.toml"), "resume-equal");
}

TEST_F(SearchTest, AKeptFailureIsTriedFirst) {
  const std::string path = write(testing::kImpatient);
  const SearchResult first = found(path, {.n_runs = 400});
  ASSERT_TRUE(first.failure);
  const auto file = keep_regression(kept(), path, {}, *first.failure);
  ASSERT_TRUE(file.ok()) << file.error().text();

  const auto attempts = load_regressions(kept(), path, "");
  ASSERT_TRUE(attempts.ok()) << attempts.error().text();
  ASSERT_EQ(attempts.value().size(), 1U);
  const SearchResult second = found(path, {.n_runs = 400, .first = attempts.value()});
  ASSERT_TRUE(second.failure);
  EXPECT_TRUE(second.failure->was_kept);
  EXPECT_EQ(second.failure->number, 1U);
  EXPECT_EQ(second.failure->trial.trace_digest, first.failure->trial.trace_digest);

  // Kept once, and of no concern to other scenarios.
  EXPECT_EQ(keep_regression(kept(), path, {}, *first.failure).value(), file.value());
  EXPECT_EQ(load_regressions(kept(), write(kHealthy, "other.toml"), "").value().size(), 0U);
  EXPECT_EQ(load_regressions(kept() + "/none", path, "").value().size(), 0U);
}

TEST_F(SearchTest, AKeptFailureThatWasRepairedIsPassedOver) {
  const std::string path = write(testing::kImpatient);
  const SearchResult first = found(path, {.n_runs = 400});
  ASSERT_TRUE(first.failure);
  std::string repaired = testing::kImpatient;
  repaired.replace(repaired.find("points = 40"), 11, "points = 99");
  write(repaired);

  const SearchResult second = found(path, {.n_runs = 20, .first = {first.failure->attempt}});

  EXPECT_FALSE(second.failure);
  EXPECT_EQ(second.n_runs, 21U);
}

TEST_F(SearchTest, WhatMakesNoSenseIsRefused) {
  const std::string path = write(kHealthy);

  EXPECT_EQ(search(path, {.strategy = "round-robin"}).error().where, "--strategy");
  EXPECT_EQ(search(path, {.strategy = "rondom"}).error().where, "--strategy");
  EXPECT_FALSE(search(path + "x", {}).ok());
  std::filesystem::create_directory(kept());
  write("format = 1\n", "kept/stray.toml");
  EXPECT_FALSE(load_regressions(kept(), path, "").ok());
}

}  // namespace
}  // namespace lockstep::explore
