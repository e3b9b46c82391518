// The variables a launched rank finds.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/real/launch/launch_options.h"

namespace lockstep::launch {

/// Where the files of one run lie.
struct RunFolders {
  std::string rendezvous;  ///< Becomes LOCKSTEP_RENDEZVOUS; empty: not set.
  std::string logs;        ///< attempt_K/LOCAL_RANK/{stdout.log,stderr.log,error.json} below it.
};

using Lookup = std::function<std::optional<std::string>(std::string_view)>;
using Variables = std::vector<std::pair<std::string, std::string>>;

/// The folder of one rank's files in one attempt.
std::string rank_folder(const RunFolders& folders, std::int32_t attempt, std::int32_t local_rank);

/// True when ranks get OMP_NUM_THREADS=1, which the environment does not say.
bool limits_threads(const LaunchOptions& options, const Lookup& inherited);

/// The variables of one rank, to be set over the inherited ones.
///
/// Source: the variables of torch.distributed.run. One differs on purpose:
///     TORCHELASTIC_USE_AGENT_STORE is False, since this launcher keeps no store and rank 0 has to.
Variables worker_environment(const LaunchOptions& options,
                             const RunFolders& folders,
                             std::int32_t local_rank,
                             std::int32_t attempt,
                             const Lookup& inherited);

}  // namespace lockstep::launch
