#include "lockstep/real/host/launch_environment.h"

#include <map>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

EnvironmentLookup lookup_in(Variables variables) {
  return [variables = std::move(variables)](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

std::string complaint_about(Variables variables) {
  const auto read = read_launch_environment(lookup_in(std::move(variables)));
  return read.ok() ? std::string("none") : read.error().text();
}

TEST(LaunchEnvironmentTest, ReadsWhatTorchrunSets) {
  const auto read = read_launch_environment(lookup_in({{"RANK", "5"},
                                                       {"WORLD_SIZE", "8"},
                                                       {"LOCAL_RANK", "1"},
                                                       {"LOCAL_WORLD_SIZE", "4"},
                                                       {"MASTER_ADDR", "10.0.0.7"},
                                                       {"MASTER_PORT", "29511"},
                                                       {"TORCHELASTIC_RUN_ID", "job-1"},
                                                       {"TORCHELASTIC_RESTART_COUNT", "2"},
                                                       {"TORCHELASTIC_MAX_RESTARTS", "3"},
                                                       {"LOCKSTEP_BACKEND", "gloo"}}));
  ASSERT_TRUE(read.ok());
  const LaunchEnvironment& place = *read.value();
  EXPECT_EQ(place.rank, 5);
  EXPECT_EQ(place.world_size, 8);
  EXPECT_EQ(place.local_rank, 1);
  EXPECT_EQ(place.local_world_size, 4);
  EXPECT_EQ(place.master_addr, "10.0.0.7");
  EXPECT_EQ(place.master_port, 29511);
  EXPECT_EQ(place.run_id, "job-1");
  EXPECT_EQ(place.restart_count, 2);
  EXPECT_EQ(place.max_restarts, 3);
  EXPECT_EQ(place.backend, "gloo");
  EXPECT_EQ(name_of(place.source), "torchrun");
}

TEST(LaunchEnvironmentTest, ComparingWhatArrivesIsOnOnlyWhenAskedFor) {
  const auto checks = [](const std::string& value) {
    Variables variables = {{"RANK", "0"}, {"WORLD_SIZE", "1"}};
    if (!value.empty()) variables["LOCKSTEP_CHECK_ARRIVALS"] = value;
    const auto read = read_launch_environment(lookup_in(std::move(variables)));
    return read.ok() && read.value()->check_arrivals;
  };
  EXPECT_TRUE(checks("1"));
  EXPECT_FALSE(checks("0"));
  EXPECT_FALSE(checks(""));
  EXPECT_EQ(
      complaint_about({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCKSTEP_CHECK_ARRIVALS", "yes"}}),
      "LOCKSTEP_CHECK_ARRIVALS: 'yes' is neither 0 nor 1");
}

TEST(LaunchEnvironmentTest, UnderstandsMpirunAndSrun) {
  const auto mpi = read_launch_environment(lookup_in({{"OMPI_COMM_WORLD_RANK", "3"},
                                                      {"OMPI_COMM_WORLD_SIZE", "4"},
                                                      {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                                      {"PMIX_NAMESPACE", "prterun-n1-7@1"}}));
  ASSERT_TRUE(mpi.ok());
  EXPECT_EQ(name_of(mpi.value()->source), "openmpi");
  EXPECT_EQ(mpi.value()->rank, 3);
  EXPECT_EQ(mpi.value()->local_rank, 1);
  EXPECT_EQ(mpi.value()->run_id, "openmpi-prterun-n1-7_1");
  const auto slurm = read_launch_environment(lookup_in({{"SLURM_PROCID", "2"},
                                                        {"SLURM_NTASKS", "3"},
                                                        {"SLURM_STEP_NUM_TASKS", "3"},
                                                        {"SLURM_LOCALID", "0"},
                                                        {"SLURM_NODEID", "5"},
                                                        {"SLURM_JOB_ID", "17"},
                                                        {"SLURM_STEP_ID", "2"}}));
  ASSERT_TRUE(slurm.ok());
  EXPECT_EQ(name_of(slurm.value()->source), "slurm");
  EXPECT_EQ(slurm.value()->rank, 2);
  EXPECT_EQ(slurm.value()->local_rank, 0);
  EXPECT_EQ(slurm.value()->run_id, "slurm-17-2");
  EXPECT_EQ(slurm.value()->node, 5);
  const auto hydra = read_launch_environment(lookup_in(
      {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "1"}}));
  ASSERT_TRUE(hydra.ok());
  EXPECT_EQ(name_of(hydra.value()->source), "pmi");
  EXPECT_EQ(hydra.value()->rank, 1);
  EXPECT_EQ(hydra.value()->local_rank, 0);
  EXPECT_EQ(hydra.value()->local_world_size, 1);
  EXPECT_EQ(hydra.value()->run_id, "none");
}

// A job that asks for RANK or LOCAL_RANK gets the same answer under every launcher.
TEST(LaunchEnvironmentTest, EveryPlaceIsSaidAsTorchrunWould) {
  using Said = std::vector<std::pair<std::string, std::string>>;
  const auto said = [](Variables variables) {
    return torchrun_variables(*read_launch_environment(lookup_in(std::move(variables))).value());
  };
  EXPECT_EQ(said({{"OMPI_COMM_WORLD_RANK", "1"},
                  {"OMPI_COMM_WORLD_SIZE", "2"},
                  {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                  {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}),
            (Said{{"RANK", "1"}, {"LOCAL_RANK", "1"}, {"WORLD_SIZE", "2"}, {"GROUP_RANK", "0"}}));
  EXPECT_EQ(said({{"OMPI_COMM_WORLD_RANK", "3"},
                  {"OMPI_COMM_WORLD_SIZE", "4"},
                  {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                  {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}),
            (Said{{"RANK", "3"}, {"LOCAL_RANK", "1"}, {"WORLD_SIZE", "4"}}));
  EXPECT_EQ(said({{"RANK", "0"}, {"WORLD_SIZE", "1"}}), Said{});
  EXPECT_EQ(torchrun_variables({}), Said{});
}

// What a batch script finds in its environment, although no srun started it.
TEST(LaunchEnvironmentTest, ABatchScriptIsNotARank) {
  const auto read = read_launch_environment(lookup_in({{"SLURM_PROCID", "0"},
                                                       {"SLURM_NTASKS", "4"},
                                                       {"SLURM_LOCALID", "0"},
                                                       {"SLURM_JOB_ID", "17"}}));
  ASSERT_TRUE(read.ok());
  EXPECT_FALSE(read.value().has_value());
}

// mpirun within srun, and torchrun within mpirun: the innermost launcher started this process.
TEST(LaunchEnvironmentTest, TheInnermostLauncherCounts) {
  Variables variables = {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}};
  const auto source = [&] {
    return name_of(read_launch_environment(lookup_in(variables)).value()->source);
  };
  EXPECT_EQ(source(), "slurm");
  variables.insert({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}});
  EXPECT_EQ(source(), "openmpi");
  variables.insert({{"RANK", "3"}, {"WORLD_SIZE", "4"}});
  EXPECT_EQ(source(), "torchrun");
}

TEST(LaunchEnvironmentTest, WithoutALauncherThereIsNoPlace) {
  const auto read = read_launch_environment(lookup_in({{"HOME", "/root"}}));
  ASSERT_TRUE(read.ok());
  EXPECT_FALSE(read.value().has_value());
}

TEST(LaunchEnvironmentTest, SaysWhatIsMissingOrWrong) {
  EXPECT_EQ(complaint_about({{"RANK", "0"}}), "WORLD_SIZE: RANK is set but WORLD_SIZE is not");
  EXPECT_EQ(complaint_about({{"WORLD_SIZE", "2"}}), "RANK: WORLD_SIZE is set but RANK is not");
  EXPECT_EQ(complaint_about({{"RANK", "zwei"}, {"WORLD_SIZE", "2"}}),
            "RANK: 'zwei' is not a whole number, 0 or more");
  EXPECT_EQ(complaint_about({{"RANK", "-1"}, {"WORLD_SIZE", "2"}}),
            "RANK: '-1' is not a whole number, 0 or more");
  EXPECT_EQ(complaint_about({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_PORT", "http"}}),
            "MASTER_PORT: 'http' is not a whole number, 0 or more");
  EXPECT_EQ(complaint_about({{"RANK", "0"}, {"WORLD_SIZE", ""}}),
            "WORLD_SIZE: '' is not a whole number, 0 or more");
  EXPECT_EQ(complaint_about({{"RANK", "0"}, {"WORLD_SIZE", "99999999999"}}),
            "WORLD_SIZE: '99999999999' is not a whole number, 0 or more");
  EXPECT_EQ(complaint_about({{"RANK", "0"}, {"WORLD_SIZE", "2.0"}}),
            "WORLD_SIZE: '2.0' is not a whole number, 0 or more");
  EXPECT_EQ(
      complaint_about(
          {{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "2"}, {"LOCAL_WORLD_SIZE", "2"}}),
      "LOCAL_RANK: local rank 2 of 2 on this machine; they count from 0");
  EXPECT_EQ(complaint_about({{"RANK", "2"}, {"WORLD_SIZE", "2"}}),
            "RANK: rank 2 in a world of 2; ranks count from 0");
  EXPECT_EQ(complaint_about({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_PORT", "70000"}}),
            "MASTER_PORT: '70000' is not a port; one is between 0 and 65535");
}

TEST(LaunchEnvironmentTest, EveryRestartHasItsOwnRendezvousFolder) {
  LaunchEnvironment place;
  place.run_id = "job";
  const EnvironmentLookup lookup = lookup_in({{"TMPDIR", "/scratch"}});
  EXPECT_EQ(rendezvous_folder(place, lookup), "/scratch/lockstep-job-127.0.0.1-29500-0");
  place.restart_count = 1;
  EXPECT_EQ(rendezvous_folder(place, lookup), "/scratch/lockstep-job-127.0.0.1-29500-1");
  place.rendezvous = "/shared/meet";
  EXPECT_EQ(rendezvous_folder(place, lookup), "/shared/meet/attempt-1");
}

}  // namespace
}  // namespace lockstep
