// Words of the commands that start real processes.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <utility>

#include "lockstep/harness/cli/grammar/detail/grammar.h"

namespace lockstep::cli {
namespace {

/// A word of torchrun: hyphens and underscores, the last of several counts, and a variable of the
/// environment says what holds without it.
struct TorchrunWords {
  CommandWords& words;

  /// `name` "--nproc-per-node" or, with a letter, "-r,--redirects".
  template <typename T>
  void option(const std::string& name,
              T& to,
              const std::string& value,
              const std::string& text,
              const std::string& without = {}) const {
    words.option(spellings(name), to, value, text, without).envname(variable(name))->take_last();
  }

  void flag(const std::string& name, bool& to, const std::string& text) const {
    words.flag(spellings(name), to, text).envname(variable(name))->take_last();
  }

  static std::string spellings(const std::string& name) {
    std::string other = name.substr(name.find("--"));
    std::replace(other.begin() + 2, other.end(), '-', '_');
    return name.ends_with(other) ? name : name + "," + other;
  }

  static std::string variable(const std::string& name) {
    std::string word = name.substr(name.find("--") + 2);
    std::transform(word.begin(), word.end(), word.begin(), [](char letter) {
      return letter == '-' ? '_' : static_cast<char>(std::toupper(letter));
    });
    return "PET_" + word;
  }
};

void add_machines(CommandWords& own, LaunchArguments& arguments) {
  const TorchrunWords words{own};
  torchrun::Words& to = arguments.words;
  words.option("--nproc-per-node",
               to.nproc_per_node,
               "N",
               "Ranks per machine; or auto, cpu, gpu: one per device or processor");
  words.option("--nnodes", to.nnodes, "N", "Number of machines; of MIN:MAX, MIN counts");
  words.option("--node-rank", to.node_rank, "INDEX", "Index of this machine", "0");
  words.option("--master-addr", to.master_addr, "HOST", "Host of rank 0");
  words.option("--master-port",
               to.master_port,
               "PORT",
               "A free port on that host",
               "29500; any free one with one machine");
  words.flag("--standalone", to.standalone, "One machine, any free port");
  words.option("--rdzv-backend", to.rdzv_backend, "NAME", "How machines meet: static or c10d");
  words.option(
      "--rdzv-endpoint", to.rdzv_endpoint, "HOST:PORT", "Where they meet", "--master-addr");
  words.option("--rdzv-id", to.rdzv_id, "ID", "Name of the run");
  words.option("--rdzv-conf", to.rdzv_conf, "KEY=VALUE,...", "join_timeout counts", "none");
  words.option("--local-addr",
               to.local_addr,
               "HOST",
               "This machine, as ranks get it where no port is named",
               "localhost");
  own.option("--launcher-port",
             arguments.launcher_port,
             "PORT",
             "Port on the host of rank 0 where the launchers meet",
             "the port after --master-port");
  own.option("--join-timeout",
             arguments.join_timeout_s,
             "SECONDS",
             "Deadline for the launchers of all machines to join",
             "300");
}

void add_program(CommandWords& own, torchrun::Words& to) {
  const TorchrunWords words{own};
  own.option(
      "--as", to.as, "NAME", "Dialect of this command line: torchrun or torch.distributed.launch");
  words.flag("-m,--module", to.module, "SCRIPT is a module, as with python -m");
  words.flag("--no-python", to.no_python, "SCRIPT is any program, as it is after --");
  words.flag("--run-path", to.run_path, "Runs SCRIPT with Python's runpy");
  own.flag("--use-env,--use_env",
           to.use_env,
           "With --as torch.distributed.launch: ranks get no --local-rank=R");
  words.option("--role", to.role, "NAME", "ROLE_NAME of all ranks");
  words.flag("--virtual-local-rank",
             to.virtual_local_rank,
             "LOCAL_RANK is 0 everywhere, and each rank sees only its device");
  words.option(
      "--max-restarts", to.max_restarts, "N", "How often all ranks are restarted after a failure");
  words.option(
      "--monitor-interval", to.monitor_interval_s, "SECONDS", "Seconds between health checks");
  own.option("--grace,--shutdown-timeout,--shutdown_timeout",
             to.shutdown_timeout_s,
             "SECONDS",
             "Seconds between SIGTERM and SIGKILL; --shutdown-timeout is the same")
      .envname("PET_SHUTDOWN_TIMEOUT")
      ->take_last();
  words.option(
      "--signals-to-handle", to.signals_to_handle, "NAMES", "Signals that are passed on to ranks");
}

void add_logs(CommandWords& own, torchrun::Words& to) {
  const TorchrunWords words{own};
  words.option("--log-dir",
               to.log_dir,
               "DIR",
               "Folder for the files of --redirects and --tee",
               "a new temporary folder");
  words.option("-r,--redirects",
               to.redirects,
               "STREAMS",
               "Output that goes to files only: 0 none, 1 stdout, 2 stderr, 3 both; or "
               "RANK:STREAMS,...");
  words.option("-t,--tee", to.tee, "STREAMS", "Output that also goes to files, in the same form");
  words.option("--local-ranks-filter",
               to.local_ranks_filter,
               "RANKS",
               "Local ranks whose lines the terminal shows",
               "all");
  words.option(
      "--log-line-prefix-template",
      to.log_line_prefix_template,
      "TEMPLATE",
      "Prefix of each line; ${rank}, ${local_rank}, ${role_name} and ${hostname} are replaced",
      "[rank ${rank}]");
  words.option("--duplicate-stdout-filters",
               to.duplicate_stdout_filters,
               "TEXTS",
               "Lines of --tee with one of these also go to filtered_stdout.log",
               "none");
  words.option("--duplicate-stderr-filters",
               to.duplicate_stderr_filters,
               "TEXTS",
               "The same for stderr",
               "none");
}

/// Those that have no effect here, or cannot be followed: the launcher says so.
void add_others(CommandWords& own, torchrun::Words& to) {
  for (const auto& [name, value] : {std::pair{"--start-method", &to.start_method},
                                    std::pair{"--event-log-handler", &to.event_log_handler},
                                    std::pair{"--numa-binding", &to.numa_binding},
                                    std::pair{"--logs-specs", &to.logs_specs},
                                    std::pair{"--print-completion", &to.print_completion}}) {
    own.hidden(TorchrunWords::spellings(name), *value).envname(TorchrunWords::variable(name));
  }
}

}  // namespace

void add_words(CLI::App& app, HelpPage& page, CrosscheckArguments& to) {
  CommandWords words(
      app, page, "Runs a scenario simulated and on real processes, and compares every event.");
  words.argument("SCENARIO", to.file, "Scenario file (TOML)");
  words.required("--against", to.against, "BACKEND", "gloo or nccl");
  words.option("--variant", to.variant, "NAME", "Variant to run", "the file's base");
  words.list("--set",
             to.settings,
             "KEY=VALUE",
             "Changes a value of the scenario, such as loop.steps=3",
             "as the file says");
  words.option("--nproc", to.nproc, "N", "Number of ranks", "the scenario's")
      .check(from_one_to(kMany));
  words.option("--trace", to.trace, "DIR", "Keeps the real run's events in this folder", "none");
  words
      .option(
          "--timeout", to.timeout_s, "SECONDS", "Deadline for connecting and for each operation")
      .check(from_one_to(kMany));
  words.flag("--laws", to.laws, "Also lists every law with its verdict on the real run");
  words.hidden("--flip-bit", to.flip_bit);
  words.example("Compare with processes that communicate through Gloo",
                "lockstep crosscheck scenarios/jobs/digits.toml --against gloo --nproc 2");
}

void add_words(CLI::App& app, HelpPage& page, LaunchArguments& to) {
  CommandWords words(
      app, page, "Starts a script or PROGRAM as one process per rank, as torchrun does.");
  words.tail("SCRIPT|-- PROGRAM [ARGUMENT...]");
  // Everything after the script is its own.
  app.prefix_command();
  add_machines(words, to);
  add_program(words, to.words);
  add_logs(words, to.words);
  add_others(words, to.words);
  words.option("--backend",
               to.backend,
               "BACKEND",
               "What run_ranks uses in PROGRAM: gloo or nccl",
               "what LOCKSTEP_BACKEND says");
  words.option("--trace", to.trace, "DIR", "Folder where run_ranks writes its traces", "none");
  words.flag("--check-arrivals",
             to.check_arrivals,
             "Compares what arrives with what was sent, in every operation of run_ranks");
  words.example("Start two ranks of a Python script on this machine",
                "lockstep launch --nproc-per-node 2 train.py --epochs 3");
  words.example("Start two ranks of any program",
                "lockstep launch --nproc-per-node 2 -- ./program");
  words.example(
      "Start four, with one restart and their output in files as well",
      "lockstep launch --nproc-per-node 4 --max-restarts 1 --tee 3 --log-dir logs -- ./program");
}

void add_words(CLI::App& app, HelpPage& page, RankArguments& to) {
  CommandWords words(app, page, "Runs one rank of a scenario; a launcher starts it.");
  words.argument("SCENARIO", to.file, "Scenario file (TOML)");
  words.option("--variant", to.variant, "NAME", "Variant to run", "the file's base");
  words.list("--set",
             to.settings,
             "KEY=VALUE",
             "Changes a value of the scenario, such as loop.steps=3",
             "as the file says");
  words
      .option(
          "--timeout", to.timeout_s, "SECONDS", "Deadline for connecting and for each operation")
      .check(from_one_to(kMany));
  words.hidden("--flip-bit", to.flip_bit);
  words.flag("--values", to.values, "Records tensor values in the trace, not only their digests");
  words.hidden("--digests-only", to.digests_only);
}

}  // namespace lockstep::cli
