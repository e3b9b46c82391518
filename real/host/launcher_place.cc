#include "lockstep/real/host/launcher_place.h"

#include <algorithm>

#include "lockstep/base/text.h"

namespace lockstep {

namespace {

/// The number under `name`, or `without`. Errors: it is none from 0 to a million.
Result<std::int32_t> number_in(const EnvironmentLookup& lookup,
                               std::string_view name,
                               std::int32_t without) {
  constexpr std::int64_t kMost = 1'000'000;
  const std::optional<std::string> text = lookup(name);
  if (!text) return without;
  const std::optional<std::int64_t> number = parse_int(*text);
  if (number && *number >= 0 && *number <= kMost) return static_cast<std::int32_t>(*number);
  return Error{"'" + *text + "' is not a whole number, 0 or more", std::string(name)};
}

Error several_on_one_machine(const std::string& by, std::int32_t n, const std::string& one_each) {
  return {by + " started " + std::to_string(n) +
              " launchers, several of them on one machine; start one on each (" + one_each +
              "), or start the program itself with " + by + ", without `lockstep launch`",
          {}};
}

/// A port that the launchers of one job step agree on without a word, outside the range from which
/// systems take ports for connections.
std::int32_t port_of(const EnvironmentLookup& lookup) {
  constexpr std::int64_t kFirst = 10'000;
  constexpr std::int64_t kPorts = 10'000;  // Even ones; the launchers take the one above.
  constexpr std::int64_t kSteps = 61;
  const std::int64_t job = parse_int(lookup("SLURM_JOB_ID").value_or("0")).value_or(0);
  const std::int64_t step = parse_int(lookup("SLURM_STEP_ID").value_or("0")).value_or(0);
  const std::int64_t mixed = (job % kPorts * kSteps + step % kPorts) % kPorts;
  return static_cast<std::int32_t>(kFirst + 2 * std::max<std::int64_t>(mixed, 0));
}

Result<std::optional<LauncherPlace>> place_by_srun(const EnvironmentLookup& lookup) {
  const Result<std::int32_t> tasks = number_in(lookup, "SLURM_STEP_NUM_TASKS", 1);
  if (!tasks.ok()) return tasks.error();
  if (tasks.value() <= 1) return std::optional<LauncherPlace>();
  const Result<std::int32_t> nodes = number_in(lookup, "SLURM_STEP_NUM_NODES", 1);
  if (!nodes.ok()) return nodes.error();
  if (nodes.value() != tasks.value()) {
    return several_on_one_machine("srun", tasks.value(), "srun --ntasks-per-node=1");
  }
  const Result<std::int32_t> node = number_in(lookup, "SLURM_NODEID", 0);
  if (!node.ok()) return node.error();
  LauncherPlace place;
  place.by = "srun";
  place.n_nodes = nodes.value();
  place.node = node.value();
  place.first_host = first_host_of(lookup("SLURM_STEP_NODELIST").value_or(""));
  place.port = port_of(lookup);
  place.run_id =
      "slurm-" + lookup("SLURM_JOB_ID").value_or("0") + "-" + lookup("SLURM_STEP_ID").value_or("0");
  return std::optional<LauncherPlace>(std::move(place));
}

/// mpirun says how many there are and on which machine this one is, and not where the first one is.
Result<std::optional<LauncherPlace>> place_by_mpirun(const LaunchEnvironment& rank) {
  if (rank.world_size <= 1) return std::optional<LauncherPlace>();
  if (rank.local_world_size != 1) {
    return several_on_one_machine("mpirun", rank.world_size, "mpirun -N 1");
  }
  LauncherPlace place;
  place.by = "mpirun";
  place.n_nodes = rank.world_size;
  place.node = rank.rank;
  return std::optional<LauncherPlace>(std::move(place));
}

}  // namespace

Result<std::optional<LauncherPlace>> read_launcher_place(const EnvironmentLookup& lookup) {
  const Result<std::optional<LaunchEnvironment>> rank = read_launch_environment(lookup);
  if (!rank.ok()) return rank.error();
  if (!rank.value()) return std::optional<LauncherPlace>();
  switch (rank.value()->source) {
    case LauncherKind::kSlurm:
      return place_by_srun(lookup);
    case LauncherKind::kOpenMpi:
    case LauncherKind::kPmi:
      return place_by_mpirun(*rank.value());
    case LauncherKind::kNone:
    case LauncherKind::kTorchrun:
      break;
  }
  return std::optional<LauncherPlace>();
}

std::string first_host_of(std::string_view list) {
  std::string host;
  while (!list.empty() && list.front() != ',') {
    const std::size_t stop = list.find_first_of("[,");
    host += list.substr(0, stop);
    if (stop == std::string_view::npos || list[stop] == ',') return host;
    const std::size_t close = list.find(']', stop);
    const std::size_t end_of_first = list.find_first_of("-,]", stop);
    if (close == std::string_view::npos || end_of_first == stop + 1) return {};
    host += list.substr(stop + 1, end_of_first - stop - 1);
    list.remove_prefix(close + 1);
  }
  return host;
}

}  // namespace lockstep
