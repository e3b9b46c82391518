// What a search has met: actions, faults, laws, marks; and that it says what it has not.
#include "lockstep/harness/explore/search/coverage.h"

#include <fstream>
#include <gmock/gmock.h>

#include <gtest/gtest.h>

#include "lockstep/formats/json_text.h"
#include "lockstep/harness/explore/search/search.h"

#include "tests/support/temp_folder.h"

namespace lockstep::explore {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class CoverageTest : public ::testing::Test {
 protected:
  std::string write(const std::string& text) const {
    const std::string path = folder_.path() + "/job.toml";
    std::ofstream(path) << text;
    return path;
  }

  Coverage covered(const std::string& text, const SearchOptions& options = {.n_runs = 10}) const {
    Result<SearchResult> result = search(write(text), options);
    EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().text());
    return result.ok() ? result.value().coverage : Coverage{};
  }

 private:
  lockstep::testing::TempFolder folder_;
};

const std::string kJob =
    "format = 1\nworld = { ranks = 2, max_restarts = 1 }\nmodel = { kind = \"linear\", in = 2, out "
    "= 1 }\n"
    "data = { kind = \"synthetic\", size = 32, features = 2 }\n"
    "loop = { steps = 3, snapshot = { every_steps = 1, path = \"ckpt\" } }\n";

TEST_F(CoverageTest, CountsActionsLawsAndRuns) {
  const Coverage coverage = covered(kJob);

  EXPECT_EQ(coverage.n_runs, 10U);
  EXPECT_GT(coverage.actions.picks[0], 0U) << "ranks resume";
  EXPECT_GT(coverage.actions.picks[1], 0U) << "transfers complete";
  EXPECT_EQ(coverage.actions.picks[3], 0U) << "nothing takes time";
  EXPECT_GT(coverage.actions.choices, 0U);
  EXPECT_THAT(coverage_text(coverage), HasSubstr("; never: messages, timers\n"));
  for (const LawCoverage& law : coverage.laws) {
    EXPECT_EQ(law.n_held + law.n_broken + law.n_unchecked, 10U) << law.law;
    if (law.law == "replicas-equal") {
      EXPECT_EQ(law.n_held, 10U);
    }
    if (law.law == "outer-step") {
      EXPECT_EQ(law.n_unchecked, 10U) << "no outer optimizer";
    }
  }
  EXPECT_THAT(coverage_text(coverage), HasSubstr("outer-step"));
}

// One rank makes no choices: what is never there is said.
TEST_F(CoverageTest, ASingleRankHasNoAlternatives) {
  const Coverage coverage = covered(
      "format = 1\nworld = { ranks = 1 }\ntensor.x = { shape = [4] }\n"
      "program = [ { body = [ { op = \"barrier\" } ] } ]\n");
  EXPECT_EQ(coverage.actions.choices, 0U);
}

TEST_F(CoverageTest, AFaultThatNeverStrikesIsNamed) {
  const Coverage coverage = covered(
      kJob +
      "fault = [ { kind = \"crash\", ranks = [1], at = { step = 1, event = \"forward\" } },\n"
      "          { kind = \"crash\", ranks = [0], at = { step = 7, event = \"forward\" } } ]\n");

  ASSERT_EQ(coverage.faults.size(), 2U);
  EXPECT_EQ(coverage.faults[0].n_runs, 10U);
  EXPECT_EQ(coverage.faults[1].n_runs, 0U);
  const std::string text = coverage_text(coverage);
  EXPECT_THAT(text, HasSubstr("faults: 1 of 2 struck\n  never struck: rank 0: sigkill"));
  EXPECT_THAT(text, Not(HasSubstr("never struck: rank 1")));
}

TEST_F(CoverageTest, MarksAreReachedByWhatRanksRecordAndOthersAreNamedWithTheirPlace) {
  const std::string marks =
      "sometimes = [\n"
      "  { name = \"a snapshot is written\", event = \"snapshot\", text = '\"action\":\"save\"' "
      "},\n"
      "  { name = \"a step is skipped\", event = \"step\", text = '\"skipped\":true' },\n"
      "  { name = \"rank 1 reduces in step 2\", event = \"all_reduce\", rank = 1, step = 2 },\n"
      "  { name = \"step 3 is reached\", event = \"forward\", step = 3 },\n"
      "  { name = \"ranks differ\", law = \"replicas-equal\" },\n"
      "  { name = \"all is well\", outcome = \"ok\" },\n"
      "]\n";

  const Coverage coverage = covered(kJob + marks);

  ASSERT_EQ(coverage.marks.size(), 6U);
  for (const std::size_t reached : {0U, 2U, 5U}) {
    EXPECT_EQ(coverage.marks[reached].n_runs, 10U) << coverage.marks[reached].name;
  }
  ASSERT_EQ(coverage.unreached().size(), 3U);
  const std::string text = coverage_text(coverage);
  EXPECT_THAT(text, HasSubstr("marks: 3 of 6 reached\n  never reached: a step is skipped ("));
  EXPECT_THAT(text, HasSubstr("/job.toml:8:3)\n"));
  EXPECT_THAT(text, HasSubstr("never reached: step 3 is reached"));
  EXPECT_THAT(text, HasSubstr("never reached: ranks differ"));
}

TEST_F(CoverageTest, AMarkOfALawIsReachedByTheRunThatBreaksIt) {
  const Coverage coverage = covered(
      kJob +
      "bug = [ { kind = \"scale-gradient\", ranks = [1], factor = 2.0, at = { step = 1 } } ]\n"
      "sometimes = [ { name = \"ranks differ\", law = \"replicas-equal\", outcome = "
      "\"findings\" } ]\n");
  ASSERT_EQ(coverage.marks.size(), 1U);
  EXPECT_EQ(coverage.marks[0].n_runs, coverage.n_runs);
}

TEST_F(CoverageTest, ThreadsAndTheOrderOfRunsChangeNothing) {
  const std::string text = kJob +
                           "sometimes = [ { name = \"a load\", event = \"snapshot\", text = "
                           "'\"action\":\"load\"', attempt = 1 } ]\n";
  const auto tell = [&](std::uint64_t n_jobs) {
    const Coverage coverage =
        covered(text, {.strategy = "uniform", .n_runs = 70, .n_seeds = 2, .n_jobs = n_jobs});
    JsonText out;
    out.open_object();
    write_coverage(out, coverage);
    out.close_object();
    return out.str();
  };
  const std::string one = tell(1);
  EXPECT_EQ(tell(3), one);
  EXPECT_THAT(one, HasSubstr(R"("marks":[{"name":"a load","where":")"));
}

}  // namespace
}  // namespace lockstep::explore
