// Where a launcher runs that was itself started once per machine, by srun or mpirun.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/real/host/launch_environment.h"

namespace lockstep {

/// One launcher of several, on a machine each.
struct LauncherPlace {
  std::string by;  ///< "srun" or "mpirun": who started it.
  std::int32_t n_nodes = 1;
  std::int32_t node = 0;     ///< This machine's number.
  std::string first_host{};  ///< The machine of node 0; empty: not said.
  std::int32_t port = 0;     ///< Where all launchers of this job may meet; 0: not said.
  std::string run_id{};      ///< Of the job; empty: not said.
};

/// Reads the variables of srun, Open MPI and PMI. An empty value: none of them started this process
/// as one of several.
/// Errors: several launchers on one machine, which would each start all of its ranks; a variable
///     that makes no sense (where = its name).
///
/// srun: SLURM_STEP_NUM_TASKS, SLURM_STEP_NUM_NODES, SLURM_NODEID, SLURM_STEP_NODELIST, SLURM_JOB_ID
/// and SLURM_STEP_ID. The port is made of the last two, so that jobs on one machine have their own.
Result<std::optional<LauncherPlace>> read_launcher_place(const EnvironmentLookup& lookup);

/// The first machine of a list as Slurm writes it: "n01" of "n[01-04,09],login", "a" of "a,b".
/// Empty: there is none.
std::string first_host_of(std::string_view list);

}  // namespace lockstep
