// Healthy programs must stay quiet: a false alarm is as bad a defect as a miss.
#include "tests/programs/healthy/healthy.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "lockstep/laws/report.h"

#include "tests/programs/healthy/broken_twins.h"
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
                           state_programs,
                           loop_programs,
                           piece_programs,
                           exchange_programs,
                           window_programs,
                           worded_programs,
                           model_parallel_programs}) {
    const std::vector<HealthyProgram> some = list();
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

std::vector<BrokenTwin> all_twins() {
  std::vector<BrokenTwin> all = averaging_twins();
  for (const auto& list : {reduction_twins,
                           loop_twins,
                           exchange_twins,
                           window_twins,
                           worded_twins,
                           model_parallel_twins}) {
    for (const BrokenTwin& one : list()) all.push_back(one);
  }
  return all;
}

/// Whether a report says of a law, or of an advice, what a twin expects.
bool says(const Report& report, const BrokenTwin& twin) {
  const auto holds = [&](const std::string& text) {
    return text.find(twin.says) != std::string::npos;
  };
  for (const LawResult& law : report.laws) {
    for (const Finding& finding : law.findings) {
      if (finding.law == twin.law && holds(sentence(finding))) return true;
    }
    for (const Advice& advice : law.advice) {
      if (advice.id == twin.law && holds(advice.message)) return true;
    }
  }
  return false;
}

class HealthyProgramTest : public ::testing::TestWithParam<HealthyProgram> {};

class BrokenTwinTest : public ::testing::TestWithParam<BrokenTwin> {};

class RealTwinTest : public ::testing::TestWithParam<BrokenTwin> {};

}  // namespace

std::ostream& operator<<(std::ostream& out, const HealthyProgram& one) { return out << one.name; }

std::ostream& operator<<(std::ostream& out, const BrokenTwin& one) { return out << one.name; }

TEST_P(HealthyProgramTest, IsQuietUnderTwentySchedules) {
  const HealthyProgram& healthy = GetParam();
  EXPECT_EQ(accusations(simulated(healthy.program, healthy.ranks), healthy.advice), "");
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const std::string said =
        accusations(simulated(healthy.program, healthy.ranks, "random", seed), healthy.advice);
    EXPECT_EQ(said, "") << "seed " << seed;
  }
}

TEST_P(HealthyProgramTest, IsQuietAsProcesses) {
  const HealthyProgram& healthy = GetParam();
  EXPECT_EQ(complaint_on_gloo(healthy.program, healthy.ranks, healthy.advice), "");
}

TEST_P(BrokenTwinTest, IsNoticedUnderFiveSchedules) {
  const BrokenTwin& twin = GetParam();
  const Report first = simulated(twin.program, twin.ranks);
  EXPECT_TRUE(says(first, twin)) << accusations(first);
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const Report report = simulated(twin.program, twin.ranks, "random", seed);
    EXPECT_TRUE(says(report, twin)) << "seed " << seed << "\n" << accusations(report);
  }
}

// Of what a real rank does its memory is not watched, and what its losses are made of is.
TEST_P(RealTwinTest, IsNoticedAsProcesses) {
  const BrokenTwin& twin = GetParam();
  const std::string said = complaint_on_gloo(twin.program, twin.ranks);
  EXPECT_NE(said.find(twin.says), std::string::npos) << said;
}

INSTANTIATE_TEST_SUITE_P(Twins,
                         RealTwinTest,
                         ::testing::ValuesIn(exchange_twins()),
                         [](const auto& named) { return std::string(named.param.name); });

INSTANTIATE_TEST_SUITE_P(Loops,
                         RealTwinTest,
                         ::testing::ValuesIn(loop_twins()),
                         [](const auto& named) { return std::string(named.param.name); });

INSTANTIATE_TEST_SUITE_P(Programs,
                         HealthyProgramTest,
                         ::testing::ValuesIn(all_programs()),
                         [](const auto& named) { return std::string(named.param.name); });

INSTANTIATE_TEST_SUITE_P(Twins,
                         BrokenTwinTest,
                         ::testing::ValuesIn(all_twins()),
                         [](const auto& named) { return std::string(named.param.name); });

TEST(HealthyProgramTest, ThereAreManyAndTheirNamesDiffer) {
  std::vector<std::string_view> names;
  for (const HealthyProgram& one : all_programs()) names.push_back(one.name);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
  EXPECT_GE(names.size(), 80U);
}

}  // namespace lockstep::programs
