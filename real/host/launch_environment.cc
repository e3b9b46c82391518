#include "lockstep/real/host/launch_environment.h"

#include <array>
#include <charconv>
#include <cstdlib>

namespace lockstep {

namespace {

// The variables in which one launcher passes a place; an empty name: it does not pass it. The names
// of the job are joined.
struct Dialect {
  LauncherKind source;
  std::string_view rank, world_size, local_rank, local_world_size;
  std::string_view node = {}, job = {}, step = {};
  // A rank alone means nothing: a batch script of Slurm has one.
  bool size_decides = false;
};

constexpr std::array<Dialect, 4> kDialects = {{
    {LauncherKind::kTorchrun, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK"},
    {LauncherKind::kOpenMpi,
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     {},
     "PMIX_NAMESPACE"},
    {LauncherKind::kPmi, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {LauncherKind::kSlurm,
     "SLURM_PROCID",
     "SLURM_STEP_NUM_TASKS",
     "SLURM_LOCALID",
     "SLURM_NTASKS_PER_NODE",
     "SLURM_NODEID",
     "SLURM_JOB_ID",
     "SLURM_STEP_ID",
     true},
}};

Result<std::int32_t> parse_number(std::string_view name, const std::string& text) {
  std::int32_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, value);
  if (code != std::errc() || stop != end || value < 0) {
    return Error{"'" + text + "' is not a whole number, 0 or more", std::string(name)};
  }
  return value;
}

// Writes the number under `name` to `out` if it is there.
Outcome read_number(const EnvironmentLookup& lookup, std::string_view name, std::int32_t& out) {
  if (name.empty()) return success();
  const std::optional<std::string> text = lookup(name);
  if (!text) return success();
  const Result<std::int32_t> value = parse_number(name, *text);
  if (!value.ok()) return value.error();
  out = value.value();
  return success();
}

void read_text(const EnvironmentLookup& lookup, std::string_view name, std::string& out) {
  if (std::optional<std::string> text = lookup(name)) out = std::move(*text);
}

// 1 is on; 0 and nothing are off.
Outcome read_switch(const EnvironmentLookup& lookup, std::string_view name, bool& out) {
  std::string text;
  read_text(lookup, name, text);
  if (text.empty() || text == "0" || text == "1") {
    out = text == "1";
    return success();
  }
  return Error{"'" + text + "' is neither 0 nor 1", std::string(name)};
}

Outcome read_place(const EnvironmentLookup& lookup,
                   const Dialect& dialect,
                   LaunchEnvironment& place) {
  if (!lookup(dialect.rank)) {
    return Error{
        std::string(dialect.world_size) + " is set but " + std::string(dialect.rank) + " is not",
        std::string(dialect.rank)};
  }
  if (!lookup(dialect.world_size)) {
    return Error{
        std::string(dialect.rank) + " is set but " + std::string(dialect.world_size) + " is not",
        std::string(dialect.world_size)};
  }
  place.source = dialect.source;
  std::int32_t no_world = 0;
  if (Outcome read = read_number(lookup, dialect.rank, place.rank); !read.ok()) return read;
  if (Outcome read = read_number(lookup, dialect.world_size, no_world); !read.ok()) return read;
  place.world_size = no_world;
  place.local_rank = place.rank;
  place.local_world_size = place.world_size;
  if (Outcome read = read_number(lookup, dialect.local_rank, place.local_rank); !read.ok()) {
    return read;
  }
  if (Outcome read = read_number(lookup, dialect.local_world_size, place.local_world_size);
      !read.ok()) {
    return read;
  }
  const bool on_one_machine =
      lookup(dialect.local_world_size) && place.local_world_size == place.world_size;
  if (on_one_machine) place.node = 0;
  if (Outcome read = read_number(lookup, dialect.node, place.node); !read.ok()) return read;
  if (place.rank >= place.world_size) {
    return Error{"rank " + std::to_string(place.rank) + " in a world of " +
                     std::to_string(place.world_size) + "; ranks count from 0",
                 std::string(dialect.rank)};
  }
  // Slurm's count of tasks on a node may be a list; torchrun's numbers are of one machine.
  const bool counted =
      dialect.source == LauncherKind::kTorchrun && lookup(dialect.local_world_size);
  if (counted && place.local_rank >= place.local_world_size) {
    return Error{"local rank " + std::to_string(place.local_rank) + " of " +
                     std::to_string(place.local_world_size) + " on this machine; they count from 0",
                 std::string(dialect.local_rank)};
  }
  return success();
}

/// Names of folders are made of it.
void append_plain(const std::string& text, std::string& to) {
  for (const char letter : text) {
    const bool is_plain = (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'z') ||
                          (letter >= 'A' && letter <= 'Z') || letter == '-' || letter == '_';
    to += is_plain ? letter : '_';
  }
}

/// "openmpi-462487553", "slurm-17-0"; unchanged where the launcher does not number its jobs.
void read_job(const EnvironmentLookup& lookup, const Dialect& dialect, std::string& run_id) {
  if (dialect.job.empty()) return;
  const std::optional<std::string> job = lookup(dialect.job);
  if (!job) return;
  run_id = std::string(name_of(dialect.source)) + "-";
  append_plain(*job, run_id);
  const std::optional<std::string> step =
      dialect.step.empty() ? std::nullopt : lookup(dialect.step);
  if (!step) return;
  run_id += "-";
  append_plain(*step, run_id);
}

bool speaks(const EnvironmentLookup& lookup, const Dialect& dialect) {
  return lookup(dialect.world_size) || (!dialect.size_decides && lookup(dialect.rank));
}

}  // namespace

EnvironmentLookup process_environment() {
  return [](std::string_view name) -> std::optional<std::string> {
    const char* value = std::getenv(std::string(name).c_str());  // NOLINT(concurrency-mt-unsafe)
    if (value == nullptr) return std::nullopt;
    return std::string(value);
  };
}

Result<std::optional<LaunchEnvironment>> read_launch_environment(const EnvironmentLookup& lookup) {
  for (const Dialect& dialect : kDialects) {
    if (!speaks(lookup, dialect)) continue;
    LaunchEnvironment place;
    if (Outcome read = read_place(lookup, dialect, place); !read.ok()) return read.error();
    for (const auto& [name, out] : {std::pair{"TORCHELASTIC_RESTART_COUNT", &place.restart_count},
                                    std::pair{"TORCHELASTIC_MAX_RESTARTS", &place.max_restarts},
                                    std::pair{"MASTER_PORT", &place.master_port}}) {
      if (Outcome read = read_number(lookup, name, *out); !read.ok()) return read.error();
    }
    if (place.master_port > 65535) {
      return Error{
          "'" + std::to_string(place.master_port) + "' is not a port; one is between 0 and 65535",
          "MASTER_PORT"};
    }
    read_job(lookup, dialect, place.run_id);
    read_text(lookup, "TORCHELASTIC_RUN_ID", place.run_id);
    read_text(lookup, "MASTER_ADDR", place.master_addr);
    read_text(lookup, "LOCKSTEP_BACKEND", place.backend);
    read_text(lookup, "LOCKSTEP_RENDEZVOUS", place.rendezvous);
    read_text(lookup, "LOCKSTEP_TRACE", place.trace);
    if (Outcome read = read_switch(lookup, "LOCKSTEP_CHECK_ARRIVALS", place.check_arrivals);
        !read.ok()) {
      return read.error();
    }
    return std::optional<LaunchEnvironment>(std::move(place));
  }
  return std::optional<LaunchEnvironment>();
}

std::vector<std::pair<std::string, std::string>> torchrun_variables(
    const LaunchEnvironment& place) {
  if (place.source == LauncherKind::kNone || place.source == LauncherKind::kTorchrun) return {};
  std::vector<std::pair<std::string, std::string>> variables = {
      {"RANK", std::to_string(place.rank)},
      {"LOCAL_RANK", std::to_string(place.local_rank)},
      {"WORLD_SIZE", std::to_string(place.world_size)}};
  if (place.node >= 0) variables.emplace_back("GROUP_RANK", std::to_string(place.node));
  return variables;
}

std::string rendezvous_folder(const LaunchEnvironment& environment,
                              const EnvironmentLookup& lookup) {
  const std::string attempt = "-" + std::to_string(environment.restart_count);
  if (!environment.rendezvous.empty()) return environment.rendezvous + "/attempt" + attempt;
  std::string base = "/tmp";
  read_text(lookup, "TMPDIR", base);
  return base + "/lockstep-" + environment.run_id + "-" + environment.master_addr + "-" +
         std::to_string(environment.master_port) + attempt;
}

}  // namespace lockstep
