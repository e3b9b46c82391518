#include "lockstep/real/launch/worker_environment.h"

namespace lockstep::launch {

std::string rank_folder(const RunFolders& folders, std::int32_t attempt, std::int32_t local_rank) {
  return folders.logs + "/attempt_" + std::to_string(attempt) + "/" + std::to_string(local_rank);
}

bool limits_threads(const LaunchOptions& options, const Lookup& inherited) {
  return options.n_per_node > 1 && !inherited("OMP_NUM_THREADS");
}

Variables worker_environment(const LaunchOptions& options,
                             const RunFolders& folders,
                             std::int32_t local_rank,
                             std::int32_t attempt,
                             const Lookup& inherited) {
  const auto number = [](std::int32_t value) { return std::to_string(value); };
  const std::int32_t rank = options.node_rank * options.n_per_node + local_rank;
  const std::int32_t world_size = options.n_nodes * options.n_per_node;
  Variables variables = {
      {"LOCAL_RANK", number(local_rank)},
      {"RANK", number(rank)},
      {"GROUP_RANK", number(options.node_rank)},
      {"ROLE_RANK", number(rank)},
      {"ROLE_NAME", "default"},
      {"LOCAL_WORLD_SIZE", number(options.n_per_node)},
      {"WORLD_SIZE", number(world_size)},
      {"GROUP_WORLD_SIZE", number(options.n_nodes)},
      {"ROLE_WORLD_SIZE", number(world_size)},
      {"MASTER_ADDR", options.master_addr},
      {"MASTER_PORT", number(options.master_port)},
      {"TORCHELASTIC_RESTART_COUNT", number(attempt)},
      {"TORCHELASTIC_MAX_RESTARTS", number(options.max_restarts)},
      {"TORCHELASTIC_RUN_ID", options.run_id},
      {"TORCHELASTIC_USE_AGENT_STORE", "False"},
      {"TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT"},
      {"TORCHELASTIC_ERROR_FILE", rank_folder(folders, attempt, local_rank) + "/error.json"},
  };
  // The older name is what PyTorch before 2.2 reads.
  for (const char* name : {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "NCCL_ASYNC_ERROR_HANDLING"}) {
    variables.emplace_back(name, inherited(name).value_or("1"));
  }
  if (limits_threads(options, inherited)) variables.emplace_back("OMP_NUM_THREADS", "1");
  if (!folders.rendezvous.empty())
    variables.emplace_back("LOCKSTEP_RENDEZVOUS", folders.rendezvous);
  if (!options.backend.empty()) variables.emplace_back("LOCKSTEP_BACKEND", options.backend);
  if (options.check_arrivals) variables.emplace_back("LOCKSTEP_CHECK_ARRIVALS", "1");
  if (!options.trace.empty()) {
    // A restarted run is a new run: its events do not continue those of the first.
    const std::string again = attempt == 0 ? "" : "/restart-" + number(attempt);
    variables.emplace_back("LOCKSTEP_TRACE", options.trace + again);
  }
  return variables;
}

}  // namespace lockstep::launch
