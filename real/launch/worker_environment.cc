#include "lockstep/real/launch/worker_environment.h"

#include "lockstep/base/text.h"

namespace lockstep::launch {

std::string rank_folder(const RunFolders& folders, std::int32_t attempt, std::int32_t local_rank) {
  return folders.logs + "/attempt_" + std::to_string(attempt) + "/" + std::to_string(local_rank);
}

namespace {

/// Of a rank that sees one device only: the entry with its index in what is visible here.
std::string own_device(std::int32_t local_rank, const Lookup& inherited) {
  const std::optional<std::string> visible = inherited("CUDA_VISIBLE_DEVICES");
  if (!visible) return std::to_string(local_rank);
  const std::vector<std::string_view> devices = split(*visible, ',');
  const auto index = static_cast<std::size_t>(local_rank);
  return index < devices.size() ? std::string(trim(devices[index])) : std::string();
}

}  // namespace

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
      {"LOCAL_RANK", options.virtual_local_rank ? "0" : number(local_rank)},
      {"RANK", number(rank)},
      {"GROUP_RANK", number(options.node_rank)},
      {"ROLE_RANK", number(rank)},
      {"ROLE_NAME", options.role},
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
      {"TORCHELASTIC_SIGNALS_TO_HANDLE", options.signals},
      {"TORCHELASTIC_ERROR_FILE", rank_folder(folders, attempt, local_rank) + "/error.json"},
  };
  if (options.virtual_local_rank) {
    variables.emplace_back("CUDA_VISIBLE_DEVICES", own_device(local_rank, inherited));
  }
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
