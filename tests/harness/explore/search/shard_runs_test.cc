// A search that is split over processes comes to what one process finds.
#include <algorithm>
#include <array>
#include <fstream>
#include <gmock/gmock.h>

#include <gtest/gtest.h>

#include "lockstep/harness/explore/search/search.h"

#include "tests/support/scenarios.h"
#include "tests/support/temp_folder.h"

namespace lockstep::explore {
namespace {

using ::testing::HasSubstr;

// Shards of one search. What takes seconds takes minutes under ThreadSanitizer, which keeps a history
// for each fiber; there a few must do.
#ifdef __SANITIZE_THREAD__
constexpr std::array<std::uint64_t, 2> kCounts = {2, 5};
#else
constexpr std::array<std::uint64_t, 5> kCounts = {1, 2, 5, 64, 400};
#endif

class ShardRunsTest : public ::testing::Test {
 protected:
  std::string write(const std::string& text) const {
    const std::string path = folder_.path() + "/job.toml";
    std::ofstream(path) << text;
    return path;
  }

  /// The runs of all shards in the order of their numbers.
  static std::vector<MadeRun> runs_of(const std::string& path,
                                      const SearchOptions& options,
                                      std::uint64_t count) {
    std::vector<MadeRun> all;
    for (std::uint64_t number = count; number > 0; --number) {
      auto runs = make_runs(path, options, {number, count});
      EXPECT_TRUE(runs.ok()) << (runs.ok() ? "" : runs.error().text());
      if (runs.ok()) std::ranges::move(runs.value(), std::back_inserter(all));
    }
    std::ranges::sort(all, {}, &MadeRun::number);
    return all;
  }

  static std::string refused(const std::string& path,
                             const SearchOptions& options,
                             const std::vector<MadeRun>& runs) {
    const auto result = put_together(path, options, runs);
    return result.ok() ? "accepted" : result.error().text();
  }

  static void expect_same(const std::string& path, const SearchOptions& options) {
    const auto whole = search(path, options);
    ASSERT_TRUE(whole.ok()) << whole.error().text();
    const SearchResult& one = whole.value();
    for (const std::uint64_t count : kCounts) {
      SCOPED_TRACE(count);
      const auto together = put_together(path, options, runs_of(path, options, count));
      ASSERT_TRUE(together.ok()) << together.error().text();
      const SearchResult& many = together.value();
      EXPECT_EQ(many.n_runs, one.n_runs);
      EXPECT_EQ(many.n_ends, one.n_ends);
      EXPECT_EQ(many.n_seeds, one.n_seeds);
      EXPECT_EQ(many.n_changes, one.n_changes);
      EXPECT_EQ(many.n_steps, one.n_steps);
      EXPECT_EQ(many.n_processes, one.n_processes);
      EXPECT_EQ(many.bound, one.bound);
      EXPECT_EQ(coverage_text(many.coverage), coverage_text(one.coverage));
      expect_same_end(many, one);
    }
  }

 private:
  static void expect_same_end(const SearchResult& many, const SearchResult& one) {
    ASSERT_EQ(many.failure.has_value(), one.failure.has_value());
    if (one.failure) {
      EXPECT_EQ(many.failure->number, one.failure->number);
      EXPECT_EQ(many.failure->was_kept, one.failure->was_kept);
      EXPECT_EQ(many.failure->attempt.schedule, one.failure->attempt.schedule);
      EXPECT_EQ(many.failure->trial.trace_digest, one.failure->trial.trace_digest);
      EXPECT_EQ(many.failure->trial.sentence, one.failure->trial.sentence);
    }
    ASSERT_EQ(many.diverging_runs.has_value(), one.diverging_runs.has_value());
    if (!one.diverging_runs) return;
    EXPECT_EQ(many.diverging_runs->schedule, one.diverging_runs->schedule);
    EXPECT_EQ(many.diverging_runs->other, one.diverging_runs->other);
  }

