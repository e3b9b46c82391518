// Healthy programs must stay quiet: a false alarm is as bad a defect as a miss.
#include "tests/programs/healthy/healthy.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "tests/programs/judged_run.h"

namespace lockstep::programs {

namespace {

std::vector<HealthyProgram> all_programs() {
  std::vector<HealthyProgram> all;
  for (const auto& list : {plain_programs,
                           gradient_programs,
                           wrapper_programs,
                           group_programs,
                           data_programs,
                           state_programs}) {
    const std::vector<HealthyProgram> some = list();
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

/// False alarms that are known and not mended yet. A program that is no longer accused fails until
/// it leaves this list.
constexpr std::string_view kAccused[] = {
    "Adversaries",
    "CriticTrainedMoreOften",
    "HalfPrecisionHook",
    "HandWrittenAveragingUnderNoSync",
    "HierarchicalAveraging",
    "LocalSgd",
    "PostLocalSgd",
    "PowerSgdHook",
    "QuantizingHook",
};

bool is_accused(const HealthyProgram& healthy) {
  return std::find(std::begin(kAccused), std::end(kAccused), healthy.name) != std::end(kAccused);
}

class HealthyProgramTest : public ::testing::TestWithParam<HealthyProgram> {};

}  // namespace

std::ostream& operator<<(std::ostream& out, const HealthyProgram& one) { return out << one.name; }

TEST_P(HealthyProgramTest, IsQuietUnderTwentySchedules) {
  const HealthyProgram& healthy = GetParam();
  const std::string first = accusations(simulated(healthy.program, healthy.ranks), healthy.advice);
  EXPECT_EQ(!first.empty(), is_accused(healthy)) << first;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const std::string said =
        accusations(simulated(healthy.program, healthy.ranks, "random", seed), healthy.advice);
    EXPECT_EQ(!said.empty(), is_accused(healthy)) << "seed " << seed << "\n" << said;
  }
}

TEST_P(HealthyProgramTest, IsQuietAsProcesses) {
  const HealthyProgram& healthy = GetParam();
  const std::string said = complaint_on_gloo(healthy.program, healthy.ranks, healthy.advice);
  EXPECT_EQ(!said.empty(), is_accused(healthy)) << said;
}

TEST(HealthyProgramTest, ThePageNamesThoseThatAreAccused) {
  std::ostringstream page;
  page << std::ifstream(LOCKSTEP_SOURCE_DIR "/docs/programs.md").rdbuf();
  for (const HealthyProgram& one : all_programs()) {
    const bool named = page.str().find("| `" + std::string(one.name) + "` |") != std::string::npos;
    EXPECT_EQ(named, is_accused(one)) << one.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Programs,
                         HealthyProgramTest,
                         ::testing::ValuesIn(all_programs()),
                         [](const auto& named) { return std::string(named.param.name); });

TEST(HealthyProgramTest, ThereAreManyAndTheirNamesDiffer) {
  std::vector<std::string_view> names;
  for (const HealthyProgram& one : all_programs()) names.push_back(one.name);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
  EXPECT_GE(names.size(), 40U);
}

}  // namespace lockstep::programs
