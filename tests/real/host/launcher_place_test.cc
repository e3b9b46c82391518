// A launcher that srun or mpirun started once per machine knows its place; other launchers do not.
#include "lockstep/real/host/launcher_place.h"

#include <gmock/gmock.h>
#include <map>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using Variables = std::map<std::string, std::string, std::less<>>;

Result<std::optional<LauncherPlace>> place_in(const Variables& variables) {
  return read_launcher_place([&](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  });
}

std::string refused(const Variables& variables) {
  const auto place = place_in(variables);
  return place.ok() ? "accepted" : place.error().text();
}

/// The second of three launchers that srun started, one on each machine.
Variables second_of_three() {
  return {{"SLURM_STEP_NUM_TASKS", "3"},
          {"SLURM_STEP_NUM_NODES", "3"},
          {"SLURM_PROCID", "1"},
          {"SLURM_NODEID", "1"},
          {"SLURM_LOCALID", "0"},
          {"SLURM_STEP_NODELIST", "gpu[07-09]"},
          {"SLURM_JOB_ID", "4711"},
          {"SLURM_STEP_ID", "0"}};
}

TEST(LauncherPlaceTest, SrunSaysWhereItIs) {
  const auto place = place_in(second_of_three());
  ASSERT_TRUE(place.ok() && place.value()) << refused(second_of_three());
  EXPECT_EQ(place.value()->by, "srun");
  EXPECT_EQ(place.value()->n_nodes, 3);
  EXPECT_EQ(place.value()->node, 1);
  EXPECT_EQ(place.value()->first_host, "gpu07");
  EXPECT_EQ(place.value()->run_id, "slurm-4711-0");
}

// Of one job step the same everywhere, of others another, and never one that systems hand out.
TEST(LauncherPlaceTest, TheStepsOfJobsHavePortsOfTheirOwn) {
  const auto port = [](const std::string& node, const std::string& job, const std::string& step) {
    Variables variables = second_of_three();
    variables["SLURM_NODEID"] = node;
    variables["SLURM_JOB_ID"] = job;
    variables["SLURM_STEP_ID"] = step;
    return place_in(variables).value()->port;
  };
  EXPECT_EQ(port("0", "4711", "0"), port("2", "4711", "0"));
  EXPECT_NE(port("0", "4711", "0"), port("0", "4711", "1"));
  EXPECT_NE(port("0", "4711", "0"), port("0", "4712", "0"));
  for (const char* job : {"0", "9999", "10000", "99999999", "-5", "x"}) {
    EXPECT_GE(port("0", job, "3"), 10'000) << job;
    EXPECT_LT(port("0", job, "3"), 30'000) << job;
    EXPECT_EQ(port("0", job, "3") % 2, 0) << job;
  }
}

TEST(LauncherPlaceTest, MpirunSaysItWithoutTheFirstMachine) {
  const auto place = place_in({{"OMPI_COMM_WORLD_RANK", "1"},
                               {"OMPI_COMM_WORLD_SIZE", "2"},
                               {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                               {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}});
  ASSERT_TRUE(place.ok() && place.value());
  EXPECT_EQ(place.value()->by, "mpirun");
  EXPECT_EQ(place.value()->n_nodes, 2);
  EXPECT_EQ(place.value()->node, 1);
  EXPECT_EQ(place.value()->first_host, "");
}

TEST(LauncherPlaceTest, SeveralLaunchersOnOneMachineAreRefused) {
  Variables variables = second_of_three();
  variables["SLURM_STEP_NUM_TASKS"] = "6";
  EXPECT_THAT(refused(variables),
              HasSubstr("srun started 6 launchers, several of them on one machine; "
                        "start one on each (srun --ntasks-per-node=1)"));
  EXPECT_THAT(refused({{"OMPI_COMM_WORLD_RANK", "1"},
                       {"OMPI_COMM_WORLD_SIZE", "2"},
                       {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}),
              HasSubstr("mpirun started 2 launchers"));
}

TEST(LauncherPlaceTest, AProcessThatIsNotOneOfSeveralHasNone) {
  const Variables batch = {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "1"}};
  const Variables shell = {{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PROCID", "0"}};
  const Variables worker = {{"RANK", "0"}, {"WORLD_SIZE", "2"}};
  for (const Variables& variables : {Variables{}, batch, shell, worker}) {
    const auto place = place_in(variables);
    EXPECT_TRUE(place.ok() && !place.value());
  }
}

TEST(LauncherPlaceTest, AVariableThatMakesNoSenseIsNamed) {
  Variables variables = second_of_three();
  variables["SLURM_NODEID"] = "one";
  EXPECT_EQ(refused(variables), "SLURM_NODEID: 'one' is not a whole number, 0 or more");
  variables = second_of_three();
  variables["SLURM_STEP_NUM_NODES"] = "-3";
  EXPECT_EQ(refused(variables), "SLURM_STEP_NUM_NODES: '-3' is not a whole number, 0 or more");
}

TEST(LauncherPlaceTest, TheFirstMachineOfAListIsFound) {
  EXPECT_EQ(first_host_of("n01"), "n01");
  EXPECT_EQ(first_host_of("a,b,c"), "a");
  EXPECT_EQ(first_host_of("n[01-04,09],login"), "n01");
  EXPECT_EQ(first_host_of("n[7,9]"), "n7");
  EXPECT_EQ(first_host_of("login,n[01-04]"), "login");
  EXPECT_EQ(first_host_of("rack[2-3]-n[5-6].cluster,x"), "rack2-n5.cluster");
  EXPECT_EQ(first_host_of(""), "");
  EXPECT_EQ(first_host_of("n["), "");
  EXPECT_EQ(first_host_of("n[]"), "");
}

}  // namespace
}  // namespace lockstep
