// What a launcher passes to each process it starts.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/enum_names.h"
#include "lockstep/base/error.h"

namespace lockstep {

/// Who started a rank's process.
enum class LauncherKind : std::uint8_t { kNone, kTorchrun, kOpenMpi, kPmi, kSlurm };
template <>
inline constexpr EnumNames<5> kEnumNames<LauncherKind> = {
    "", "torchrun", "openmpi", "pmi", "slurm"};

/// A rank's place, as torchrun spells it in the environment.
///
/// Source: the variables of torch.distributed.run; under mpirun and srun those of Open MPI
///     (OMPI_COMM_WORLD_*), PMI (PMI_RANK, PMI_SIZE) and Slurm (SLURM_PROCID, SLURM_LOCALID and
///     SLURM_STEP_NUM_TASKS, which srun sets and a batch script does not have).
struct LaunchEnvironment {
  std::int32_t rank = 0;
  std::int32_t world_size = 1;
  std::int32_t local_rank = 0;
  std::int32_t local_world_size = 1;
  std::int32_t node = -1;          ///< GROUP_RANK, or Slurm's number of the machine; -1: not said.
  std::int32_t restart_count = 0;  ///< TORCHELASTIC_RESTART_COUNT
  std::int32_t max_restarts = 0;   ///< TORCHELASTIC_MAX_RESTARTS
  /// TORCHELASTIC_RUN_ID, or the number that Open MPI or Slurm gave the job: two jobs on one
  /// machine do not meet.
  std::string run_id = "none";
  std::string master_addr = "127.0.0.1";
  std::int32_t master_port = 29500;
  std::string backend;     ///< LOCKSTEP_BACKEND: "gloo" | "nccl", empty = not said.
  std::string rendezvous;  ///< LOCKSTEP_RENDEZVOUS: a folder all ranks share, empty = not said.
  std::string trace;       ///< LOCKSTEP_TRACE: where traces go, empty = nowhere.
  bool check_arrivals = false;                ///< LOCKSTEP_CHECK_ARRIVALS=1: compare what arrives.
  LauncherKind source = LauncherKind::kNone;  ///< Which launcher spoke.
};

/// Looks a variable up, as Host::environment or getenv do.
using EnvironmentLookup = std::function<std::optional<std::string>(std::string_view)>;

/// Reads this process's own environment.
EnvironmentLookup process_environment();

/// Reads the place of this process. An empty value: no launcher spoke.
/// Errors: a variable is missing, not a number, or out of range (where = its name); RANK is not
///     below WORLD_SIZE.
Result<std::optional<LaunchEnvironment>> read_launch_environment(const EnvironmentLookup& lookup);

/// What torchrun would have said of a place that another launcher named: RANK, LOCAL_RANK,
/// WORLD_SIZE and, if it is known, GROUP_RANK. Empty for torchrun's own, and for a place that no launcher named.
std::vector<std::pair<std::string, std::string>> torchrun_variables(const LaunchEnvironment& place);

/// The folder in which the ranks of this run and restart find each other: `rendezvous` or, on one
/// machine, a name under TMPDIR made of run id, address, port and restart count.
std::string rendezvous_folder(const LaunchEnvironment& environment,
                              const EnvironmentLookup& lookup);

}  // namespace lockstep
