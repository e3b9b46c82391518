// Trials that one runner makes one after another: the later ones find memory warm.
#include "lockstep/harness/explore/search/trial.h"

#include <fstream>

#include <gtest/gtest.h>

#include "lockstep/harness/explore/search/search.h"
#include "lockstep/harness/format/load.h"

#include "tests/support/count_allocations.h"
#include "tests/support/scenario_files.h"
#include "tests/support/temp_folder.h"

namespace lockstep::explore {
namespace {

class TrialTest : public ::testing::Test {
 protected:
  TrialTest() { std::ofstream(path_) << small_job(); }

  template <typename Call>
  static std::int64_t blocks_of(Call call) {
    const std::int64_t before = lockstep::testing::n_allocations();
    call();
    return lockstep::testing::n_allocations() - before;
  }

  /// Blocks that one trial of `runner` asks for.
  std::int64_t blocks_of_trial(const TrialRunner& runner) const {
    const auto scenario = load_scenario(path_, "", {});
    EXPECT_TRUE(scenario.ok());
    return blocks_of([&] { EXPECT_TRUE(runner.run(scenario.value(), {}).ok()); });
  }

  /// Blocks of a search of this many runs on one thread.
  std::int64_t blocks_of_search(std::uint64_t n_runs) const {
    SearchOptions options;
    options.n_runs = n_runs;
    options.n_jobs = 1;
    return blocks_of([&] { EXPECT_TRUE(search(path_, options).ok()); });
  }

  lockstep::testing::TempFolder folder_;
  std::string path_ = folder_.path() + "/job.toml";
};

TEST_F(TrialTest, ASecondTrialFindsTheFirstOnesWorldWarm) {
  const TrialRunner runner(path_);
  blocks_of_trial(runner);
  const std::int64_t warm = blocks_of_trial(runner);
  EXPECT_LT(warm, blocks_of_trial(TrialRunner(path_)));
}

// The first run is alone; then come blocks of 64, whose threads keep what the block before left. Beside a trial, a run takes two blocks
// of memory for its name and its place in the tally; a third for each is less than one cold world takes.
TEST_F(TrialTest, AllBlocksOfASearchFindOneWorldWarm) {
  const TrialRunner runner(path_);
  blocks_of_trial(runner);
  const std::int64_t warm = blocks_of_trial(runner);
  ASSERT_GT(blocks_of_trial(TrialRunner(path_)) - warm, 64);
  EXPECT_LT(blocks_of_search(193) - blocks_of_search(129), 64 * (warm + 3));
}

}  // namespace
}  // namespace lockstep::explore