  lockstep::testing::TempFolder folder_;
};

/// The race of testing::kImpatient, with a patience that few schedules exceed.
std::string rare_race() {
  std::string text = testing::kImpatient;
  return text.replace(text.find("points = 40"), 11, "points = 58");
}

/// Two ranks write to one tensor in an order that the schedule decides, and no law minds.
const char* const kCalm =
    "format = 1\nworld = { ranks = 2 }\nmodel = { kind = \"linear\", in = 2, out = 1 }\n"
    "data = { kind = \"synthetic\", size = 32, features = 2 }\nloop = { steps = 2 }\n";

TEST_F(ShardRunsTest, TogetherTheyFindWhatOneProcessFinds) {
  const std::string path = write(rare_race());

  for (const char* strategy : {"random", "pct:depth=3,steps=60", "uniform"}) {
    SCOPED_TRACE(strategy);
    expect_same(path, {.strategy = strategy, .n_runs = 300});
  }
}

TEST_F(ShardRunsTest, TogetherTheyReachWhatOneProcessReaches) {
  const std::string path = write(kCalm);

  expect_same(path, {.n_runs = 70, .n_seeds = 3});
  expect_same(path, {.n_runs = 70, .n_seeds = 2, .vary = true});
  expect_same(path, {.strategy = "pct:depth=2,steps=20", .n_runs = 40});
}

TEST_F(ShardRunsTest, AKeptFailureIsTriedFirstByTheShardItBelongsTo) {
  const std::string path = write(rare_race());
  const auto found = search(path, {.n_runs = 400});
  ASSERT_TRUE(found.ok() && found.value().failure);
  SearchOptions options = {.n_runs = 30};
  options.first = {{.settings = {}, .schedule = "round-robin"},
                   {.settings = {{"no.such", "1"}}, .schedule = ""},
                   found.value().failure->attempt};

  expect_same(path, options);
}

TEST_F(ShardRunsTest, WhatCannotBeSplitIsRefusedWithAReason) {
  const std::string path = write(kCalm);

  const auto exhaustive = make_runs(path, {.strategy = "exhaustive"}, {1, 2});
  ASSERT_FALSE(exhaustive.ok());
  EXPECT_THAT(exhaustive.error().message, HasSubstr("one process must see all of them"));
  const auto pct = make_runs(path, {.strategy = "pct:depth=3"}, {1, 2});
  ASSERT_FALSE(pct.ok());
  EXPECT_THAT(pct.error().message, HasSubstr("say it: pct:depth=3,steps=400"));
  const auto bare = make_runs(path, {.strategy = "pct"}, {1, 2});
  ASSERT_FALSE(bare.ok());
  EXPECT_THAT(bare.error().message, HasSubstr("say it: pct:steps=400"));
}

// Priorities change among the first `steps` picks: with fewer than the runs have, nothing is promised.
TEST_F(ShardRunsTest, PctPromisesNothingOfRunsThatAreLongerThanItWasGiven) {
  const std::string path = write(kCalm);

  const auto enough = search(path, {.strategy = "pct:depth=2,steps=5000", .n_runs = 5});
  const auto few = search(path, {.strategy = "pct:depth=2,steps=2", .n_runs = 5});
  ASSERT_TRUE(enough.ok() && few.ok());
  EXPECT_EQ(enough.value().n_steps, 5000U);
  EXPECT_GT(enough.value().bound, 0.0);
  EXPECT_GT(few.value().n_steps, 2U);
  EXPECT_EQ(few.value().bound, 0.0);
}

// What a part from elsewhere may say.
TEST_F(ShardRunsTest, RunsThatWereNotMadeHereAreRefused) {
  const std::string path = write(kCalm);
  const SearchOptions options = {.n_runs = 10};
  const std::vector<MadeRun> made = runs_of(path, options, 3);
  ASSERT_EQ(refused(path, options, made), "accepted");

  std::vector<MadeRun> lost = made;
  lost.erase(lost.begin() + 4);
  EXPECT_EQ(refused(path, options, lost), "run 5 is missing, although no run before it failed");
  lost = made;
  lost.pop_back();
  EXPECT_EQ(refused(path, options, lost), "run 10 is missing, although no run before it failed");
  std::vector<MadeRun> twice = made;
  twice.insert(twice.begin() + 4, made[4]);
  EXPECT_EQ(refused(path, options, twice), "run 6 is missing, although no run before it failed");
  std::vector<MadeRun> foreign = made;
  foreign[2].input = 7;
  EXPECT_EQ(refused(path, options, foreign), "run 3 is of inputs that this scenario does not have");
  std::vector<MadeRun> failed = made;
  failed[3].failure = "the sky fell";
  EXPECT_THAT(refused(path, options, failed), HasSubstr("run 4 does not fail here"));
}

}  // namespace
}  // namespace lockstep::explore
